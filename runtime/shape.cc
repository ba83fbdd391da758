#include "crosstalk/runtime/shape.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/function_ref.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The most elements of any type: their bytes are far from overflow.
constexpr int64_t kMostElements = std::numeric_limits<int64_t>::max() / 16;

}  // namespace

Shape::Shape(std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes) Append(size);
}

Shape::Shape(const std::vector<int64_t>& sizes) {
  for (int64_t size : sizes) Append(size);
}

void Shape::Append(int64_t size) {
  CROSSTALK_CHECK(rank_ < kMaxRank, "a tensor has at most ", kMaxRank, " dimensions");
  sizes_[rank_++] = size;
}

int64_t Shape::at(int i) const {
  const int index = i < 0 ? i + rank_ : i;
  CROSSTALK_CHECK(0 <= index && index < rank_, "dimension ", i, " of a shape of rank ", rank_, ", ", *this);
  return sizes_[index];
}

int64_t Shape::NumElements() const {
  // The strides of a shape with a 0 are products of its other sizes.
  int64_t without_zeros = 1;
  bool empty = false;
  for (const int64_t size : *this) {
    CROSSTALK_CHECK(size >= 0, "negative size in shape ", *this);
    empty |= size == 0;
    without_zeros = SaturatingProduct(without_zeros, std::max<int64_t>(size, 1));
  }
  CROSSTALK_CHECK(without_zeros <= kMostElements, "shape ", *this, " has more elements than memory can address");
  return empty ? 0 : without_zeros;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

int64_t ExtentOf(const Shape& shape, const Strides& strides) {
  CROSSTALK_CHECK(strides.rank() == shape.rank(), "strides ", strides, " are not those of shape ", shape);
  int64_t extent = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    CROSSTALK_CHECK(strides[i] >= 0, "a stride of ", strides[i], " goes backwards; copy the elements first");
    if (shape[i] > 1) extent = SaturatingSum(extent, SaturatingProduct(shape[i] - 1, strides[i]));
  }
  return shape.NumElements() == 0 ? 0 : extent;
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << ToString(shape); }

Strides ContiguousStrides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride = SaturatingProduct(stride, std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

Shape BroadcastShapes(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape shape = a.rank() == rank ? a : b;
  for (int i = 1; i <= rank; ++i) {
    const int64_t size_a = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t size_b = i <= b.rank() ? b[b.rank() - i] : 1;
    CROSSTALK_CHECK(size_a == size_b || size_a == 1 || size_b == 1, op, ": shapes ", a, " and ", b,
                    " do not broadcast: ", size_a, " against ", size_b, " in dimension -", i);
    shape[rank - i] = size_a == 1 ? size_b : size_a;
  }
  return shape;
}

namespace {

bool IsNameStart(char c) { return IsAsciiLetter(c) || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || IsAsciiDigit(c); }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsAsciiSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsAsciiSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool IsName(std::string_view text) {
  return !text.empty() && IsNameStart(text[0]) && std::all_of(text.begin(), text.end(), IsNameChar);
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), IsAsciiDigit);
}

// Calls take(index) for each index in turn, a name or a number, and returns the tensor's name.
std::string_view ReadBracket(std::string_view text, FunctionRef<void(std::string_view)> take) {
  const std::string_view trimmed = Trim(text);
  const size_t open = trimmed.find('[');
  CROSSTALK_CHECK(open != std::string_view::npos && trimmed.back() == ']', "'", text,
                  "' is not of the form NAME[dim, dim, …]");
  const std::string_view tensor = Trim(trimmed.substr(0, open));
  CROSSTALK_CHECK(IsName(tensor), "'", text, "' does not begin with a tensor's name");
  std::string_view inside = trimmed.substr(open + 1, trimmed.size() - open - 2);
  if (Trim(inside).empty()) return tensor;
  while (true) {
    const size_t comma = inside.find(',');
    const std::string_view index = Trim(inside.substr(0, comma));
    CROSSTALK_CHECK(IsName(index) || IsNumber(index), "'", index, "' in '", text, "' is not a dimension's name");
    take(index);
    if (comma == std::string_view::npos) return tensor;
    inside.remove_prefix(comma + 1);
  }
}

}  // namespace

