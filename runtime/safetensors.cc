#include "crosstalk/runtime/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The dtype in memory of what has the same bits there.
std::optional<DType> SameBitsDType(std::string_view name) {
  if (name == "F32") return DType::kFloat32;
  if (name == "F64") return DType::kFloat64;
  if (name == "I32") return DType::kInt32;
  if (name == "I64") return DType::kInt64;
  if (name == "BOOL") return DType::kBool;
  return std::nullopt;
}

const char* FileDTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kFloat64:
      return "F64";
    case DType::kInt32:
      return "I32";
    case DType::kInt64:
      return "I64";
    case DType::kBool:
      return "BOOL";
    case DType::kBFloat16:
      return "BF16";
  }
  return "?";
}

std::optional<HalfFormat> HalfFormatOf(std::string_view name) {
  if (name == "F16") return HalfFormat::kFloat16;
  if (name == "BF16") return HalfFormat::kBFloat16;
  return std::nullopt;
}

// Elements that are read and converted at a time.
constexpr size_t kPiece = 1 << 19;

Tensor ReadTensor(const FileReader& file, const TensorFileHeader& header, const TensorFileEntry& entry) {
  const uint64_t offset = header.data_begin + entry.begin;
  if (const std::optional<DType> dtype = SameBitsDType(entry.dtype)) {
    const Tensor tensor = Tensor::Empty(entry.shape, *dtype);
    file.ReadAt(offset, tensor.raw_data(), entry.end - entry.begin);
    if (*dtype == DType::kBool) {
      const int64_t bad = FindBadBool(tensor);
      if (bad >= 0) RejectTensor(file.path(), entry, BadBool(tensor, bad));
    }
    return tensor;
  }
  const std::optional<HalfFormat> half = HalfFormatOf(entry.dtype);
  if (!half) {
    RejectTensor(
        file.path(), entry,
        StrCat("dtype ", entry.dtype, " cannot be loaded here; F32, F64, F16, BF16, I32, ", "I64 and BOOL can"));
  }
  const Tensor tensor = Tensor::Empty(entry.shape, DType::kFloat32);
  const auto elements = static_cast<size_t>(tensor.num_elements());
  std::vector<uint16_t> narrow(std::min(elements, kPiece));
  for (size_t at = 0; at < elements; at += kPiece) {
    const size_t count = std::min(kPiece, elements - at);
    file.ReadAt(offset + 2 * at, narrow.data(), 2 * count);
    std::transform(narrow.data(), narrow.data() + count, tensor.data<float>() + at,
                   [&](uint16_t bits) { return Widen(*half, bits); });
  }
  return tensor;
}

// The file, if it is the one whose header was read.
void CheckUnchanged(const FileReader& file, const TensorFileHeader& header) {
  if (file.Stamp() != header.stamp) Fail(ErrorKind::kData, file.path(), ": has changed while it was read");
}

// ---- writing ----

void CheckWritable(const std::string& path, std::span<const TensorSource> tensors,
                   const std::map<std::string, std::string>& metadata, const HalfTensors& halves) {
  CROSSTALK_CHECK(tensors.size() <= kMaxTensors, path, ": ", tensors.size(), " tensors are more than ", kMaxTensors);
  CROSSTALK_CHECK(metadata.size() <= kMaxTensors, path, ": ", metadata.size(), " strings of metadata are more than ",
                  kMaxTensors);
  std::unordered_set<std::string_view> names;
  for (const auto& [name, dtype, shape, read] : tensors) {
    const std::string problem = NameProblem(name);
    CROSSTALK_CHECK(problem.empty(), path, ": tensor ", Shown(name), ": ", problem);
    CROSSTALK_CHECK(FindInvalidUtf8(name) == std::string::npos, path, ": tensor ", Shown(name),
                    ": the name is not UTF-8");
    CROSSTALK_CHECK(name != kMetadataKey, path, ": a tensor cannot be called ", kMetadataKey);
    CROSSTALK_CHECK(names.insert(name).second, path, ": tensor ", Shown(name), ": is there twice");
    CROSSTALK_CHECK(halves.count(name) == 0 || dtype == DType::kFloat32, path, ": tensor ", Shown(name), ": ", dtype,
                    " cannot be written in 16 bits");
  }
  for (const auto& [key, value] : metadata) {
    CROSSTALK_CHECK(FindInvalidUtf8(key) == std::string::npos && FindInvalidUtf8(value) == std::string::npos, path,
                    ": the metadata ", Shown(key), " is not UTF-8");
  }
}

