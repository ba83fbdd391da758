// An operand of matrix products as it lies in memory.
#pragma once

#include <concepts>
#include <cstdint>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {
namespace kernels {

// Elements of T, float or double, or floats rounded to bfloat16; rows are `stride` elements apart.
template <typename T>
class Operand {
 public:
  Operand() = default;
  Operand(const T* data, int64_t row_stride) : stride(row_stride), data_(data) {}
  Operand(const uint16_t* data, int64_t row_stride) requires std::same_as<T, float>
      : stride(row_stride), data_(data), is_bfloat16_(true) {}

  bool is_bfloat16() const { return is_bfloat16_; }
  const T* data() const { return static_cast<const T*>(data_); }  // unless is_bfloat16
  const uint16_t* bfloat16() const { return static_cast<const uint16_t*>(data_); }
  // use(elements), of the type that they have.
  template <class Use>
  decltype(auto) Visit(const Use& use) const {
    return is_bfloat16_ ? use(bfloat16()) : use(data());
  }
  // The operand that begins so many elements further on.
  Operand operator+(int64_t elements) const {
    Operand moved = *this;
    moved.data_ = is_bfloat16_ ? static_cast<const void*>(bfloat16() + elements) : data() + elements;
    return moved;
  }

  int64_t stride = 0;

 private:
  const void* data_ = nullptr;
  bool is_bfloat16_ = false;
};

}  // namespace kernels
}  // namespace crosstalk
