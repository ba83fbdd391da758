// Chapter 6 of the course (examples/course/6_fused_kernel.md): what a layer keeps and computes; attention in two passes
// over chunks of the memory; and the library's kernel beside the peak of this machine (with --measure: it differs from
// machine to machine).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/peak.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"

using namespace crosstalk;  // an example may

namespace {

using Floats = std::vector<float>;

Floats Random(const char* name, int64_t count, double stddev) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(stddev * Normal({.seed = 1, .stream = StreamId(name)}, static_cast<uint64_t>(i)));
  }
  return values;
}

struct Problem {
  int64_t n, m, h, d;  // h heads of each kind, of the size d
  Floats Q = Random("Q", n*h*d, 1), K = Random("K", m*h*d, 1), V = Random("V", m*h*d, 1);
  Floats P_l = Random("P_l", h*h, 1 / std::sqrt(h)), P_w = Random("P_w", h*h, 1 / std::sqrt(h));
  float scale = 1 / std::sqrt(static_cast<float>(d));

  // L[h] of query i and position j.
  Floats Logits(int64_t i, int64_t j) const {
    Floats L(static_cast<size_t>(h));
    for (int64_t k = 0; k < h; ++k) {
      float J = 0;
      for (int64_t e = 0; e < d; ++e) J += scale * Q[(i * h + k) * d + e] * K[(j * h + k) * d + e];
      for (int64_t g = 0; g < h; ++g) L[g] += J * P_l[k * h + g];
    }
    return L;
  }

  // O[n, h, d] in two passes over the memory: sums first, then weights, mixed weights and values.
  Floats TwoPasses() const {
    Floats O(static_cast<size_t>(n * h * d));
    for (int64_t i = 0; i < n; ++i) {
      Floats largest(h, -std::numeric_limits<float>::infinity()), sum(h);
      for (int64_t j = 0; j < m; ++j) {
        const Floats L = Logits(i, j);
        for (int64_t g = 0; g < h; ++g) {
          const float most = std::max(largest[g], L[g]);
          sum[g] = sum[g] * std::exp(largest[g] - most) + std::exp(L[g] - most);
          largest[g] = most;
        }
      }
      for (int64_t j = 0; j < m; ++j) {
        const Floats L = Logits(i, j);
        for (int64_t v = 0; v < h; ++v) {
          float U = 0;
          for (int64_t g = 0; g < h; ++g) U += std::exp(L[g] - largest[g]) / sum[g] * P_w[g * h + v];
          for (int64_t e = 0; e < d; ++e) O[(i * h + v) * d + e] += U * V[(j * h + v) * d + e];
        }
      }
    }
    return O;
  }

  Floats Fused() const {
    kernels::AttentionCall call;
    call.shape = {.b = 1, .n = n, .m = m, .h_k = h, .h = h, .h_v = h, .d_k = d, .d_v = d, .P_l = true, .P_w = true};
    call.Q = {Q.data(), h * d}, call.K = {K.data(), h * d}, call.V = {V.data(), h * d};
    call.P_l = {P_l.data()}, call.P_w = {P_w.data()}, call.scale = scale;
    Floats O(static_cast<size_t>(n * h * d)), row_max(h * n), inverse_sum(h * n);
    const int threads = NumThreads();
    const auto bytes = static_cast<int64_t>(kernels::AttentionForwardWorkspaceBytes(call.shape, threads));
    const Tensor workspace = Tensor::Empty({bytes / 4 + 1}, DType::kFloat32);  // aligned to 64 bytes
    kernels::AttentionForward(call, {O.data(), h * d}, {row_max.data(), inverse_sum.data()}, workspace.raw_data(),
                              threads);
    return O;
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::printf("12 heads of 64, n = m: floats of Q, of J, L, W and U, and multiplications\n");
  for (const int64_t n : {128, 512, 2048, 8192}) {
    std::printf("  n=%-5d %9lld %12lld %15lld\n", static_cast<int>(n), static_cast<long long>(n * 12 * 64),
                static_cast<long long>(4 * 12 * n * n), static_cast<long long>(n * n * (2 * 12 * 64 + 2 * 12 * 12)));
  }
  const Problem small = {.n = 5, .m = 70, .h = 4, .d = 8};
  const Floats loops = small.TwoPasses(), fused = small.Fused();
  float difference = 0;
  for (size_t i = 0; i < loops.size(); ++i) difference = std::max(difference, std::abs(loops[i] - fused[i]));
  std::printf("two passes and the fused kernel: %s\n", difference < 1e-5f ? "equal to rounding" : "DIFFERENT");
  if (argc < 2 || std::strcmp(argv[1], "--measure") != 0) return 0;

  const Problem large = {.n = 512, .m = 512, .h = 12, .d = 64};
  double best = 1e300;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    large.Fused();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const double gflop = 2e-9 * 512 * 512 * (2 * 12 * 64 + 2 * 12 * 12), peak = kernels::MeasurePeakGflops(NumThreads());
  std::printf("fused, n = m = 512: %.1f ms, %.0f %% of a peak of %.0f GFLOP/s\n", 1e3 * best, 100 * gflop / best / peak,
              peak);
}
