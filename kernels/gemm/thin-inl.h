// Products of very few rows, bound by reading B once, to the bits of the blocked product. Where B's rows are those of
// the product they are read row after row as they lie in memory, so that the memory hands them out in long runs, with
// the sums of all columns in the first-level cache. Where B is transposed an element is the dot product of two rows: a
// vector holds as many columns of C, so that each adds up in the order of k, and B's rows are transposed in registers,
// which is quicker than memory hands them out. The operands are elements, or pairs of neighbours in bfloat16, which are
// rounded in registers on the way. Compiled once per target.
#if defined(CROSSTALK_GEMM_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_THIN_INL_H_
#undef CROSSTALK_GEMM_THIN_INL_H_
#else
#define CROSSTALK_GEMM_THIN_INL_H_
#endif

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

CROSSTALK_BEGIN_TARGET

// Up to so many rows a product takes as long as B is read, if it is large enough for that to show.
constexpr int kThinRows = 8;
constexpr int64_t kThinSize = 128;  // k and n at least

// One packed row of A: operand k at data + k · stride.
template <typename Packed>
struct ThinRow {
  const Packed* data;
  int64_t stride;
};

// The interface of an operand policy (microkernel-inl.h) for products of few rows.
template <class Operands>
concept ThinOperands = RegisterOperands<Operands> &&
    requires(const GemmArguments<typename Operands::Sum>& g, typename Operands::ThinRows& a, int64_t i) {
  { Operands::CanBeThin(g) } -> std::same_as<bool>;
  { Operands::CanBeDots(g) } -> std::same_as<bool>;
  a.Set(g, i, i);  // op(A)[…, k … k + depth]
  { a.rows[i] } -> std::same_as<ThinRow<typename Operands::Packed>&>;
  { Operands::kAsksAhead } -> std::convertible_to<bool>;  // for the rows of B that are read next
  Operands::VisitB(g, [](const auto* /*b*/) {});          // with B's elements, of the type that they have
  // Vectors of packed operands: Same(x) in all lanes, OfRows<terms>(b, ldb, count); MulAdd(a, b, sum) to sums of a
  // step, Start(sum so far) to Total(sum so far, sum).
  typename Operands::Terms;
  { Operands::kStepOperands } -> std::convertible_to<int>;  // read side by side
  { Operands::kChains } -> std::convertible_to<int>;        // in a step: 2 if a pair's terms are summed apart, else 1
  { Operands::DotRows(g) } -> std::same_as<const typename Operands::DotSource*>;  // B^T's, kTerms are a packed operand
};

template <ThinOperands Operands, typename T = typename Operands::Sum>
bool IsThin(const GemmArguments<T>& g) {
  return g.m <= kThinRows && g.n >= kThinSize && g.k >= kThinSize && g.transpose_b == Transpose::kNo &&
         Operands::CanBeThin(g);
}

// Rows of B that are read side by side, each a stream of its own: what a load and a store of the sums is shared by.
constexpr int kStreams = 8;

// sums[R][columns] += Σ_k a[R][k] · b[k, columns], k < depth, each in the order of k. Whole vectors of sums are read
// and written.
template <int R, class Operands, typename Source, typename Packed = typename Operands::Packed,
          typename T = typename Operands::Sum>
