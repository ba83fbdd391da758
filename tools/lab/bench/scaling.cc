// Speed of one layer against the number of threads and against n, beside what one operation and one byte cost at best.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/tensor.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

constexpr int64_t kHeadsN = 512;
constexpr int64_t kLongest = 4096;
constexpr int64_t kPositions = 2048;  // batch · n, as far as n allows

// Seconds for a byte to be read from memory, or written to it: a copy between buffers that no cache holds, all threads.
double SecondsPerByte() {
  constexpr int64_t kBytes = int64_t{128} << 20, kGrain = int64_t{1} << 20;
  const Tensor from = Tensor::Zeros({kBytes / 4}, DType::kInt32), to = Tensor::Zeros({kBytes / 4}, DType::kInt32);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const double begin = WallSeconds();
    ParallelForRange(kBytes, kGrain, [&](int64_t first, int64_t end) {
      std::memcpy(static_cast<char*>(to.raw_data()) + first, static_cast<const char*>(from.raw_data()) + first,
                  static_cast<size_t>(end - first));
    });
    seconds.push_back(WallSeconds() - begin);
  }
  return Median(seconds) / static_cast<double>(2 * kBytes);
}

// Bytes that one forward and backward pass must read and write at least once: X, Y, dY, dX, parameters and their
// gradients.
double LeastBytes(const AttentionConfig& config, int64_t batch, int64_t n) {
  return 4.0 * static_cast<double>(4 * batch * n * config.d_X + 2 * CostOf(config, n, n).parameters);
}

std::string Row(const std::string& label, const BenchResult& r, double least_bytes, double speed_up) {
  const double seconds = r.whole_ms * 1e-3, gflop = r.useful_gflop_forward + r.useful_gflop_backward;
  char line[160];
  std::snprintf(line, sizeof(line), "%-18s %10.2f %10.2f %9.1f %6.0f %6.0f %8.2f %10.3f %9.3f", label.c_str(),
                r.forward_ms, r.backward_ms, gflop / seconds, 100 * r.ShareForward(), 100 * r.ShareBackward(), speed_up,
                seconds / gflop * 1e3, seconds / least_bytes * 1e9);
  return std::string(line) + "\n";
}

std::string Heading(const char* against) {
  char line[160];
  std::snprintf(line, sizeof(line), "%-18s %10s %10s %9s %6s %6s %8s %10s %9s", against, "forward", "backward",
                "GFLOP/s", "fwd %", "bwd %", "speed-up", "ps/operat.", "ns/byte");
  return std::string(line) + "\n";
}

}  // namespace

std::vector<BenchResult> RunScaling(const BenchSettings& settings) {
  AttentionConfig config = MakeAttentionConfig({.kind = AttentionKind::kTalking, .heads = 24}, kBenchWidth);
  config.implementation = AttentionImplementation::kFused;
  const int64_t longest = settings.n.value_or(kLongest);
  const auto batch_of = [&](int64_t n) { return settings.batch.value_or(std::max<int64_t>(1, kPositions / n)); };
  const int all_threads = NumThreads();
  std::vector<BenchResult> results;

  const double peak = PeakGflops(settings.precisions.front());
  const double seconds_per_byte = SecondsPerByte();
  char limits[256];
  std::snprintf(
      limits, sizeof(limits),
      "At best, %d threads: %.3f ps an operation (%.0f GFLOP/s), %.4f ns a byte from or to memory (%.1f GB/s); "
      "%.1f operations in the time of a byte.\n",
      NumThreads(), 1e3 / peak, peak, seconds_per_byte * 1e9, 1e-9 / seconds_per_byte, seconds_per_byte * peak * 1e9);
  PrintResult(
      StrCat("Layer: ", ToString(config), ", ", Name(settings.precisions.front()),
             "\nTimes in ms, shares of the peak on as many threads; operations are the useful ones, bytes those "
             "of inputs, outputs and gradients.\n",
             limits));

  const int64_t n = std::min(kHeadsN, longest);
  PrintResult(Heading("threads"));
  // 1, 2, 3, 4, 6, 9, … and all
  for (int count = 1; count > 0;
       count = count == all_threads ? 0 : std::min(all_threads, count + std::max(1, count / 2))) {
    const ThreadsScope threads(count);
    results.push_back(MeasureLayer(StrCat("scaling-threads-", count), config, batch_of(n), n, settings).front());
    PrintResult(Row(std::to_string(count), results.back(), LeastBytes(config, batch_of(n), n),
                    results.front().whole_ms / results.back().whole_ms));
  }

  PrintResult("\n" + Heading("n (batch)"));
  const size_t first_row = results.size();
  for (int64_t length = std::min<int64_t>(64, longest); length <= longest; length *= 2) {
    const int64_t batch = batch_of(length);
    results.push_back(MeasureLayer(StrCat("scaling-n-", length), config, batch, length, settings).front());
    const BenchResult& first = results[first_row];
    const BenchResult& last = results.back();
    PrintResult(Row(StrCat(length, " (", batch, ")"), last, LeastBytes(config, batch, length),
                    last.useful_gflop_forward / last.whole_ms / (first.useful_gflop_forward / first.whole_ms)));
  }
  return results;
}

}  // namespace crosstalk
