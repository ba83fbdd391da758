// A solution of exercise 4.4: a softmax by chunks.
#include "examples/course/checker/exercise.h"

using namespace course;

// L[m], V[m, d_v] of one chunk
static void AddChunk(const std::vector<double>& L, const Array& V, RunningRow& row) {
  double largest = row.max;
  for (const double l : L) largest = std::max(largest, l);
  if (std::isinf(largest)) return;
  const double shrink = std::exp(row.max - largest);
  row.max = largest;
  row.sum *= shrink;
  for (double& o : row.O) o *= shrink;
  for (size_t m = 0; m < L.size(); ++m) {
    const double e = std::exp(L[m] - largest);
    row.sum += e;
    for (size_t d = 0; d < row.O.size(); ++d) row.O[d] += e * V(m, d);
  }
}

EXERCISE(4_4, AddChunk);