HWY_NOINLINE void AddThin(int64_t depth, const ThinRow<Packed>* a, const Source* HWY_RESTRICT b, int64_t ldb,
                          int64_t columns, T* HWY_RESTRICT sums, int64_t sums_stride) {
  using Terms = typename Operands::Terms;
  constexpr int kLanes = kLanesOf<T>, kTerms = Operands::kTerms;
  const Tag<T> d;
  // Packed operands k … of so many rows of B each.
  const auto add = [&](auto operands, auto rows_of_each, int64_t k) HWY_ATTR {
    constexpr int kOperands = decltype(operands)::value, kRows = decltype(rows_of_each)::value;
    constexpr int kNext = kOperands * kTerms;
    constexpr int64_t kLine = 64 / int64_t{sizeof(Source)};
    Packed x[R][kOperands];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kOperands; ++i) x[r][i] = a[r].data[(k + i) * a[r].stride];
    }
    const Source* const rows = b + k * kTerms * ldb;
    const bool more = Operands::kAsksAhead && (k + 2 * kOperands) * kTerms <= depth;
    const auto one = [&](int64_t column, auto count) HWY_ATTR {
      hn::Vec<Tag<T>> before[R];
      decltype(Terms::Start(before[0])) sum[R];
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) {
        before[r] = hn::LoadU(d, sums + r * sums_stride + column);
        sum[r] = Terms::Start(before[r]);
      }
      CROSSTALK_UNROLL
      for (int i = 0; i < kOperands; ++i) {
        const auto y = Terms::template OfRows<kRows>(rows + i * kTerms * ldb + column, ldb, count);
        CROSSTALK_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = Terms::MulAdd(Terms::Same(x[r][i]), y, sum[r]);
      }
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) hn::StoreU(Terms::Total(before[r], sum[r]), d, sums + r * sums_stride + column);
    };
    const int64_t rest = columns % kLanes;
    for (int64_t column = 0; column < columns - rest; column += kLanes) {
      if (more && column % kLine == 0) {
        CROSSTALK_UNROLL
        for (int i = 0; i < kNext; ++i) __builtin_prefetch(rows + (kNext + i) * ldb + column, 0, 2);
      }
      one(column, std::integral_constant<int64_t, kLanes>());
    }
    if (rest > 0) one(columns - rest, rest);
  };
  constexpr int kStep = Operands::kStepOperands;
  using One = std::integral_constant<int, 1>;
  using All = std::integral_constant<int, kTerms>;
  int64_t k = 0;
  for (; k + kStep <= depth / kTerms; k += kStep) add(std::integral_constant<int, kStep>(), All(), k);
  if constexpr (Operands::kChains > 1) {
    // The last step's missing terms are zeros, which make a chain's -0 a 0.
    for (int64_t column = 0; k * kTerms < depth && column < columns; column += kLanes) {
      const Source* const rows = b + k * kTerms * ldb + column;
      const int64_t count = columns - column;
      for (int r = 0; r < R; ++r) {
        T* const at = sums + r * sums_stride + column;
        const auto before = hn::LoadU(d, at);
        auto sum = Terms::Start(before);
        int64_t i = k;
        for (; i < depth / kTerms; ++i) {
          const auto y = Terms::template OfRows<kTerms>(rows + (i - k) * kTerms * ldb, ldb, count);
          sum = Terms::MulAdd(Terms::Same(a[r].data[i * a[r].stride]), y, sum);
        }
        if (depth % kTerms != 0) {
          const auto y = Terms::template OfRows<1>(rows + (i - k) * kTerms * ldb, ldb, count);
          sum = Terms::MulAdd(Terms::Same(a[r].data[i * a[r].stride]), y, sum);
        }
        sum = Terms::MulAdd(Terms::Same(Packed{}), Terms::Same(Packed{}), sum);
        hn::StoreU(Terms::Total(before, sum), d, at);
      }
    }
  } else {
    for (; k < depth / kTerms; ++k) add(One(), All(), k);
    if (depth % kTerms != 0) add(One(), One(), k);
  }
}

// AddThin for a run-time number of rows ≤ R.
template <int R, class Operands, typename Source, typename Packed = typename Operands::Packed,
          typename T = typename Operands::Sum>
HWY_INLINE void AddThinOf(int64_t rows, int64_t depth, const ThinRow<Packed>* a, const Source* b, int64_t ldb,
                          int64_t columns, T* sums, int64_t sums_stride) {
  if (rows == R) {
    AddThin<R, Operands>(depth, a, b, ldb, columns, sums, sums_stride);
  } else if constexpr (R > 1) {
    AddThinOf<R - 1, Operands>(rows, depth, a, b, ldb, columns, sums, sums_stride);
  }
}

// Columns of a task of a thin product, a multiple of `unit`.
template <typename T>
int64_t ThinGrain(const GemmArguments<T>& g, int64_t unit) {
  constexpr double kLeastWork = 1 << 18;  // multiplications
  const auto least = static_cast<int64_t>(kLeastWork / (static_cast<double>(g.m) * static_cast<double>(g.k)));
  return RoundUp(std::max(least, CeilDivide<int64_t>(g.n, kTasksPerThread * ThreadsOfLoop())), unit);
}

// body(begin, end) for the tasks' columns. ParallelForRange would take a task for 2 µs of work, and these are as long
// as n allows: the product's own LoopWork says what they are.
template <typename Body>
void ForColumns(int64_t n, int64_t grain, const Body& body) {
  ParallelFor(
      CeilDivide(n, grain), [&](int64_t task) { body(task * grain, std::min(n, (task + 1) * grain)); },
      TileOrder::kLocal);
}

