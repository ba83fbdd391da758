#include "crosstalk/runtime/ordered_reduction.h"

#include <thread>

namespace crosstalk {

void OrderedReduction::WaitFor(int64_t sum, int64_t turn) const {
  // The tile of the turn before began earlier and has mostly added already: a short spin, then the processor is given
  // to the thread that computes it.
  constexpr int kSpinLimit = 1000;
  const std::atomic<int64_t>& done = done_[static_cast<size_t>(sum)];
  for (int i = 0; done.load(std::memory_order_acquire) != turn; ++i) {
    if (i >= kSpinLimit) std::this_thread::yield();
  }
}

}  // namespace crosstalk
