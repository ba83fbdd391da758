#include "crosstalk/runtime/numpy_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written little-endian");

constexpr std::string_view kMagic = "\x93NUMPY", kZipMagic = "PK";
constexpr std::string_view kNpyEnd = ".npy", kNpzEnd = ".npz";
constexpr size_t kMaxHeader = 10'000;  // as NumPy has it
constexpr size_t kElementsAlign = 64;  // of the first element in the file

// What an .npy says of its array.
struct ArrayHeader {
  std::string dtype;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header's text: a Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  ArrayHeader Parse() {
    ArrayHeader header;
    bool has_dtype = false, has_order = false, has_shape = false;
    Expect('{');
    while (!Take('}')) {
      const std::string key = String();
      Expect(':');
      bool* const has = key == "descr"           ? &has_dtype
                        : key == "fortran_order" ? &has_order
                        : key == "shape"         ? &has_shape
                                                 : nullptr;
      if (has == nullptr || std::exchange(*has, true)) Reject("the key ", Quoted(key), has == nullptr ? "" : " twice");
      if (has == &has_dtype) {
        if (Next() == '[' || Next() == '(') Reject("a structured dtype, which is not loaded");
        header.dtype = String();
      } else if (has == &has_order) {
        header.fortran_order = Word("True");
        if (!header.fortran_order && !Word("False")) Reject("a fortran_order that is neither True nor False");
      } else {
        header.shape = Sizes();
      }
      if (!Take(',') && Next() != '}') Reject("no comma after ", key);
    }
    if (Next() != '\0' || at_ != text_.size()) Reject("more after its dictionary");
    if (!has_dtype || !has_order || !has_shape) Reject("not all of descr, fortran_order and shape");
    return header;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Reject(const Parts&... parts) const {
    Fail(ErrorKind::kData, where_, ": the array's header has ", parts..., ", at byte ", at_, " of ", Quoted(text_));
  }

