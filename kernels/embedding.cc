#include <algorithm>

#include "crosstalk/kernels/copy.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/embedding.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

template <typename T>
void AddRow(int64_t n, const T* x, T* y) {
  Map2(n, x, y, y, [](auto v, auto sum) HWY_ATTR { return hn::Add(sum, v); });
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(AddRow)

#if HWY_ONCE
namespace crosstalk::kernels {

template <typename T>
void GatherRows(int64_t count, int64_t cols, const T* table, const int32_t* ids, T* y) {
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, cols));
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(table + ids[i] * cols, cols, y + i * cols);
  });
}

// A tile owns a range of the table's rows and of its columns, and walks all ids: reading an id costs nothing beside
// adding a row, as long as there are few ranges of rows. Text is skewed towards some ids, columns are not.
template <typename T>
void ScatterAddRows(int64_t count, int64_t vocabulary, int64_t cols, const int32_t* ids, const T* dy, T* dtable) {
  if (count == 0 || vocabulary == 0 || cols == 0) return;
  constexpr int64_t kColumns = 64;
  constexpr int64_t kRanges = 4;
  const auto add = AddRowOnTarget<T>();
  const int64_t column_tiles = CeilDivide(cols, kColumns);
  const int64_t range = CeilDivide(vocabulary, kRanges);
  ParallelFor(column_tiles * kRanges, [&](int64_t tile) {
    const int64_t first = tile / kRanges * kColumns;
    const int64_t n = std::min(kColumns, cols - first);
    const int64_t low = tile % kRanges * range;
    const int64_t high = low + range;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = ids[i];
      if (id >= low && id < high) add(n, dy + i * cols + first, dtable + id * cols + first);
    }
  });
}

CROSSTALK_INSTANTIATE(GatherRows)
CROSSTALK_INSTANTIATE(ScatterAddRows)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