Bracket ParseBracket(std::string_view text) {
  Bracket bracket;
  bracket.tensor = ReadBracket(text, [&](std::string_view index) { bracket.indices.emplace_back(index); });
  return bracket;
}

Dims::Dims(std::string_view where) : where_(Keep(where)) {}

void* Dims::Room(size_t bytes) {
  bytes = RoundUp(bytes, alignof(std::max_align_t));
  if (bytes > left_) {
    left_ = std::max(bytes, sizeof(buffer_));
    more_.push_back(std::make_unique<std::byte[]>(left_));
    room_ = more_.back().get();
  }
  left_ -= bytes;
  return std::exchange(room_, room_ + bytes);
}

std::string_view Dims::Keep(std::string_view text) {
  char* const kept = static_cast<char*>(Room(text.size()));
  std::copy(text.begin(), text.end(), kept);
  return {kept, text.size()};
}

const Dims::Source* Dims::KeepSource(std::string_view text, const Shape& shape) {
  return new (Room(sizeof(Source))) Source{text, shape};
}

void Dims::Add(std::string_view name, int64_t size, const Source* source) {
  entries_ = new (Room(sizeof(Entry))) Entry{name, size, source, entries_};
}

const Dims::Entry* Dims::Find(std::string_view name) const {
  const Entry* entry = entries_;
  while (entry != nullptr && entry->name != name) entry = entry->next;
  return entry;
}

std::string Dims::SourceOf(const Entry& entry) const {
  const Source& source = *entry.source;
  return source.shape.rank() == 0 ? std::string(source.text) : StrCat(source.text, " = ", source.shape);
}

Dims& Dims::Bind(std::string_view bracket_text, const Shape& shape) {
  const std::string_view kept = Keep(bracket_text);
  std::array<std::string_view, kMaxRank> indices;
  int rank = 0;
  ReadBracket(kept, [&](std::string_view index) {
    if (rank < kMaxRank) indices[static_cast<size_t>(rank)] = index;
    ++rank;
  });
  CROSSTALK_CHECK(rank == shape.rank(), where_, ": ", bracket_text, " has ", rank,
                  " dimensions, but the tensor given is ", shape);
  const Source* const source = KeepSource(kept, shape);
  for (int i = 0; i < rank; ++i) {
    const std::string_view name = indices[static_cast<size_t>(i)];
    if (IsNumber(name)) {
      CROSSTALK_CHECK(shape[i] == std::stoll(std::string(name)), where_, ": ", bracket_text, " = ", shape, " has ",
                      shape[i], " where ", name, " is fixed");
      continue;
    }
    if (const Entry* earlier = Find(name)) {
      CROSSTALK_CHECK(earlier->size == shape[i], where_, ": ", bracket_text, " = ", shape, " has ", name, "=", shape[i],
                      ", but ", name, "=", earlier->size, " in ", SourceOf(*earlier));
      continue;
    }
    Add(name, shape[i], source);
  }
  return *this;
}

Dims& Dims::Set(std::string_view name, int64_t size, std::string_view source) {
  if (const Entry* earlier = Find(name)) {
    CROSSTALK_CHECK(earlier->size == size, where_, ": ", name, "=", size, " from ", source, ", but ", name, "=",
                    earlier->size, " in ", SourceOf(*earlier));
    return *this;
  }
  Add(Keep(name), size, KeepSource(Keep(source), {}));
  return *this;
}

bool Dims::Has(std::string_view name) const { return Find(name) != nullptr; }

int64_t Dims::operator[](std::string_view name) const {
  const Entry* entry = Find(name);
  if (entry == nullptr) throw std::logic_error(StrCat(where_, ": dimension ", name, " was never bound"));
  return entry->size;
}

}  // namespace crosstalk
