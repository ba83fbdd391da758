// Storage type of matrix-product operands.
#pragma once

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// kBFloat16: each operand of a product is rounded to bfloat16, the upper half of a float, and what is summed up stays
// in float. Everything else is in float either way.
enum class Precision { kFloat32, kBFloat16 };
template <>
struct EnumNames<Precision> {
  static constexpr EnumName<Precision> kTable[] = {{Precision::kFloat32, "fp32"}, {Precision::kBFloat16, "bf16"}};
};

}  // namespace crosstalk
