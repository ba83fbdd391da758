#include <cstring>
#include <vector>

#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/packed.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

uint64_t BytesOf(const Tensor& tensor) { return static_cast<uint64_t>(tensor.num_elements()) * SizeOf(tensor.dtype()); }

void RequireSame(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  Require(a.size() == b.size(), a.size(), " arrays became ", b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto& [name, tensor] = a[i];
    const Tensor& other = b[i].tensor;
    Require(name == b[i].name && tensor.dtype() == other.dtype() && tensor.shape() == other.shape(), "array ", i,
            " is another");
    Require(BytesOf(tensor) == 0 || std::memcmp(tensor.raw_data(), other.raw_data(), BytesOf(tensor)) == 0, "array ", i,
            " has other values");
  }
}

}  // namespace

// An .npy or an .npz, which its first bytes tell. What is read takes no more than its bytes can become (f2 twice that),
// and is written as a file of either form that reads to the same.
void FuzzNumpy(std::string_view input) {
  static const TempDir directory;
  WriteBytes(directory / "X", input);
  TensorFile file;
  if (!Accepts([&] { file = ReadNumpy(directory / "X"); })) return;
  uint64_t bytes = 0;
  for (const NamedTensor& one : file.tensors) {
    Require(one.tensor.is_contiguous(), "an array with gaps");
    bytes += BytesOf(one.tensor);
  }
  Require(bytes <= 2 * MostUnpacked(input.size()), bytes, " bytes of arrays from ", input.size());
  WriteNumpy(directory / "all.npz", file.tensors);
  RequireSame(file.tensors, ReadNumpy(directory / "all.npz").tensors);
  if (file.tensors.size() != 1) return;
  WriteNumpy(directory / "one.npy", file.tensors);
  std::vector<NamedTensor> one = ReadNumpy(directory / "one.npy").tensors;
  one[0].name = file.tensors[0].name;
  RequireSame(file.tensors, one);
}

}  // namespace crosstalk::fuzz
