#include "crosstalk/models/tasks/mixture.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/text/example_key.h"
#include "crosstalk/models/text/permutation.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

TaskMixture::TaskMixture(std::vector<int64_t> sizes, std::optional<int64_t> cap, uint64_t seed)
    : sizes_(std::move(sizes)), seed_(seed) {
  CROSSTALK_CHECK(!sizes_.empty(), "a mixture needs a task");
  int64_t end = 0;
  for (const int64_t size : sizes_) {
    CROSSTALK_CHECK(size >= 1, "a mixture's task has no rows");
    shares_.push_back(cap ? std::min(size, *cap) : size);
    end += shares_.back();
    ends_.push_back(end);
  }
}

TaskMixture::Place TaskMixture::At(int64_t place) const {
  const int64_t pass = place / size();
  const int64_t shuffled = PermutedIndex(place % size(), size(), ExampleKey(seed_, "models.tasks.mixture", pass));
  const size_t task = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), shuffled) - ends_.begin());
  // The rows of one task that a pass takes come after those of the passes before it.
  const int64_t taken = pass * shares_[task] + (shuffled - (ends_[task] - shares_[task]));
  const int64_t own_pass = taken / sizes_[task];
  const RandomKey key = ExampleKey(seed_ + 0x9E3779B97F4A7C15u * (task + 1), "models.tasks.mixture.rows", own_pass);
  return {task, PermutedIndex(taken % sizes_[task], sizes_[task], key)};
}

}  // namespace crosstalk
