#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kMaxNameBytes = 512;
constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 60;

struct FileDType {
  const char* name;
  uint64_t size;  // bytes per element
};
constexpr FileDType kFileDTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                                     {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                     {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

// 0 where the format has no such dtype.
uint64_t FileDTypeSize(std::string_view name) {
  for (const FileDType& dtype : kFileDTypes) {
    if (name == dtype.name) return dtype.size;
  }
  return 0;
}

// Turns the events of the header's JSON into entries, and refuses whatever does not belong there as it comes.
class HeaderEvents : public JsonEvents {
 public:
  HeaderEvents(const std::string& path, TensorFileHeader& header) : path_(path), header_(header) {}

  void OnNull(size_t offset) override { Unexpected("null", offset); }
  void OnBool(bool, size_t offset) override { Unexpected("true or false", offset); }
  void OnNegative(int64_t, size_t offset) override { Unexpected("a number with a minus sign", offset); }
  void OnDouble(double, size_t offset) override { Unexpected("a number with a fraction or exponent", offset); }
  void OnBigInteger(std::string digits, size_t offset) override {
    Reject(offset, StrCat("the integer ", Excerpt(digits), " does not fit 64 bits"));
  }

  void OnUnsigned(uint64_t value, size_t offset) override {
    if (place_ == Place::kShape) {
      if (entry_.shape.rank() == kMaxRank) Reject(offset, StrCat("has more than ", kMaxRank, " dimensions"));
      if (value > kMaxTensorBytes) Reject(offset, StrCat("the size ", value, " in its shape is too large"));
      entry_.shape.Append(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (num_offsets_ == 2) Reject(offset, "data_offsets has more than two numbers");
      (num_offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      Unexpected("a number", offset);
    }
  }

  void OnString(std::string value, size_t offset) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace(std::move(key_), std::move(value));
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      if (FileDTypeSize(value) == 0) Reject(offset, StrCat("unknown dtype ", Shown(value)));
      entry_.dtype = std::move(value);
    } else {
      Unexpected("a string", offset);
    }
  }

  void OnKey(std::string key, size_t offset) override {
    key_ = std::move(key);
    if (place_ == Place::kTop) {
      entry_ = {};
      entry_.name = key_;
      num_offsets_ = 0;
      fields_.clear();
      if (!names_.insert(key_).second) Reject(offset, "is there twice");
      if (const std::string problem = NameProblem(key_); !problem.empty()) Reject(offset, problem);
    } else if (place_ == Place::kMetadata) {
      if (header_.metadata.count(key_) > 0) {
        Fail(ErrorKind::kData, path_, ": header byte ", offset, ": ", kMetadataKey, " has the key ", Shown(key_),
             " twice");
      }
      if (header_.metadata.size() == kMaxTensors) {
        Fail(ErrorKind::kData, path_, ": ", kMetadataKey, " has more than ", kMaxTensors, " strings");
      }
    } else {
      if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
        Reject(offset, StrCat("unknown field ", Shown(key_)));
      }
      if (!fields_.insert(key_).second) Reject(offset, StrCat("has the field ", Shown(key_), " twice"));
    }
  }

  void OnObjectBegin(size_t offset) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
    } else {
      Unexpected("an object", offset);
    }
  }

  void OnObjectEnd(size_t offset) override {
    if (place_ == Place::kTensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (fields_.count(field) == 0) Reject(offset, StrCat("has no ", field));
      }
      if (header_.entries.size() == kMaxTensors) {
        Fail(ErrorKind::kData, path_, ": has more than ", kMaxTensors, " tensors");
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = Place::kTop;
  }

  void OnArrayBegin(size_t offset) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      Unexpected("an array", offset);
    }
  }

  void OnArrayEnd(size_t offset) override {
    if (place_ == Place::kOffsets && num_offsets_ != 2) Reject(offset, "data_offsets has fewer than two numbers");
    place_ = Place::kTensor;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  [[noreturn]] void Reject(size_t offset, const std::string& reason) const {
    Fail(ErrorKind::kData, path_, ": header byte ", offset, ": tensor ", Shown(entry_.name), ": ", reason);
  }

  // A value of a kind that cannot stand where it does.
  [[noreturn]] void Unexpected(const char* what, size_t offset) const {
    switch (place_) {
      case Place::kStart:
        Fail(ErrorKind::kData, path_, ": the header is ", what, ", not an object");
      case Place::kTop:
        if (key_ == kMetadataKey) {
          Fail(ErrorKind::kData, path_, ": header byte ", offset, ": ", kMetadataKey, " must be an object, not ", what);
        }
        Reject(offset, StrCat("must be described by an object, not ", what));
      case Place::kMetadata:
        Fail(ErrorKind::kData, path_, ": header byte ", offset, ": ", kMetadataKey, " maps ", Shown(key_), " to ", what,
             ", not to a string");
      case Place::kTensor:
        Reject(offset, StrCat(key_, " must be ", key_ == "dtype" ? "a string" : "an array", ", not ", what));
      case Place::kShape:
        Reject(offset, StrCat("shape must hold plain unsigned integers, not ", what));
      case Place::kOffsets:
        Reject(offset, StrCat("data_offsets must hold plain unsigned integers, not ", what));
    }
    Reject(offset, "is not understood");
  }

  const std::string& path_;
  TensorFileHeader& header_;
  Place place_ = Place::kStart;
  std::string key_;
  std::unordered_set<std::string> names_;
  // The tensor being described.
  TensorFileEntry entry_;
  int num_offsets_ = 0;
  std::unordered_set<std::string> fields_;
};

