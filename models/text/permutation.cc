#include "crosstalk/models/text/permutation.h"

#include "crosstalk/runtime/check.h"

namespace crosstalk {

int64_t PermutedIndex(int64_t index, int64_t count, const RandomKey& key) {
  CROSSTALK_CHECK(index >= 0 && index < count && count <= int64_t{1} << 62, "permutation: index ", index, " of ",
                  count);
  int half = 1;  // bits of each half
  while (half < 31 && int64_t{1} << (2 * half) < count) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = key.Block((round << 32) | right)[0] & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace crosstalk
