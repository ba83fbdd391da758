// The header of a safetensors file: what stands in it, and the rules that reading and writing share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensors = 100'000;  // and as many strings in __metadata__
inline constexpr char kMetadataKey[] = "__metadata__";

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
