// The safetensors format: named tensors and a few strings in one file, read and written by its strict rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct TensorFile {
  std::string path;                             // where it was read from, for messages
  std::vector<NamedTensor> tensors;             // ordered by name
  std::map<std::string, std::string> metadata;  // the file's __metadata__

  // Null if there is no tensor of that name.
  const Tensor* Find(std::string_view name) const;
  // Error(kData) naming the file and the tensor.
  const Tensor& At(std::string_view name) const;
};

// One tensor as the header describes it.
struct TensorFileEntry {
  std::string name;
  std::string dtype;  // as in the file: "F32", "BF16", …
  Shape shape;
  uint64_t begin;  // bytes, from the end of the header
  uint64_t end;
};

struct TensorFileHeader {
  std::vector<TensorFileEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  uint64_t data_begin;  // byte of the file where the tensors begin
  uint64_t file_bytes;
  FileStamp stamp;  // of the file, when it was read
};

// Reads and checks the header, allocating nothing for the tensors. The rules are the format's: 8 bytes little-endian
// N ≤ 100,000,000 and within the file; N bytes of UTF-8 JSON that begin with '{' and may end with spaces;
// __metadata__ maps strings to strings; every other member has exactly dtype, shape and data_offsets; the tensors
// tile the rest of the file without hole or overlap; bytes = product(shape)·size of the dtype. Refused beyond the
// format: duplicate keys, unknown fields, integers not written as plain unsigned ones, rank > 8, more than 100,000
// tensors or strings, names over 512 bytes or with control characters.
// Throws Error(kData): "FILE: tensor 'NAME': …".
TensorFileHeader ReadSafetensorsHeader(const std::string& path);

// Reads all tensors. F32, F64, I32, I64 and BOOL (each byte 0 or 1) map to our dtypes; F16 and BF16 are converted to
// float32, exactly. Any other dtype is Error(kData) naming the tensor, as is all that the header's rules refuse.
TensorFile ReadSafetensors(const std::string& path);
// Only the tensors named; a name that the file has not is Error(kData).
TensorFile ReadSafetensors(const std::string& path, std::span<const std::string> names);

// Tensors of float32 that a file holds in 16 bits an element, rounded to the nearest, by name.
using HalfTensors = std::map<std::string, HalfFormat>;

// Writes the file atomically, its bytes a function of the arguments alone: larger elements first, then by name (so
// every tensor is aligned to its element), the header padded with spaces to a multiple of 8. Tensors need not be
// contiguous. Throws Error(kUsage) for what the reader would refuse (a name twice, say), Error(kResource) when the
// disk is full.
void WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {}, const HalfTensors& halves = {});
// The same bytes into a file that is open already.
void WriteSafetensors(FileWriter& file, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {}, const HalfTensors& halves = {});

// A tensor whose elements are there only when they are asked for.
struct TensorSource {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<Tensor()> read;
};
// The same bytes; reads one tensor after the other, each once, in the order of SortAsInFile.
void WriteSafetensors(FileWriter& file, const std::vector<TensorSource>& tensors,
                      const std::map<std::string, std::string>& metadata = {}, const HalfTensors& halves = {});
// Larger elements first, then by name.
void SortAsInFile(std::vector<NamedTensor>& tensors);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The header of a safetensors file: what stands in it, and the rules that reading and writing share.

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensors = 100'000;  // and as many strings in __metadata__
inline constexpr char kMetadataKey[] = "__metadata__";

// A tensor of a file that is read as far as its header.
struct TensorInFile {
  std::string path;
  const TensorFileHeader* header;
  const TensorFileEntry* entry;
};
// As ReadSafetensors does; Error(kData) also for a file that has changed since its header was read.
Tensor ReadTensor(const TensorInFile& one);
// Whether two tensors have one dtype, shape and bytes, of which it reads a piece at a time.
bool AreSame(const TensorInFile& a, const TensorInFile& b);

// Reads and checks it as ReadSafetensorsHeader says.
TensorFileHeader ReadHeader(const FileReader& file);

// A name or a text of the file, as messages show it.
std::string Shown(std::string_view name);
// Why a tensor may not have this name; empty if it may.
std::string NameProblem(std::string_view name);
// The first element of a bool tensor (contiguous) that is neither 0 nor 1, -1 if there is none; and the words for it.
int64_t FindBadBool(const Tensor& tensor);
std::string BadBool(const Tensor& tensor, int64_t i);
// Error(kData) that names file and tensor.
[[noreturn]] void RejectTensor(const std::string& path, const TensorFileEntry& entry, const std::string& reason);

}  // namespace crosstalk
