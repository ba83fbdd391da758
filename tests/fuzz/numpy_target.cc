#include <vector>

#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/packed.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
// An .npy or an .npz, which its first bytes tell. What is read takes no more than its bytes can become (f2 twice that),
// and is written as a file of either form that reads to the same.
void FuzzNumpy(std::string_view input) {
  static const TempDir directory;
  directory.Put("X", input);
  TensorFile file;
  if (!Accepts([&] { file = ReadNumpy(directory / "X"); })) return;
  uint64_t bytes = 0;
  for (const NamedTensor& one : file.tensors) {
    Require(one.tensor.is_contiguous(), "an array with gaps");
    bytes += BytesOf(one.tensor);
  }
  Require(bytes <= 2 * MostUnpacked(input.size()), bytes, " bytes of arrays from ", input.size());
  WriteNumpy(directory / "all.npz", file.tensors);
  RequireSameTensors(file.tensors, ReadNumpy(directory / "all.npz").tensors);
  if (file.tensors.size() != 1) return;
  WriteNumpy(directory / "one.npy", file.tensors);
  std::vector<NamedTensor> one = ReadNumpy(directory / "one.npy").tensors;
  one[0].name = file.tensors[0].name;
  RequireSameTensors(file.tensors, one);
}

}  // namespace crosstalk::fuzz
