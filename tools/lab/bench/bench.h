// Benchmarks: what a case is, what it gives, and how it is timed. The cases are in layers.cc, kernels.cc,
// operations.cc, step.cc and models.cc; the command, with its table and its JSON, is commands/bench.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

struct StepResult;

struct BenchSettings {
  // Instead of the case's own.
  std::optional<int64_t> batch = {};
  std::optional<int64_t> n = {};
  // Else as many as fit in two seconds, at least 3.
  std::optional<int64_t> repetitions = {};
  // The variants of a case, interleaved: one result for each, in this order.
  std::vector<Precision> precisions = {Precision::kFloat32};
};

struct BenchResult {
  struct Step {
    double seconds = 0;  // forward, backward and update
    double tokens_per_second = 0;
    int64_t peak_resident_bytes = 0;  // of the process, during one; 0: not measured
  };

  // A step of decoding, which has no backward pass and reads each weight for a few rows: its limit is memory.
  struct Decode {
    int64_t rows = 0;
    double step_ms = 0;   // median
    double least_ms = 0;  // of the quickest step
    double tokens_per_second = 0;
    int64_t weight_bytes = 0;  // that a step reads: weights, and the cache of a middle step
    int64_t cache_bytes = 0;
    double gigabytes_per_second = 0;  // of reading memory, measured before and after: the larger
    // The quickest step in multiples of what reading those bytes takes at its quickest: what else the machine does
    // counts for neither.
    double TimesReading() const {
      return least_ms * 1e-3 * gigabytes_per_second * 1e9 / static_cast<double>(weight_bytes + cache_bytes);
    }
  };

  // One operation on a few numbers, or a part of one: nanoseconds, medians. A part has a value alone.
  struct Operation {
    double value_ns = 0;  // under NoGrad: checks, allocation, dispatch and kernel
    double node_ns = 0;   // what recording it adds
    double backward_ns = 0;
    double allocations = 0;  // as below, but of one operation
    double TotalNs() const { return value_ns + node_ns + backward_ns; }
  };

  std::string name;
  Precision precision = Precision::kFloat32;
  double forward_ms = 0;  // medians
  double backward_ms = 0;
  double whole_ms = 0;  // with a step's update
  // 10^9 operations of the paper's pseudocode, a multiplication and its addition being two; recomputation is not
  // counted.
  double useful_gflop_forward = 0;
  double useful_gflop_backward = 0;
  double peak_gflops = 0;          // of `precision`, measured right before, and after: the larger
  int64_t extra_bytes = 0;         // most that is held beyond inputs and outputs at any time, forward and backward
  int64_t allocations = 0;         // calls of operator new by the caller in the last run (ThreadAllocations)
  int64_t system_allocations = 0;  // blocks of tensors that the last run had to take from the system
  int threads = 0;
  std::string blas_core;
  std::string simd_target;
  std::optional<Step> step = {};
  std::optional<Decode> decode = {};
  std::optional<Operation> operation = {};

  // The share of the peak, of which 1 is the limit.
  double ShareForward() const { return useful_gflop_forward / (forward_ms * 1e-3) / peak_gflops; }
  // The share of a whole step.
  double ShareWhole() const { return (useful_gflop_forward + useful_gflop_backward) / (whole_ms * 1e-3) / peak_gflops; }
  double ShareBackward() const { return useful_gflop_backward / (backward_ms * 1e-3) / peak_gflops; }
};

Json ToJson(const BenchResult& result);

// The time of steps of so many tokens, from the results' times.
void SetStepTimes(double tokens, std::vector<BenchResult>* results);

struct BenchCase {
  std::string name;
  // "82/75": percent of the peak, forward and backward; "75 %": of it, or "2.3 s", for a whole step; "800": nanoseconds
  // of an operation; empty: none.
  std::string goal;
  std::function<std::vector<BenchResult>(const BenchSettings& settings)> run;
  // Whether its products are rounded in bf16: it can be measured as NAME-bf16 then.
  bool in_bfloat16 = true;
  // "x1.7": how many times quicker than in float that is meant to be. If there is a goal, both are measured unless
  // the user chooses.
  std::string bfloat16_goal = {};
};

// In the order of the table; each followed by the composed path's, NAME-composed, if there is one.
std::vector<BenchCase> LayerBenchCases();
std::vector<BenchCase> MixingBenchCases();
std::vector<BenchCase> ProductBenchCases();
std::vector<BenchCase> MemoryBenchCases();
std::vector<BenchCase> OperationBenchCases();
std::vector<BenchCase> StepBenchCases();
std::vector<BenchCase> SmallBenchCases();
std::vector<BenchCase> TrainingBenchCases();
std::vector<BenchCase> DecodeBenchCases();

inline constexpr const char* kComposedSuffix = "-composed";
inline constexpr const char* kBFloat16Suffix = "-bf16";
std::string NameIn(Precision precision, const std::string& name);  // NAME or NAME-bf16

inline constexpr int64_t kBenchWidth = 768;  // d_X = d_M = d_Y of the layers
// One whole self-attention layer, forward and backward.
std::vector<BenchResult> MeasureLayer(const std::string& name, const AttentionConfig& config, int64_t batch, int64_t n,
                                      const BenchSettings& settings);

// `crosstalk bench --scaling`: prints speed against the number of threads and against n. Returns the rows.
std::vector<BenchResult> RunScaling(const BenchSettings& settings);

// Standard normal numbers that depend on the purpose alone.
Tensor RandomTensor(const Shape& shape, const char* purpose);

// Seconds since some fixed moment.
double WallSeconds();

// Calls of operator new by this thread so far: 0 in a program that does not count them, as `crosstalk` does.
inline int64_t& ThreadAllocations() {
  static thread_local int64_t count = 0;
  return count;
}

// kernels/peak.h's of `precision`, on all threads.
double PeakGflops(Precision precision);

struct PassSeconds {
  double forward = 0;
  double backward = 0;
  double whole = 0;  // 0: their sum
};

// The seconds of a training step as a pass.
PassSeconds PassOf(const StepResult& step);

// The most that `run` holds at any time beyond what was held before.
int64_t ExtraBytesOf(const std::function<void()>& run);

struct MeasuredPasses {
  std::function<PassSeconds()> run;
  // Runs it once more, not timed, to fill in how much memory it takes; may be empty.
  std::function<void(BenchResult& result)> measure_memory = {};
};

// In each of the precisions: runs the passes once for warming up, measures the peak, and fills a result with the
// medians of further runs, which take turns, the useful operations (twice `multiplications` forward, twice that
// backward) and what it all ran on.
std::vector<BenchResult> MeasurePasses(const std::string& name, const BenchSettings& settings, double multiplications,
                                       const MeasuredPasses& passes);

}  // namespace crosstalk