bool ComesFirst(size_t bytes_a, std::string_view name_a, size_t bytes_b, std::string_view name_b) {
  return bytes_a != bytes_b ? bytes_a > bytes_b : name_a < name_b;
}

// A tensor and its type in the file.
struct WrittenTensor {
  const TensorSource* source;
  std::optional<HalfFormat> half;

  const char* dtype() const {
    if (half) return *half == HalfFormat::kFloat16 ? "F16" : "BF16";
    return FileDTypeName(source->dtype);
  }
  size_t element_bytes() const { return half ? 2 : SizeOf(source->dtype); }
  size_t bytes() const { return static_cast<size_t>(source->shape.NumElements()) * element_bytes(); }
};

// The length and the JSON, padded, for tensors in the order of their bytes.
std::string HeaderBytes(const std::string& path, const std::vector<WrittenTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json::Object members;
  if (!metadata.empty()) {
    Json::Object strings;
    for (const auto& [key, value] : metadata) strings.emplace_back(key, value);
    members.emplace_back(kMetadataKey, std::move(strings));
  }
  uint64_t offset = 0;
  for (const WrittenTensor& written : tensors) {
    const uint64_t end = offset + written.bytes();
    Json::Array shape(written.source->shape.begin(), written.source->shape.end());
    members.emplace_back(written.source->name, Json::MakeObject({{"dtype", written.dtype()},
                                                                 {"shape", std::move(shape)},
                                                                 {"data_offsets", Json::MakeArray({offset, end})}}));
    offset = end;
  }
  std::string text = Json(std::move(members)).Dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  CROSSTALK_CHECK(text.size() <= kMaxHeaderBytes, path, ": the header would take ", text.size(), " bytes, more than ",
                  kMaxHeaderBytes);
  const uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

void WriteHalves(FileWriter& file, const Tensor& dense, HalfFormat format) {
  const float* const values = dense.data<float>();
  const auto elements = static_cast<size_t>(dense.num_elements());
  std::vector<uint16_t> bits;
  for (size_t begin = 0; begin < elements; begin += kPiece) {
    const size_t end = std::min(elements, begin + kPiece);
    bits.resize(end - begin);
    std::transform(values + begin, values + end, bits.begin(), [&](float value) { return Narrow(format, value); });
    file.Write(bits.data(), bits.size() * 2);
  }
}

void WriteSources(FileWriter& file, std::span<const TensorSource> tensors,
                  const std::map<std::string, std::string>& metadata, const HalfTensors& halves) {
  CheckWritable(file.path(), tensors, metadata, halves);
  std::vector<WrittenTensor> ordered;
  for (const TensorSource& tensor : tensors) {
    const auto half = halves.find(tensor.name);
    ordered.push_back({&tensor, half == halves.end() ? std::nullopt : std::optional(half->second)});
  }
  std::sort(ordered.begin(), ordered.end(), [](const WrittenTensor& a, const WrittenTensor& b) {
    return ComesFirst(a.element_bytes(), a.source->name, b.element_bytes(), b.source->name);
  });
  file.Write(HeaderBytes(file.path(), ordered, metadata));
  for (const WrittenTensor& written : ordered) {
    const Tensor dense = written.source->read().Contiguous();
    if (dense.dtype() == DType::kBool) {
      const int64_t bad = FindBadBool(dense);
      CROSSTALK_CHECK(bad < 0, file.path(), ": tensor ", Shown(written.source->name), ": ", BadBool(dense, bad));
    }
    if (written.half) {
      WriteHalves(file, dense, *written.half);
    } else {
      file.Write(dense.raw_data(), written.bytes());
    }
  }
}

}  // namespace

