// A key of random numbers for one example: independent of those of all other examples and purposes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "crosstalk/runtime/random.h"

namespace crosstalk {

inline RandomKey ExampleKey(uint64_t seed, std::string_view purpose, int64_t example) {
  const std::array<uint32_t, 4> words = RandomKey{seed, StreamId(purpose), 0}.Block(static_cast<uint64_t>(example));
  return RandomKey{(uint64_t{words[0]} << 32) | words[1], words[2], words[3]};
}

}  // namespace crosstalk
