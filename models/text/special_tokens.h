// The token ids that mean the same in every vocabulary.
#pragma once

#include <cstdint>

namespace crosstalk {

inline constexpr int32_t kPadId = 0;  // padding; also what a decoder starts from
inline constexpr int32_t kEosId = 1;  // end of sequence
inline constexpr int32_t kUnknownId = 2;

}  // namespace crosstalk
