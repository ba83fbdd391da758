// Activation checkpointing: time against memory.
#pragma once

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Whether what is inside a block stays for its gradient, or is computed again from the block's input. The same bits.
enum class Activations { kKeep, kRecompute };
template <>
struct EnumNames<Activations> {
  static constexpr EnumName<Activations> kTable[] = {{Activations::kKeep, "keep"},
                                                     {Activations::kRecompute, "recompute"}};
};

}  // namespace crosstalk