// bytes = product(shape) · size of the dtype, within `data_bytes`, without a multiplication that wraps round.
void CheckExtent(const std::string& path, const TensorFileEntry& entry, uint64_t data_bytes) {
  if (entry.begin > entry.end) {
    RejectTensor(path, entry, StrCat("data_offsets [", entry.begin, ", ", entry.end, "] end before they begin"));
  }
  if (entry.end > data_bytes) {
    RejectTensor(path, entry,
                 StrCat("data_offsets [", entry.begin, ", ", entry.end, "] reach beyond the ", data_bytes,
                        " bytes of tensors in the file"));
  }
  uint64_t bytes = FileDTypeSize(entry.dtype);
  bool empty = false;
  for (int64_t size : entry.shape) {
    empty = empty || size == 0;
    if (size == 0) continue;
    if (bytes > kMaxTensorBytes / static_cast<uint64_t>(size)) {
      RejectTensor(path, entry, StrCat("shape ", entry.shape, " overflows"));
    }
    bytes *= static_cast<uint64_t>(size);
  }
  if (empty) bytes = 0;
  if (entry.end - entry.begin != bytes) {
    RejectTensor(path, entry,
                 StrCat(entry.dtype, entry.shape, " takes ", bytes, " bytes, but data_offsets [", entry.begin, ", ",
                        entry.end, "] hold ", entry.end - entry.begin));
  }
}

// Sorts the entries by offset and checks that they tile [0, data_bytes).
void CheckTiling(const std::string& path, std::vector<TensorFileEntry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const TensorFileEntry& a, const TensorFileEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const TensorFileEntry& entry : entries) {
    if (entry.begin != at) {
      RejectTensor(path, entry,
                   StrCat("begins at ", entry.begin, entry.begin < at ? ", inside" : ", with a hole after",
                          " the tensor before it, which ends at ", at));
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    Fail(ErrorKind::kData, path, ": the last tensor ends at byte ", at, " of ", data_bytes,
         ": the rest belongs to no tensor");
  }
}

}  // namespace

std::string Shown(std::string_view name) { return "'" + Excerpt(name) + "'"; }

std::string NameProblem(std::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return StrCat("the name has ", name.size(), " bytes, more than ", kMaxNameBytes);
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool c1 = c == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0;
    if (c < 0x20 || c == 0x7f || c1) return StrCat("the name has a control character at byte ", i);
  }
  return "";
}

int64_t FindBadBool(const Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw_data());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (bytes[i] > 1) return i;
  }
  return -1;
}

std::string BadBool(const Tensor& tensor, int64_t i) {
  return StrCat("BOOL element ", i, " is ", int{static_cast<const uint8_t*>(tensor.raw_data())[i]}, ", not 0 or 1");
}

[[noreturn]] void RejectTensor(const std::string& path, const TensorFileEntry& entry, const std::string& reason) {
  Fail(ErrorKind::kData, path, ": tensor ", Shown(entry.name), ": ", reason);
}

TensorFileHeader ReadHeader(const FileReader& file) {
  const std::string& path = file.path();
  if (file.size() < 8) {
    Fail(ErrorKind::kData, path, ": has ", file.size(), " bytes; a safetensors file begins with 8 for its header's ",
         "length");
  }
  uint64_t length;
  file.ReadAt(0, &length, 8);
  if (length > kMaxHeaderBytes) {
    Fail(ErrorKind::kData, path, ": header length ", length, " is more than ", kMaxHeaderBytes,
         ": not a safetensors file");
  }
  if (length > file.size() - 8) {
    Fail(ErrorKind::kData, path, ": header length ", length, " is more than the ", file.size() - 8,
         " bytes that follow: truncated, or not a safetensors file");
  }
  std::string text(length, '\0');
  file.ReadAt(8, text.data(), length);
  if (text.empty() || text[0] != '{') Fail(ErrorKind::kData, path, ": the header does not begin with '{'");

  TensorFileHeader header;
  header.data_begin = 8 + length;
  header.file_bytes = file.size();
  header.stamp = file.Stamp();
  HeaderEvents events(path, header);
  ParseJsonEvents(text, path + ": header", events);
  // White space that JSON allows and the format's padding does not.
  if (text.find_first_not_of(' ', text.rfind('}') + 1) != std::string::npos) {
    Fail(ErrorKind::kData, path, ": the header is padded with something else than spaces");
  }
  const uint64_t data_bytes = header.file_bytes - header.data_begin;
  for (const TensorFileEntry& entry : header.entries) CheckExtent(path, entry, data_bytes);
  CheckTiling(path, header.entries, data_bytes);
  return header;
}

}  // namespace crosstalk