const Tensor* TensorFile::Find(std::string_view name) const {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const NamedTensor& a, std::string_view b) { return a.name < b; });
  return found != tensors.end() && found->name == name ? &found->tensor : nullptr;
}

const Tensor& TensorFile::At(std::string_view name) const {
  const Tensor* tensor = Find(name);
  if (tensor == nullptr) Fail(ErrorKind::kData, path, ": has no tensor ", Shown(name));
  return *tensor;
}

TensorFileHeader ReadSafetensorsHeader(const std::string& path) { return ReadHeader(FileReader(path)); }

TensorFile ReadSafetensors(const std::string& path) {
  const FileReader file(path);
  TensorFileHeader header = ReadHeader(file);
  std::sort(header.entries.begin(), header.entries.end(),
            [](const TensorFileEntry& a, const TensorFileEntry& b) { return a.name < b.name; });
  TensorFile result{path, {}, std::move(header.metadata)};
  for (const TensorFileEntry& entry : header.entries) {
    result.tensors.push_back({entry.name, ReadTensor(file, header, entry)});
  }
  return result;
}

TensorFile ReadSafetensors(const std::string& path, std::span<const std::string> names) {
  const FileReader file(path);
  TensorFileHeader header = ReadHeader(file);
  std::map<std::string_view, const TensorFileEntry*> entries;
  for (const TensorFileEntry& entry : header.entries) entries.emplace(entry.name, &entry);
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  TensorFile result{path, {}, std::move(header.metadata)};
  for (const std::string& name : sorted) {
    const auto entry = entries.find(name);
    if (entry == entries.end()) Fail(ErrorKind::kData, path, ": has no tensor ", Shown(name));
    result.tensors.push_back({name, ReadTensor(file, header, *entry->second)});
  }
  return result;
}

Tensor ReadTensor(const TensorInFile& one) {
  const FileReader file(one.path);
  CheckUnchanged(file, *one.header);
  Tensor tensor = ReadTensor(file, *one.header, *one.entry);
  CheckUnchanged(file, *one.header);
  return tensor;
}

bool AreSame(const TensorInFile& a, const TensorInFile& b) {
  if (a.entry->dtype != b.entry->dtype || a.entry->shape != b.entry->shape) return false;
  const FileReader file_a(a.path), file_b(b.path);
  CheckUnchanged(file_a, *a.header);
  CheckUnchanged(file_b, *b.header);
  std::string piece_a, piece_b;
  const uint64_t bytes = a.entry->end - a.entry->begin;
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const uint64_t size = std::min<uint64_t>(kPiece, bytes - at);
    piece_a.resize(size);
    piece_b.resize(size);
    file_a.ReadAt(a.header->data_begin + a.entry->begin + at, piece_a.data(), size);
    file_b.ReadAt(b.header->data_begin + b.entry->begin + at, piece_b.data(), size);
    if (piece_a != piece_b) return false;
  }
  return true;
}

void WriteSafetensors(FileWriter& file, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata, const HalfTensors& halves) {
  std::vector<TensorSource> sources;
  for (const NamedTensor& one : tensors) {
    CROSSTALK_CHECK(one.tensor.defined(), file.path(), ": tensor ", Shown(one.name), ": is undefined");
    sources.push_back({one.name, one.tensor.dtype(), one.tensor.shape(), [&one] { return one.tensor; }});
  }
  WriteSources(file, sources, metadata, halves);
}

void WriteSafetensors(FileWriter& file, const std::vector<TensorSource>& tensors,
                      const std::map<std::string, std::string>& metadata, const HalfTensors& halves) {
  WriteSources(file, tensors, metadata, halves);
}

void SortAsInFile(std::vector<NamedTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return ComesFirst(SizeOf(a.tensor.dtype()), a.name, SizeOf(b.tensor.dtype()), b.name);
  });
}

void WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata, const HalfTensors& halves) {
  AtomicFile file(path);
  WriteSafetensors(file.writer(), tensors, metadata, halves);
  file.Commit();
}

}  // namespace crosstalk
