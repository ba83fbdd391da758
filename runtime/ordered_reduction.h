// Sums to which several tiles of a ParallelFor add, each in its turn: the order of additions, and with it every bit, is
// that of the tiles, not of the threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace crosstalk {

// Any number of sums, each with its own turns 0, 1, 2, …. A tile whose turn is t calls WaitFor(sum, t), adds, and calls
// Done(sum). It must begin after the tile of turn t - 1: ParallelFor begins tiles in order (TileOrder::kInOrder), so
// a thread only waits for a tile that is under way.
class OrderedReduction {
 public:
  explicit OrderedReduction(int64_t sums) : done_(static_cast<size_t>(sums)) {}
  // Returns once `turn` others have added to the sum.
  void WaitFor(int64_t sum, int64_t turn) const;
  void Done(int64_t sum) { done_[static_cast<size_t>(sum)].fetch_add(1, std::memory_order_release); }

 private:
  std::vector<std::atomic<int64_t>> done_;
};

}  // namespace crosstalk
