// A random order of 0 … count-1 that is computed one place at a time, so it takes no memory whatever the count.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/random.h"

namespace crosstalk {

// The number at place `index` of a permutation of 0 … count-1 that the key chooses: a Feistel network of four rounds on
// the next power of four, walked until it falls below count. 0 ≤ index < count ≤ 2^62.
int64_t PermutedIndex(int64_t index, int64_t count, const RandomKey& key);

}  // namespace crosstalk