// Very few rows, and B as it lies. A task's workspace is on the stack: its columns' sums, and the rows of A.
template <ThinOperands Operands, typename T = typename Operands::Sum>
void ThinProduct(const GemmArguments<T>& g) {
  constexpr int64_t kSums = 16384 / int64_t{sizeof(T)}, kRoom = kSums + kThinRows * 16;
  const Tag<T> d;
  constexpr int kLanes = kLanesOf<T>;
  const Blocks depths(g.k, kKC, Operands::kTerms);
  const int64_t grain = std::min(ThinGrain<T>(g, kNR<T>), kSums / g.m / kNR<T> * kNR<T>);
  ForColumns(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    [[maybe_unused]] const typename Operands::Arithmetic arithmetic;
    alignas(kAlignment) T sums[kRoom];
    typename Operands::ThinRows a;
    const int64_t columns = end - begin, stride = RoundUp<int64_t>(columns, 16);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      a.Set(g, k, depth);
      std::fill_n(sums, g.m * stride, T(0));
      Operands::VisitB(g, [&](const auto* b) HWY_ATTR {
        AddThinOf<kThinRows, Operands>(g.m, depth, a.rows, b + k * g.b.stride + begin, g.b.stride, columns, sums,
                                       stride);
      });
      const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                                g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + begin};
      for (int64_t r = 0; r < g.m; ++r) {
        T* const c = g.c + r * g.ldc + begin;
        for (int64_t column = 0; column < columns; column += kLanes) {
          StoreUpdated(update, column, hn::LoadU(d, sums + r * stride + column), columns - column, c + column);
        }
      }
    }
  });
}

// ---- B transposed ----

// Up to so many rows; with more, their sums leave the transposed vectors no registers on AVX2.
constexpr int kDotRows = 4;
constexpr int kDotGroups = 2;  // vectors of columns side by side: each waits for its own sums only

template <ThinOperands Operands, typename T = typename Operands::Sum>
bool IsDots(const GemmArguments<T>& g) {
  return g.m <= kDotRows && g.n >= kThinSize && g.k >= kThinSize && g.transpose_b == Transpose::kYes &&
         Operands::CanBeDots(g);
}

// Packed operands of 16 bytes, the unit in which vectors are interleaved.
template <typename Packed>
constexpr int kDotUnit = std::min<int>(kLanesOf<Packed>, 16 / int{sizeof(Packed)});

// The vector whose unit i is the one at p + i · stride.
template <class D, typename Source>
HWY_INLINE hn::Vec<D> LoadUnits(D d, const Source* p, [[maybe_unused]] int64_t stride) {
  using Packed = hn::TFromD<D>;
  constexpr int64_t kUnits = static_cast<int64_t>(hn::MaxLanes(D())) / kDotUnit<Packed>;
  if constexpr (kUnits > 1) {
    const hn::Half<D> half;
    return hn::Combine(d, LoadUnits(half, p + kUnits / 2 * stride, stride), LoadUnits(half, p, stride));
  } else {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<Source, D>(), p));
  }
}

// sums[chain][r] += a[r][k] · y.
template <int R, class Operands, typename Packed = typename Operands::Packed, typename Sum = typename Operands::Sum>
HWY_INLINE void AddTerms(const ThinRow<Packed>* a, int64_t k, hn::Vec<Tag<Packed>> y, hn::Vec<Tag<Sum>> (*sums)[R]) {
  const Tag<Packed> d;
  CROSSTALK_UNROLL
  for (int pass = 0; pass < Operands::kPasses; ++pass) {
    const auto part = Operands::PartOf(pass, y);
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = Operands::PartOf(pass, hn::Set(d, a[r].data[k * a[r].stride]));
      auto& sum = sums[pass % Operands::kChains][r];
      sum = Operands::MulAdd(x, part, sum);
    }
  }
}

