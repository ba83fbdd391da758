#include <algorithm>
#include <chrono>

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/kernels/peak.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"
#include "tools/bench/bench.h"
#include "tools/statistics.h"

namespace crosstalk {
namespace {

constexpr int64_t kFewestRepetitions = 3;
constexpr int64_t kMostRepetitions = 50;
constexpr double kSecondsPerCase = 2.0;

}  // namespace

Tensor RandomTensor(const Shape& shape, const char* purpose) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(tensor, {.seed = 0, .stream = StreamId(purpose)}, 0.0, 1.0);
  return tensor;
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BenchResult MeasurePasses(const std::string& name, const BenchSettings& settings, double multiplications,
                          const std::function<PassSeconds()>& pass, double* median_whole) {
  pass();
  BenchResult result;
  result.name = name;
  result.threads = NumThreads();
  result.blas_core = kernels::GetOpenBlas().core;
  result.simd_target = kernels::SimdTargetName();
  result.useful_gflop_forward = 2e-9 * multiplications;
  result.useful_gflop_backward = 2 * result.useful_gflop_forward;
  result.peak_gflops = kernels::MeasurePeakGflops(NumThreads());

  std::vector<double> forward, backward, whole;
  const double begin = WallSeconds();
  const auto enough = [&](int64_t done) {
    if (settings.repetitions.has_value()) return done >= *settings.repetitions;
    return done >= kMostRepetitions || (done >= kFewestRepetitions && WallSeconds() - begin > kSecondsPerCase);
  };
  for (int64_t done = 0; !enough(done); ++done) {
    const PassSeconds seconds = pass();
    forward.push_back(seconds.forward);
    backward.push_back(seconds.backward);
    whole.push_back(seconds.whole > 0 ? seconds.whole : seconds.forward + seconds.backward);
  }
  // Once more: a peak measured while something else held a processor would flatter.
  result.peak_gflops = std::max(result.peak_gflops, kernels::MeasurePeakGflops(NumThreads()));
  result.forward_ms = 1e3 * Median(forward);
  result.backward_ms = 1e3 * Median(backward);
  if (median_whole != nullptr) *median_whole = Median(whole);
  return result;
}

}  // namespace crosstalk
