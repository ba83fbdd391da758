#include <algorithm>
#include <cmath>

#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {
namespace {

// Rows a tile: about this many logits.
constexpr int64_t kTile = 8192;

int64_t RowsATile(int64_t classes) { return std::max<int64_t>(1, kTile / std::max<int64_t>(1, classes)); }

// Whether the target's logit, which equals the row's maximum, is the first that does.
template <typename T>
bool IsFirst(const T* row, int32_t target) {
  if (target == 0) return true;
  T before;
  Max(1, target, 1, row, &before, nullptr);
  return before < row[target];
}

}  // namespace

template <typename T>
void CrossEntropy(int64_t rows, int64_t classes, const T* logits, const int32_t* targets,
                  const CrossEntropyOptions& options, T* nll, T* log_z, bool* correct) {
  ParallelForRange(rows, RowsATile(classes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (targets[r] == options.ignore_index) {
        nll[r] = log_z[r] = 0;
        correct[r] = false;
        continue;
      }
      const T* row = logits + r * classes;
      const auto [largest, log_sum_exp] = RowLogSumExp(classes, row);
      log_z[r] = log_sum_exp;
      nll[r] = log_z[r] - row[targets[r]];
      correct[r] = row[targets[r]] == largest && IsFirst(row, targets[r]);
      if (IsCoarseLogSumExp(log_z[r])) {
        const auto [max, sum] = FindMaxAndExpSum(classes, 1, row);
        nll[r] = static_cast<T>(static_cast<double>(max) - static_cast<double>(row[targets[r]]) + Log(sum));
      }
    }
  });
}

template <typename T>
void CrossEntropyGradient(int64_t rows, int64_t classes, const T* logits, const int32_t* targets, const T* log_z,
                          const CrossEntropyOptions& options, T scale, const T* weights, T* dlogits) {
  ParallelForRange(rows, RowsATile(classes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* row = dlogits + r * classes;
      if (targets[r] == options.ignore_index) {
        std::fill_n(row, classes, T(0));
        continue;
      }
      const T weight = weights == nullptr ? scale : scale * weights[r];
      const T factor = weight * (1 + static_cast<T>(2 * options.z_loss) * log_z[r]);
      // factor · e^(logits - log Z) is the gradient of log-sum-exp for an output gradient of `factor`.
      LogSumExpGradient(1, classes, 1, logits + r * classes, log_z + r, &factor, row);
      row[targets[r]] -= weight;
    }
  });
}

#define CROSSTALK_INSTANTIATE(T) \
  template void CrossEntropy<T>(int64_t, int64_t, const T*, const int32_t*, const CrossEntropyOptions&, T*, T*, \
                                bool*); \
  template void CrossEntropyGradient<T>(int64_t, int64_t, const T*, const int32_t*, const T*, \
                                        const CrossEntropyOptions&, T, const T*, T*)
CROSSTALK_INSTANTIATE(float);
CROSSTALK_INSTANTIATE(double);
#undef CROSSTALK_INSTANTIATE

}  // namespace crosstalk::kernels
