// Shapes and strides, and Dims: the bracket notation that documents, checks and reports a shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace crosstalk {

inline constexpr int kMaxRank = 8;

// A short list of dimension sizes (or strides), held inline. Rank 0 is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);
  explicit Shape(const std::vector<int64_t>& sizes);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return sizes_[i]; }
  int64_t& operator[](int i) { return sizes_[i]; }
  // Python's index: -1 is the last dimension.
  int64_t at(int i) const;
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }

  // Product of the sizes; throws a usage error on a negative size or on overflow.
  int64_t NumElements() const;
  void Append(int64_t size);
  std::vector<int64_t> ToVector() const { return {begin(), end()}; }

  bool operator==(const Shape& other) const;
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

using Strides = Shape;  // in elements, not bytes

// "[2, 96, 32]"
std::string ToString(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// Row-major strides: the last dimension is contiguous.
Strides ContiguousStrides(const Shape& shape);

// Elements from the first to the last, both counted; 0 of an empty shape. Throws a usage error where the strides are of
// another rank or one is negative. kTooMany (math.h) for what does not fit.
int64_t ExtentOf(const Shape& shape, const Strides& strides);

// The shape that both broadcast to (aligned at the last dimension, 1 stretches); throws, naming `op`, if none.
Shape BroadcastShapes(const char* op, const Shape& a, const Shape& b);

// A parsed "Q[b, n, d_k, h_k]".
struct Bracket {
  std::string tensor;                // "Q"
  std::vector<std::string> indices;  // {"b", "n", "d_k", "h_k"}
};
// Throws a usage error, with the text, if it is not of that form. A name is a letter or _, then letters, digits
// and _; an index may also be an unsigned number, a size that is fixed ("T[h, 32]").
Bracket ParseBracket(std::string_view text);

// The executable brackets. An op binds each argument once at its entry; a name bound to two sizes is an error that
// shows both tensors:
//   Dims dims("attention");
//   dims.Bind("Q[b, n, d_k, h_k]", Q.shape());
//   dims.Bind("K[b, m, d_k, h_k]", K.shape());
//   const int64_t n = dims["n"];
// attention: K[b, m, d_k, h_k] = [2, 96, 32, 8] has d_k=32, but d_k=64 in Q[b, n, d_k, h_k] = [2, 5, 64, 8]
class Dims {
 public:
  explicit Dims(std::string_view where);
  Dims(const Dims&) = delete;
  Dims& operator=(const Dims&) = delete;

  // Throws Error(kUsage) on a rank that does not fit or a name whose size differs from an earlier one.
  Dims& Bind(std::string_view bracket, const Shape& shape);
  // Fixes a name's size without a tensor (a configuration's d_model, say); the error names it by `source`.
  Dims& Set(std::string_view name, int64_t size, std::string_view source);

  bool Has(std::string_view name) const;
  int64_t operator[](std::string_view name) const;  // throws std::logic_error if it was never bound

 private:
  struct Source {
    std::string_view text;  // "Q[b, n, d_k, h_k]", or what Set was given
    Shape shape;            // of the tensor; none for Set
  };
  struct Entry {
    std::string_view name;
    int64_t size;
    const Source* source;
    const Entry* next;
  };
  void* Room(size_t bytes);
  std::string_view Keep(std::string_view text);
  const Source* KeepSource(std::string_view text, const Shape& shape);
  void Add(std::string_view name, int64_t size, const Source* source);
  const Entry* Find(std::string_view name) const;
  std::string SourceOf(const Entry& entry) const;  // "Q[b, n, d_k, h_k] = [2, 5, 64, 8]"

  // An op's check allocates nothing as long as its names and texts fit here.
  alignas(std::max_align_t) std::array<std::byte, 2560> buffer_;
  std::byte* room_ = buffer_.data();
  size_t left_ = sizeof(buffer_);
  std::vector<std::unique_ptr<std::byte[]>> more_;  // when it is full
  std::string_view where_;
  const Entry* entries_ = nullptr;
};

}  // namespace crosstalk
#pragma GCC visibility pop