// sums[chain][r] += Σ_i a[r][k + i] · b[column · ldb + i · kTerms], i < kDotUnit, each in the order of i; a vector's
// lanes are columns.
template <int R, class Operands, typename Packed = typename Operands::Packed, typename Sum = typename Operands::Sum>
HWY_INLINE void AddUnit(const ThinRow<Packed>* a, int64_t k, const typename Operands::DotSource* b, int64_t ldb,
                        hn::Vec<Tag<Sum>> (*sums)[R]) {
  constexpr int kUnit = kDotUnit<Packed>;
  const Tag<Packed> d;
  hn::Vec<Tag<Packed>> y[kUnit];
  CROSSTALK_UNROLL
  for (int i = 0; i < kUnit; ++i) y[i] = LoadUnits(d, b + i * ldb, kUnit * ldb);
  if constexpr (kUnit == 2) {
    const auto y0 = y[0];
    y[0] = hn::InterleaveLower(d, y0, y[1]);
    y[1] = hn::InterleaveUpper(d, y0, y[1]);
  } else if constexpr (kUnit == 4) {
    const hn::Repartition<double, Tag<Packed>> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, y[0], y[1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, y[2], y[3]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, y[0], y[1]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, y[2], y[3]));
    y[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
    y[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
    y[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
    y[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
  }
  CROSSTALK_UNROLL
  for (int i = 0; i < kUnit; ++i) AddTerms<R, Operands>(a, k + i, y[i], sums);
}

// The lines of rows that will be read next, asked for one after the other, as they lie: a dozen streams that each jump
// from row to row are more than the processor follows by itself.
template <typename Source>
struct RowsAhead {
  const Source* row;
  int64_t rows, stride, length;  // stride and length of a row in elements
  int64_t at = 0;
  HWY_INLINE void Next() {
    if (rows <= 0) return;
    __builtin_prefetch(row + at, 0, 2);
    at += 64 / int64_t{sizeof(Source)};
    if (at < length) return;
    at = 0;
    row += stride;
    --rows;
  }
};

// sums[R][G vectors] = Σ_k a[R][k] · b[column · ldb + k], k < depth, each in the order of k, or of chains that meet
// after each step. `ahead` is asked for as many lines as are read.
template <int R, int G, class Operands, typename Packed = typename Operands::Packed,
          typename Source = typename Operands::DotSource, typename T = typename Operands::Sum>
HWY_NOINLINE void Dots(int64_t depth, const ThinRow<Packed>* rows, const Source* HWY_RESTRICT b, int64_t ldb,
                       T* HWY_RESTRICT sums, RowsAhead<Source>* next) {
  constexpr int kLanes = kLanesOf<T>, kUnit = kDotUnit<Packed>, kTerms = Operands::kTerms;
  constexpr int64_t kLine = 64 / int64_t{sizeof(Packed)};
  const Tag<T> d;
  ThinRow<Packed> a[R];
  for (int r = 0; r < R; ++r) a[r] = rows[r];
  RowsAhead<Source> ahead = *next;
  constexpr int kChains = Operands::kChains;
  static_assert(kChains == 1 || kLine == Operands::kStepOperands);
  hn::Vec<Tag<T>> sum[G][kChains][R], total[G][R];
  const auto start = [&](int g) HWY_ATTR {
    CROSSTALK_UNROLL
    for (int chain = 0; chain < kChains; ++chain) {
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) sum[g][chain][r] = hn::Zero(d);
    }
  };
  const auto end_step = [&](int g) HWY_ATTR {
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) total[g][r] = hn::Add(total[g][r], hn::Add(sum[g][0][r], sum[g][kChains - 1][r]));
    start(g);
  };
  CROSSTALK_UNROLL
  for (int g = 0; g < G; ++g) {
    start(g);
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) total[g][r] = hn::Zero(d);
  }
  const int64_t whole = depth / kTerms;
  int64_t k = 0;
  // A line of each row is read to its end before the next row's: the rows of a table whose width is a power of two
  // share a few sets of the first-level cache.
  for (; k + kLine <= whole; k += kLine) {
    CROSSTALK_UNROLL
    for (int g = 0; g < G; ++g) {
      for (int lane = 0; lane < kLanes; ++lane) ahead.Next();
      CROSSTALK_UNROLL
      for (int64_t i = 0; i < kLine; i += kUnit) {
        AddUnit<R, Operands>(a, k + i, b + g * kLanes * ldb + (k + i) * kTerms, ldb, sum[g]);
      }
      if constexpr (kChains > 1) end_step(g);
    }
  }
  for (; k + kUnit <= whole; k += kUnit) {
    CROSSTALK_UNROLL
    for (int g = 0; g < G; ++g) AddUnit<R, Operands>(a, k, b + g * kLanes * ldb + k * kTerms, ldb, sum[g]);
  }
  for (; k * kTerms < depth; ++k) {
    const auto terms = static_cast<size_t>(std::min<int64_t>(kTerms, depth - k * kTerms));
    for (int g = 0; g < G; ++g) {
      HWY_ALIGN Packed column[kLanes] = {};
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(column + lane, b + (g * kLanes + lane) * ldb + k * kTerms, terms * sizeof(Source));
      }
      AddTerms<R, Operands>(a, k, hn::Load(Tag<Packed>(), column), sum[g]);
    }
  }
  CROSSTALK_UNROLL
  for (int g = 0; g < G; ++g) {
    if constexpr (kChains > 1) {
      // A step's missing terms are zeros, which make a chain's -0 a 0.
      if (whole % kLine != 0 || depth % kTerms != 0) {
        for (int r = 0; r < R; ++r) sum[g][0][r] = hn::Add(sum[g][0][r], hn::Zero(d));
        end_step(g);
      }
    }
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) hn::StoreU(kChains > 1 ? total[g][r] : sum[g][0][r], d, sums + (r * G + g) * kLanes);
  }
  *next = ahead;
}

