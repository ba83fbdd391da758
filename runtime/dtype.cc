#include "crosstalk/runtime/dtype.h"

#include <bit>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
    case DType::kBFloat16:
      return 2;
  }
  CROSSTALK_DCHECK(false);
  return 0;
}

const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

void FailNotFloating(const char* op, DType dtype) {
  Fail(ErrorKind::kUsage, op, ": needs float32 or float64, got ", dtype);
}

namespace {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

// `bits` without its lowest `dropped` ones, rounded to nearest, ties to even. What overflows the fraction carries into
// the exponent, as it should.
uint32_t RoundedShift(uint32_t bits, uint32_t dropped) {
  const uint32_t odd = (bits >> dropped) & 1;
  return (bits + (1u << (dropped - 1)) - 1 + odd) >> dropped;
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    const uint32_t payload = (magnitude >> 13) & 0x3ff;
    half = 0x7c00 | (payload == 0 ? 0x200 : payload);
  } else if (magnitude >= 0x47800000) {  // 2^16
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal half
    half = RoundedShift(magnitude - ((127 - 15) << 23), 13);
  } else if (magnitude >= 0x33000000) {  // 2^-25, half of the smallest one
    const uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    half = RoundedShift(fraction, 126 - (magnitude >> 23));
  } else {
    half = 0;
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  if (!nan) return static_cast<uint16_t>(RoundedShift(bits, 16));
  const uint32_t upper = bits >> 16;
  return static_cast<uint16_t>((upper & 0x7f) == 0 ? upper | 0x40 : upper);
}

}  // namespace

float Widen(HalfFormat format, uint16_t bits) {
  if (format == HalfFormat::kFloat16) return HalfToFloat(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t Narrow(HalfFormat format, float value) {
  return format == HalfFormat::kFloat16 ? FloatToHalf(value) : FloatToBFloat16(value);
}

}  // namespace crosstalk
