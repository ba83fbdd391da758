#include <algorithm>
#include <chrono>
#include <utility>

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/kernels/peak.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"
#include "tools/cli/statistics.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

constexpr int64_t kFewestRepetitions = 3;
constexpr double kSecondsPerCase = 2.0;

}  // namespace

void SetStepTimes(double tokens, std::vector<BenchResult>* results) {
  for (BenchResult& result : *results) {
    result.step->seconds = 1e-3 * result.whole_ms;
    result.step->tokens_per_second = tokens / result.step->seconds;
  }
}

Tensor RandomTensor(const Shape& shape, const char* purpose) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(tensor, {.seed = 0, .stream = StreamId(purpose)}, 0.0, 1.0);
  return tensor;
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string NameIn(Precision precision, const std::string& name) {
  return precision == Precision::kBFloat16 ? name + kBFloat16Suffix : name;
}

double PeakGflops(Precision precision) {
  return precision == Precision::kBFloat16 ? kernels::MeasureBFloat16PeakGflops(NumThreads())
                                           : kernels::MeasurePeakGflops(NumThreads());
}

PassSeconds PassOf(const StepResult& step) {
  return {.forward = step.forward_seconds, .backward = step.backward_seconds, .whole = step.seconds};
}

int64_t ExtraBytesOf(const std::function<void()>& run) {
  ResetPeakMemory();
  const int64_t live = GetMemoryStats().live_bytes;
  run();
  return GetMemoryStats().peak_bytes - live;
}

std::vector<BenchResult> MeasurePasses(const std::string& name, const BenchSettings& settings, double multiplications,
                                       const MeasuredPasses& passes) {
  struct Times {
    BenchResult result;
    std::vector<double> forward = {}, backward = {}, whole = {};
  };
  std::vector<Times> all;
  for (const Precision precision : settings.precisions) {
    const ContextScope scope(&OpContext::precision, precision);
    passes.run();
    BenchResult result;
    result.name = NameIn(precision, name);
    result.precision = precision;
    result.threads = NumThreads();
    result.blas_core = kernels::GetOpenBlas().core;
    result.simd_target = kernels::SimdTargetName();
    result.useful_gflop_forward = 2e-9 * multiplications;
    result.useful_gflop_backward = 2 * result.useful_gflop_forward;
    if (multiplications > 0) result.peak_gflops = PeakGflops(precision);
    if (passes.measure_memory) passes.measure_memory(result);
    all.push_back({std::move(result)});
  }

  const double begin = WallSeconds(), most_seconds = kSecondsPerCase * static_cast<double>(all.size());
  const auto enough = [&](int64_t done) {
    if (settings.repetitions.has_value()) return done >= *settings.repetitions;
    return done >= kFewestRepetitions && WallSeconds() - begin > most_seconds;
  };
  for (int64_t done = 0; !enough(done); ++done) {
    for (Times& times : all) {
      const ContextScope scope(&OpContext::precision, times.result.precision);
      const int64_t allocations = ThreadAllocations();
      const int64_t system_allocations = GetMemoryStats().system_allocations;
      const PassSeconds seconds = passes.run();
      times.result.allocations = ThreadAllocations() - allocations;
      times.result.system_allocations = GetMemoryStats().system_allocations - system_allocations;
      times.forward.push_back(seconds.forward);
      times.backward.push_back(seconds.backward);
      times.whole.push_back(seconds.whole > 0 ? seconds.whole : seconds.forward + seconds.backward);
    }
  }

  std::vector<BenchResult> results;
  for (Times& times : all) {
    BenchResult& result = times.result;
    // Once more: a peak measured while something else held a processor would flatter.
    if (multiplications > 0) result.peak_gflops = std::max(result.peak_gflops, PeakGflops(result.precision));
    result.forward_ms = 1e3 * Median(times.forward);
    result.backward_ms = 1e3 * Median(times.backward);
    result.whole_ms = 1e3 * Median(times.whole);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace crosstalk