// Dots for a run-time number of rows ≤ R.
template <int R, int G, class Operands, typename Packed = typename Operands::Packed,
          typename Source = typename Operands::DotSource, typename T = typename Operands::Sum>
HWY_INLINE void DotsOf(int64_t rows, int64_t depth, const ThinRow<Packed>* a, const Source* b, int64_t ldb, T* sums,
                       RowsAhead<Source>* next) {
  if (rows == R) {
    Dots<R, G, Operands>(depth, a, b, ldb, sums, next);
  } else if constexpr (R > 1) {
    DotsOf<R - 1, G, Operands>(rows, depth, a, b, ldb, sums, next);
  }
}

// The terms [k, k + depth) of columns [column, column + G vectors), of which `columns` are C's: where that is less, the
// last ones of B are read, and those in front of `column` left out.
template <int G, class Operands, typename T = typename Operands::Sum>
HWY_INLINE void DotColumns(const GemmArguments<T>& g, const ThinRow<typename Operands::Packed>* a, int64_t k,
                           int64_t depth, int64_t column, int64_t columns) {
  using Source = typename Operands::DotSource;
  constexpr int64_t kLanes = kLanesOf<T>, kWhole = G * kLanes;
  const Tag<T> d;
  const int64_t before = kWhole - columns;  // 0, except for one vector at the end
  T sums[kDotRows * kWhole + kLanes];       // whole vectors are read
  const Source* const b = Operands::DotRows(g) + k;
  const int64_t after = column + columns;
  RowsAhead<Source> next = {b + after * g.b.stride, std::min(kWhole, g.n - after), g.b.stride, depth};
  DotsOf<kDotRows, G, Operands>(g.m, depth, a, b + (column - before) * g.b.stride, g.b.stride, sums, &next);
  const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                            g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + column};
  for (int64_t r = 0; r < g.m; ++r) {
    for (int64_t at = 0; at < columns; at += kLanes) {
      StoreUpdated(update, at, hn::LoadU(d, sums + r * kWhole + before + at), columns - at,
                   g.c + r * g.ldc + column + at);
    }
  }
}

// Very few rows, and B's rows as they lie.
template <ThinOperands Operands, typename T = typename Operands::Sum>
void DotsProduct(const GemmArguments<T>& g) {
  constexpr int64_t kLanes = kLanesOf<T>, kPair = kDotGroups * kLanes;
  const Blocks depths(g.k, kKC, Operands::kTerms);
  ForColumns(g.n, ThinGrain(g, kPair), [&](int64_t begin, int64_t end) HWY_ATTR {
    [[maybe_unused]] const typename Operands::Arithmetic arithmetic;
    typename Operands::ThinRows a;
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      a.Set(g, k, depth);
      int64_t column = begin;
      for (; column + kPair <= end; column += kPair) {
        DotColumns<kDotGroups, Operands>(g, a.rows, k, depth, column, kPair);
      }
      for (; column < end; column += kLanes) {
        DotColumns<1, Operands>(g, a.rows, k, depth, column, std::min(kLanes, end - column));
      }
    }
  });
}

CROSSTALK_END_TARGET

#endif