  // The next byte that is no white space; 0 at the end.
  char Next() {
    while (at_ < text_.size() && IsAsciiSpace(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    const bool is_next = Next() == c;
    at_ += is_next;
    return is_next;
  }
  void Expect(char c) {
    if (!Take(c)) Reject("no ", c);
  }
  bool Word(std::string_view word) {
    Next();
    const bool is_next = text_.substr(at_).starts_with(word);
    at_ += is_next ? word.size() : 0;
    return is_next;
  }
  std::string String() {
    const char quote = Next();
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) Reject("no string");
    std::string string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return string;
  }
  // "()", "(3,)", "(3, 4)"; the numbers of Python 2 may end in L.
  std::vector<int64_t> Sizes() {
    std::vector<int64_t> sizes;
    Expect('(');
    while (!Take(')')) {
      int64_t size = 0;
      const size_t begin = (Next(), at_);
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (size > (INT64_MAX - 9) / 10) Reject("a size that is too large");
        size = 10 * size + (text_[at_] - '0');
      }
      if (at_ == begin) Reject("a size that is no number");
      Take('L');
      sizes.push_back(size);
      const bool comma = Take(',');
      if (!comma && (sizes.size() == 1 || Next() != ')')) Reject("no comma after a size");
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

// An element's type in a file, and in memory.
struct ElementType {
  size_t bytes;
  DType dtype;
};

ElementType TypeOf(const std::string& dtype, const std::string& where) {
  constexpr struct {
    std::string_view name;
    ElementType type;
  } kTypes[] = {{"f2", {2, DType::kFloat32}}, {"f4", {4, DType::kFloat32}}, {"f8", {8, DType::kFloat64}},
                {"i4", {4, DType::kInt32}},   {"i8", {8, DType::kInt64}},   {"b1", {1, DType::kBool}}};
  const bool ordered = !dtype.empty() && std::string_view("<>=|").find(dtype[0]) != std::string_view::npos;
  for (const auto& [name, type] : kTypes) {
    if (ordered && dtype.substr(1) == name && (dtype[0] != '|' || type.bytes == 1)) return type;
  }
  const bool objects = dtype.ends_with('O');
  Fail(ErrorKind::kData, where, ": the dtype ", Quoted(dtype), " cannot be loaded here",
       objects ? ": it is of Python objects, which NumPy would unpickle" : "", "; f2, f4, f8, i4, i8 and b1 can");
}

// An array's file or member, read to its end.
class ArrayReader {
 public:
  // Reads an array of `size` bytes. `where` names it.
  ArrayReader(PackedReader& bytes, uint64_t size, std::string where)
      : bytes_(bytes), left_(size), where_(std::move(where)) {}

  Tensor Read() {
    const ArrayHeader header = ReadHeader();
    const ElementType type = TypeOf(header.dtype, where_);
    if (header.shape.size() > kMaxRank) {
      Fail(ErrorKind::kData, where_, ": has ", header.shape.size(), " dimensions, more than ", kMaxRank);
    }
    CheckSize(header.shape, type);
    // In Fortran order the first dimension is the contiguous one.
    Shape shape(header.shape);
    if (header.fortran_order) std::reverse(&shape[0], &shape[0] + shape.rank());
    Tensor tensor = Tensor::Empty(shape, type.dtype);
    const auto count = static_cast<size_t>(tensor.num_elements());
    if (type.bytes == 2) {
      std::vector<uint16_t> narrow(count);
      Take(narrow.data(), count * 2);
      if (header.dtype[0] == '>') Swap(narrow.data(), count);
      std::transform(narrow.begin(), narrow.end(), tensor.data<float>(),
                     [](uint16_t bits) { return Widen(HalfFormat::kFloat16, bits); });
    } else {
      Take(tensor.raw_data(), count * type.bytes);
      if (header.dtype[0] == '>' && type.bytes == 4) Swap(static_cast<uint32_t*>(tensor.raw_data()), count);
      if (header.dtype[0] == '>' && type.bytes == 8) Swap(static_cast<uint64_t*>(tensor.raw_data()), count);
    }
    if (type.dtype == DType::kBool) {
      const int64_t bad = FindBadBool(tensor);
      if (bad >= 0) Fail(ErrorKind::kData, where_, ": ", BadBool(tensor, bad));
    }
    if (!header.fortran_order) return tensor;
    std::vector<int> order(header.shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(order.size() - 1 - i);
    return tensor.Permute(order).Contiguous();
  }

  uint32_t crc32() const { return crc_.value(); }

 private:
  void Take(void* out, size_t size) {
    if (size > left_ || bytes_.Read(out, size) != size) Fail(ErrorKind::kData, where_, ": ends too early: truncated");
    left_ -= size;
    crc_.Add({static_cast<const char*>(out), size});
  }

  ArrayHeader ReadHeader() {
    char begin[8];
    Take(begin, sizeof begin);
    if (std::string_view(begin, kMagic.size()) != kMagic) {
      Fail(ErrorKind::kData, where_, ": does not begin as an .npy does");
    }
    const int version = begin[6];
    if (version < 1 || version > 3 || begin[7] != 0) {
      Fail(ErrorKind::kData, where_, ": is of version ", version, ".", int{begin[7]}, "; 1.0, 2.0 and 3.0 are known");
    }
    uint32_t length = 0;
    Take(&length, version == 1 ? 2 : 4);
    if (length > kMaxHeader) {
      Fail(ErrorKind::kData, where_, ": a header of ", length, " bytes, more than ", kMaxHeader);
    }
    std::string text(length, '\0');
    Take(text.data(), length);
    return HeaderText(text, where_).Parse();
  }

  // The rest of the bytes are the elements of this shape.
  void CheckSize(const std::vector<int64_t>& shape, const ElementType& type) const {
    uint64_t bytes = type.bytes;
    bool empty = false, overflows = false;
    for (const int64_t size : shape) {
      empty = empty || size == 0;
      overflows = overflows || (size > 0 && bytes > (uint64_t{1} << 62) / static_cast<uint64_t>(size));
      if (size > 0 && !overflows) bytes *= static_cast<uint64_t>(size);
    }
    if (overflows) Fail(ErrorKind::kData, where_, ": the shape ", Shape(shape), " overflows");
    if (empty) bytes = 0;
    if (bytes == left_) return;
    Fail(ErrorKind::kData, where_, ": the shape ", Shape(shape), " takes ", bytes, " bytes, but ", left_,
         " follow: ", bytes > left_ ? "truncated" : "there is more than one array");
  }

  template <typename Bits>
  static void Swap(Bits* bits, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      auto* const bytes = reinterpret_cast<unsigned char*>(bits + i);
      std::reverse(bytes, bytes + sizeof(Bits));
    }
  }

  PackedReader& bytes_;
  uint64_t left_;
  std::string where_;
  Crc32 crc_;
};

// "X" of "/data/X.npy".
std::string NameOfFile(const std::string& path) { return std::filesystem::path(path).stem().string(); }

void CheckName(const std::string& path, const std::string& name) {
  std::string problem = NameProblem(name);
  if (problem.empty() && FindInvalidUtf8(name) != std::string::npos) problem = "the name is not UTF-8";
  if (problem.empty() && name.empty()) problem = "the name is empty";
  if (!problem.empty()) Fail(ErrorKind::kData, path, ": array ", Shown(name), ": ", problem);
}

TensorFile ReadNpz(const FileReader& file) {
  TensorFile result{file.path(), {}, {}};
  for (const ZipMember& member : ReadZipDirectory(file)) {
    const std::string where = StrCat(file.path(), ": member ", Shown(member.name));
    if (!member.name.ends_with(kNpyEnd)) Fail(ErrorKind::kData, where, ": is no .npy");
    const std::string name = member.name.substr(0, member.name.size() - kNpyEnd.size());
    CheckName(file.path(), name);
    PackedReader bytes(file, member.packing, member.begin, member.end);
    ArrayReader array(bytes, member.size, where);
    result.tensors.push_back({name, array.Read()});
    // The array takes the size that the archive says; only the packed data's end tells that there is no more.
    char more;
    if (bytes.Read(&more, 1) != 0) Fail(ErrorKind::kData, where, ": is longer than the archive says");
    if (array.crc32() != member.crc32) Fail(ErrorKind::kData, where, ": its checksum is wrong: the file is damaged");
  }
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return result;
}

// ---- writing ----

const char* NumpyName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kBool:
      return "|b1";
    case DType::kBFloat16:
      break;
  }
  return nullptr;
}

// All before the first element.
std::string NpyHeader(const Tensor& tensor) {
  std::string sizes;
  for (const int64_t size : tensor.shape()) sizes += StrCat(size, tensor.rank() == 1 ? "," : ", ");
  if (tensor.rank() > 1) sizes.resize(sizes.size() - 2);
  std::string text =
      StrCat("{'descr': '", NumpyName(tensor.dtype()), "', 'fortran_order': False, 'shape': (", sizes, "), }");
  constexpr size_t kBefore = kMagic.size() + 2 + 2;  // the version, and the length in two bytes
  text.append((2 * kElementsAlign - 1 - kBefore - text.size() % kElementsAlign) % kElementsAlign, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += {1, 0, static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

std::string_view ElementBytes(const Tensor& dense) {
  return {static_cast<const char*>(dense.raw_data()),
          static_cast<size_t>(dense.num_elements()) * SizeOf(dense.dtype())};
}

void CheckArrays(const std::string& path, std::span<const NamedTensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const std::string problem = NameProblem(name);
    CROSSTALK_CHECK(problem.empty() && !name.empty() && FindInvalidUtf8(name) == std::string::npos, path, ": array ",
                    Shown(name), ": ", problem.empty() ? "the name is empty, or not UTF-8" : problem);
    CROSSTALK_CHECK(tensor.defined() && NumpyName(tensor.dtype()) != nullptr, path, ": array ", Shown(name),
                    ": NumPy has no such dtype");
    CROSSTALK_CHECK(i == 0 || tensors[i - 1].name != name, path, ": array ", Shown(name), ": is there twice");
  }
}

}  // namespace

TensorFile ReadNumpy(const std::string& path) {
  const FileReader file(path);
  char begin[kZipMagic.size()] = {};
  if (file.size() >= sizeof begin) file.ReadAt(0, begin, sizeof begin);
  if (std::string_view(begin, sizeof begin) == kZipMagic || path.ends_with(kNpzEnd)) return ReadNpz(file);
  const std::string name = NameOfFile(path);
  CheckName(path, name);
  PackedReader bytes(file, Packing::kNone, 0, file.size());
  return {path, {{name, ArrayReader(bytes, file.size(), path).Read()}}, {}};
}

void WriteNumpy(const std::string& path, std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> ordered(tensors.begin(), tensors.end());
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  CheckArrays(path, ordered);
  if (path.ends_with(kNpyEnd) && ordered.size() != 1) {
    std::vector<std::string> names;
    for (const NamedTensor& one : ordered) names.push_back(one.name);
    Fail(ErrorKind::kUsage, path, ": an .npy holds one array, and there are ", ordered.size(), " (",
         Excerpt(Join(names, ", ")), "); name an .npz");
  }
  AtomicFile file(path);
  if (path.ends_with(kNpyEnd)) {
    const Tensor dense = ordered[0].tensor.Contiguous();
    file.writer().Write(NpyHeader(dense));
    file.writer().Write(ElementBytes(dense));
  } else {
    ZipWriter archive(file.writer());
    for (const NamedTensor& one : ordered) {
      const Tensor dense = one.tensor.Contiguous();
      archive.Add(one.name + std::string(kNpyEnd), NpyHeader(dense), ElementBytes(dense));
    }
    archive.Finish();
  }
  file.Commit();
}

TensorFile ReadTensors(const std::string& path) {
  char begin[kMagic.size()] = {};
  {
    const FileReader file(path);
    if (file.size() >= sizeof begin) file.ReadAt(0, begin, sizeof begin);
  }
  const std::string_view first(begin, sizeof begin);
  // A safetensors file begins with a number, which is far smaller than what PK and a record's kind and version make.
  const bool zip = first.starts_with("PK\3\4") || first.starts_with("PK\5\6");
  const bool named = path.ends_with(kNpyEnd) || path.ends_with(kNpzEnd);
  return first == kMagic || zip || named ? ReadNumpy(path) : ReadSafetensors(path);
}

void WriteTensors(const std::string& path, std::span<const NamedTensor> tensors) {
  if (path.ends_with(kNpyEnd) || path.ends_with(kNpzEnd)) return WriteNumpy(path, tensors);
  WriteSafetensors(path, tensors);
}

}  // namespace crosstalk
