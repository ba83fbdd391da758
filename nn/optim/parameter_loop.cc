#include "crosstalk/nn/optim/parameter_loop.h"

#include <algorithm>
#include <numeric>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

namespace {

// Parameters of at most this share of what a thread has to do end together, wherever they are begun.
constexpr int64_t kPartsPerThread = 4;

}  // namespace

void ForEachParameter(const std::vector<int64_t>& elements, const std::function<void(size_t i)>& f) {
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  // Another thread would not know that only shapes count.
  const int64_t most = CurrentContext().shapes_only ? 0 : all / (kPartsPerThread * NumThreads());
  std::vector<size_t> small;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] > most) {
      f(i);
    } else if (elements[i] > 0) {
      small.push_back(i);
    }
  }
  std::stable_sort(small.begin(), small.end(), [&](size_t a, size_t b) { return elements[a] > elements[b]; });
  ParallelFor(static_cast<int64_t>(small.size()), [&](int64_t i) { f(small[static_cast<size_t>(i)]); });
}

}  // namespace crosstalk
