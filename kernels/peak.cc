#include "crosstalk/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/peak.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/bfloat16-inl.h"
#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/runtime/function_ref.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// `rounds` times 12 independent sums ← next(sum): enough to hide a latency of 4 at two a cycle, few enough for 16
// registers. `result` keeps the loop alive. Returns the operations done, of which `next` does so many in each lane.
template <class Next>
HWY_INLINE double Rounds(int64_t rounds, int operations, const Next& next, float* result) {
  const Tag<float> d;
  auto v0 = hn::Set(d, 0.0f), v1 = hn::Set(d, 0.1f), v2 = hn::Set(d, 0.2f), v3 = hn::Set(d, 0.3f);
  auto v4 = hn::Set(d, 0.4f), v5 = hn::Set(d, 0.5f), v6 = hn::Set(d, 0.6f), v7 = hn::Set(d, 0.7f);
  auto v8 = hn::Set(d, 0.8f), v9 = hn::Set(d, 0.9f), v10 = hn::Set(d, 1.1f), v11 = hn::Set(d, 1.2f);
  for (int64_t i = 0; i < rounds; ++i) {
    v0 = next(v0);
    v1 = next(v1);
    v2 = next(v2);
    v3 = next(v3);
    v4 = next(v4);
    v5 = next(v5);
    v6 = next(v6);
    v7 = next(v7);
    v8 = next(v8);
    v9 = next(v9);
    v10 = next(v10);
    v11 = next(v11);
  }
  const auto s0 = hn::Add(hn::Add(v0, v1), hn::Add(v2, v3));
  const auto s1 = hn::Add(hn::Add(v4, v5), hn::Add(v6, v7));
  const auto s2 = hn::Add(hn::Add(v8, v9), hn::Add(v10, v11));
  *result = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, hn::Add(s1, s2))));
  return static_cast<double>(rounds) * 12 * operations * static_cast<double>(hn::Lanes(d));
}

// A multiply-add counts two.
double MultiplyAdds(int64_t rounds, float* result) {
  const Tag<float> d;
  const auto a = hn::Set(d, 0.999f);
  const auto b = hn::Set(d, 0.001f);
  return Rounds(
      rounds, 2, [&](FloatVector v) HWY_ATTR { return hn::MulAdd(v, a, b); }, result);
}

// Two multiply-adds in each lane.
template <BFloat16Unit kUnit>
double ProductsOfPairs(int64_t rounds, float* result) {
  const Tag<float> d;
  const auto pair = Pairs<kUnit>::Round(hn::Set(d, 0.75f), hn::Set(d, 0.5f));
  return Rounds(
      rounds, 4, [&](FloatVector v) HWY_ATTR { return Pairs<kUnit>::MulAdd(pair, pair, v); }, result);
}

// Reads x[count] and returns some sum of it; count is a multiple of 4 vectors.
float SumOfAll(const float* x, int64_t count) {
  const Tag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  for (int64_t i = 0; i < count; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(MultiplyAddsOnTarget, MultiplyAdds)
CROSSTALK_TARGETS(WidenedProducts, ProductsOfPairs<BFloat16Unit::kWidened>)
CROSSTALK_TARGETS(DotProducts, ProductsOfPairs<kDotProductHere>)
CROSSTALK_TARGETS(SumOnTarget, SumOfAll)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

// Time that this thread has run: what else the machine does meanwhile does not count.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The best of a few runs of `milliseconds` in all, each thread calling `compute`, which returns the operations it did
// and writes something that depends on all of them.
double MeasureGflops(int threads, double milliseconds, FunctionRef<double(float* result)> compute) {
  threads = std::min(threads, AvailableProcessors());
  constexpr int kRuns = 8;
  const double run_seconds = milliseconds * 1e-3 / kRuns;
  double best = 0;
  std::vector<float> results(threads * 16);  // a cache line each
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> rates(threads);
    ParallelFor(threads, [&](int64_t t) {
      double operations = 0;
      const double begin = ThreadSeconds();
      double elapsed = 0;
      while (elapsed < run_seconds) {
        operations += compute(&results[t * 16]);
        elapsed = ThreadSeconds() - begin;
      }
      rates[t] = operations / elapsed;
    });
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum * 1e-9);
  }
  return best;
}

// `rounds` steps of 32 × 32 sums of 16 pairs.
template <class Tiles>
double TileProducts(int64_t rounds, float* result) {
  constexpr int64_t kPairs = kTileBlock * kTileSize;
  alignas(64) uint32_t a[kPairs], b[kPairs];
  alignas(64) float sums[kTileBlock * kTileBlock];
  std::fill_n(a, kPairs, 0x3f803f80u);  // 1 and 1
  std::fill_n(b, kPairs, 0x3f803f80u);
  Tiles tiles;
  tiles.Clear();
  for (int64_t i = 0; i < rounds; ++i) tiles.AddStep(a, kTileSize, b, kTileBlock);
  tiles.Store(sums);
  *result = sums[0];
  return static_cast<double>(rounds) * static_cast<double>(2 * kTileBlock * kTileBlock * 2 * kTileSize);
}

constexpr int64_t kRounds = 10000;    // 30 µs at 4 GHz
constexpr int64_t kTileRounds = 250;  // 4 µs

}  // namespace

double MeasurePeakGflops(int threads, double milliseconds) {
  const auto multiply = MultiplyAddsOnTarget();
  return MeasureGflops(threads, milliseconds, [&](float* result) { return multiply(kRounds, result); });
}

double MeasureBFloat16PeakGflops(int threads, double milliseconds) {
  const BFloat16Unit unit = BFloat16UnitInUse();
  const bool hardware = BFloat16UnitIsHardware();
  const auto multiply = unit == BFloat16Unit::kDotProduct ? DotProducts() : WidenedProducts();
  return MeasureGflops(threads, milliseconds, [&](float* result) {
    if (unit != BFloat16Unit::kTiles) return multiply(kRounds, result);
    if (hardware) return TileProducts<AmxTiles>(kTileRounds, result);
    return TileProducts<ModelTiles>(kTileRounds, result);
  });
}

double MeasureReadGigabytes(int threads, double milliseconds) {
  constexpr int64_t kBytes = int64_t{256} << 20;  // more than a cache holds
  constexpr int64_t kPart = 1 << 18;              // bytes of a task
  threads = std::min(threads, AvailableProcessors());
  const auto sum = SumOnTarget();
  std::vector<float> memory(kBytes / sizeof(float), 1.0f);
  std::vector<float> results(kBytes / kPart);
  double best = 0;
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const double begin = now();
  do {
    const double before = now();
    ParallelFor(
        kBytes / kPart,
        [&](int64_t part) {
          const auto floats = kPart / static_cast<int64_t>(sizeof(float));
          results[static_cast<size_t>(part)] = sum(memory.data() + part * floats, floats);
        },
        TileOrder::kLocal, threads);
    best = std::max(best, 1e-9 * static_cast<double>(kBytes) / (now() - before));
  } while (now() - begin < 1e-3 * milliseconds);
  return best;
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
