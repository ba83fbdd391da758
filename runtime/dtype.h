// The element types a Tensor can hold, half floats as numbers, and the precision of products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>

#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

enum class DType : uint8_t { kFloat32, kFloat64, kInt32, kInt64, kBool, kBFloat16 };

// Bytes per element. kBool takes one byte, 0 or 1.
size_t SizeOf(DType dtype);
// The bytes of so many elements.
inline int64_t BytesOf(int64_t elements, DType dtype) { return elements * static_cast<int64_t>(SizeOf(dtype)); }

// "float32", "float64", "int32", "int64", "bool", "bfloat16".
const char* Name(DType dtype);

// Types of arithmetic. bfloat16 is not one: only matrix products read it.
inline bool IsFloating(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }
// The type of what is computed of such elements, of their gradients too: float32 for bfloat16, else `dtype`.
inline DType ResultDType(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

std::ostream& operator<<(std::ostream& out, DType dtype);

// DTypeOf<float> == DType::kFloat32, and so on.
template <typename T>
struct DTypeOfImpl;
template <>
struct DTypeOfImpl<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOfImpl<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOfImpl<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOfImpl<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOfImpl<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOfImpl<uint8_t> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOfImpl<uint16_t> {
  static constexpr DType value = DType::kBFloat16;
};
template <typename T>
inline constexpr DType DTypeOf = DTypeOfImpl<T>::value;

// Calls f(T()) with T = float or double; anything else is a usage error that names `op`.
// Dispatch once, at an op's entry: DispatchFloat("exp", x.dtype(), [&](auto zero) { using T = decltype(zero); … });
[[noreturn]] void FailNotFloating(const char* op, DType dtype);
template <typename F>
decltype(auto) DispatchFloat(const char* op, DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f(float());
  if (dtype == DType::kFloat64) return f(double());
  FailNotFloating(op, dtype);
}

// The same for every dtype; bool elements are uint8_t, and bfloat16 ones their bits, uint16_t.
template <typename F>
void DispatchAny(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float());
    case DType::kFloat64:
      return f(double());
    case DType::kInt32:
      return f(int32_t());
    case DType::kInt64:
      return f(int64_t());
    case DType::kBool:
      return f(uint8_t());
    case DType::kBFloat16:
      return f(uint16_t());
  }
}

// Storage type of matrix-product operands.

// kBFloat16: each operand of a product is rounded to bfloat16, the upper half of a float, and what is summed up stays
// in float. Everything else is in float either way.
enum class Precision { kFloat32, kBFloat16 };
template <>
struct EnumNames<Precision> {
  static constexpr EnumName<Precision> kTable[] = {{Precision::kFloat32, "fp32"}, {Precision::kBFloat16, "bf16"}};
};

// The two floating-point formats of 16 bits that tensor files have: half precision (IEEE 754 binary16) and bfloat16,
// the upper half of a float.

enum class HalfFormat { kFloat16, kBFloat16 };
template <>
struct EnumNames<HalfFormat> {
  static constexpr EnumName<HalfFormat> kTable[] = {{HalfFormat::kFloat16, "float16"},
                                                    {HalfFormat::kBFloat16, "bfloat16"}};
};

// The float of the same value: exact, for subnormals, infinities and NaN (payload kept) too.
float Widen(HalfFormat format, uint16_t bits);
// The nearest value of the format, of two equally near ones the even one; beyond its largest finite value infinity. A
// NaN stays one, with as much of its payload as there is room for. Narrow(Widen(bits)) is `bits`, for all of them.
uint16_t Narrow(HalfFormat format, float value);

}  // namespace crosstalk
#pragma GCC visibility pop
