// The cases of kernels: matrix products, and the mixing of heads.
#include <algorithm>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

// The matrix products of a T5: Y = X·W forward, dX = dY·Wᵀ and dW = Xᵀ·dY backward, ours on all threads, and OpenBLAS's
// with its best kernels on one, if it is installed.

using kernels::GemmArguments;
using kernels::Transpose;

struct ProductSizes {
  int64_t rows, in, out;
};

std::vector<BenchResult> MeasureProducts(const std::string& name, const ProductSizes& s, const BenchSettings& settings,
                                         void (*gemm)(const GemmArguments<float>&)) {
  const Tensor X = RandomTensor({s.rows, s.in}, "bench.X"), W = RandomTensor({s.in, s.out}, "bench.W");
  const Tensor dY = RandomTensor({s.rows, s.out}, "bench.dY");
  const Tensor Y = Tensor::Zeros({s.rows, s.out}, DType::kFloat32);
  const Tensor dX = Tensor::Zeros({s.rows, s.in}, DType::kFloat32), dW = Tensor::Zeros({s.in, s.out}, DType::kFloat32);
  const auto product = [&](Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k,
                           const Tensor& a, const Tensor& b, const Tensor& c) {
    gemm({.transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .m = m,
          .n = n,
          .k = k,
          .alpha = 1.0f,
          .a = {a.data<float>(), a.size(1)},
          .b = {b.data<float>(), b.size(1)},
          .beta = 0.0f,
          .c = c.data<float>(),
          .ldc = n,
          .precision = CurrentContext().precision});
  };
  const double multiplications = static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
  const auto pass = [&] {
    const double begin = WallSeconds();
    product(Transpose::kNo, Transpose::kNo, s.rows, s.out, s.in, X, W, Y);
    const double middle = WallSeconds();
    product(Transpose::kNo, Transpose::kYes, s.rows, s.in, s.out, dY, W, dX);
    product(Transpose::kYes, Transpose::kNo, s.in, s.out, s.rows, X, dY, dW);
    return PassSeconds{.forward = middle - begin, .backward = WallSeconds() - middle};
  };
  return MeasurePasses(name, settings, multiplications, {.run = pass});
}

}  // namespace

std::vector<BenchCase> ProductBenchCases() {
  std::vector<BenchCase> cases;
  for (const ProductSizes& s :
       {ProductSizes{512, 512, 512}, ProductSizes{1024, 512, 2048}, ProductSizes{2048, 768, 768},
        ProductSizes{2048, 768, 3072}, ProductSizes{4096, 512, 512}, ProductSizes{4096, 512, 2048}}) {
    const std::string name = StrCat("product-", s.rows, "x", s.in, "x", s.out), openblas = name + "-openblas";
    cases.push_back({.name = name, .goal = "", .run = [=](const BenchSettings& settings) {
                       return MeasureProducts(name, s, settings, &kernels::Gemm<float>);
                     }});
    if (!kernels::GetOpenBlas().unavailable.empty()) continue;
    cases.push_back({.name = openblas,
                     .goal = "",
                     .run =
                         [=](const BenchSettings& settings) {
                           const ThreadsScope one_thread(1);
                           return MeasureProducts(openblas, s, settings, &kernels::OpenBlasGemm);
                         },
                     .in_bfloat16 = false});
  }
  return cases;
}

// The head mixing alone: L = J·P_l and its gradients for as many tiles as a layer has, each thread on one tile that
// stays in its cache. The composed one is the einsum over whole tensors. Logits are mixed in float, whatever products
// are rounded to.
namespace {

constexpr int64_t kMixingBatch = 4;
constexpr int64_t kMixingN = 512;

struct MixingSizes {
  int64_t h, batch, n;
  double positions() const { return static_cast<double>(batch) * static_cast<double>(n) * static_cast<double>(n); }
  // P_l applied at every query and memory position.
  double multiplications() const { return positions() * static_cast<double>(h * h); }
};

// One thread's data.
struct ThreadTiles {
  ThreadTiles(const kernels::AttentionPlan& plan, const Tensor& P_l)
      : packed(Tensor::Empty({plan.h * plan.h}, DType::kFloat32)),
        packed_transposed(Tensor::Empty({plan.h * plan.h}, DType::kFloat32)),
        J(RandomTensor({plan.TileFloats(plan.h)}, "bench.J")),
        L(Tensor::Zeros({plan.TileFloats(plan.h)}, DType::kFloat32)),
        dL(RandomTensor({plan.TileFloats(plan.h)}, "bench.dL")),
        dJ(Tensor::Zeros({plan.TileFloats(plan.h)}, DType::kFloat32)),
        dP_l(Tensor::Zeros({plan.h, plan.h, kernels::kPartialSums}, DType::kFloat32)) {
    kernels::PackHeadMixing(plan, P_l.data<float>(), packed.data<float>());
    kernels::PackHeadMixingTransposed(plan, P_l.data<float>(), packed_transposed.data<float>());
  }
  Tensor packed, packed_transposed;  // [h·h]
  Tensor J, L, dL, dJ;               // tiles of `plan`
  Tensor dP_l;                       // [h, h, kPartialSums]
};

std::vector<BenchResult> MeasureFused(const std::string& name, const MixingSizes& sizes,
                                      const BenchSettings& settings) {
  const kernels::AttentionPlan plan({.b = sizes.batch,
                                     .n = sizes.n,
                                     .m = sizes.n,
                                     .h_k = sizes.h,
                                     .h = sizes.h,
                                     .h_v = sizes.h,
                                     .d_k = 1,
                                     .d_v = 1,
                                     .P_l = true},
                                    kernels::AttentionPass::kBackward);
  const int64_t threads = NumThreads();
  const auto tile_positions = static_cast<double>(plan.rows * kernels::kChunk);
  // At least as many positions as the layer has, the same number for every thread.
  const auto tiles = static_cast<int64_t>(sizes.positions() / tile_positions / static_cast<double>(threads)) + 1;
  const double multiplications =
      static_cast<double>(tiles * threads) * tile_positions * static_cast<double>(sizes.h * sizes.h);

  const Tensor P_l = RandomTensor({sizes.h, sizes.h}, "bench.P_l");
  std::vector<ThreadTiles> own;
  for (int64_t i = 0; i < threads; ++i) own.emplace_back(plan, P_l);
  const auto pass = [&] {
    const double begin = WallSeconds();
    ParallelFor(threads, [&](int64_t thread) {
      const ThreadTiles& t = own[static_cast<size_t>(thread)];
      for (int64_t i = 0; i < tiles; ++i) {
        kernels::MixTileHeads(plan, t.packed.data<float>(), t.J.data<float>(), t.L.data<float>());
      }
    });
    const double middle = WallSeconds();
    ParallelFor(threads, [&](int64_t thread) {
      const ThreadTiles& t = own[static_cast<size_t>(thread)];
      t.dP_l.Fill(0);
      for (int64_t i = 0; i < tiles; ++i) {
        kernels::MixTileHeadsBackward(plan, t.packed_transposed.data<float>(), t.J.data<float>(), t.dL.data<float>(),
                                      t.dJ.data<float>(), t.dP_l.data<float>());
      }
    });
    return PassSeconds{.forward = middle - begin, .backward = WallSeconds() - middle};
  };
  return MeasurePasses(name, settings, multiplications, {.run = pass, .measure_memory = [&](BenchResult& result) {
                                                           result.extra_bytes = ExtraBytesOf([&] { pass(); });
                                                         }});
}

std::vector<BenchResult> MeasureComposed(const std::string& name, const MixingSizes& sizes,
                                         const BenchSettings& settings) {
  const Shape shape{sizes.batch, sizes.h, sizes.n, sizes.n};
  const Variable J(RandomTensor(shape, "bench.J"), Variable::RequiresGrad::kYes);
  const Variable P_l(RandomTensor({sizes.h, sizes.h}, "bench.P_l"), Variable::RequiresGrad::kYes);
  const Tensor dL = RandomTensor(shape, "bench.dL");
  int64_t extra_bytes = 0;
  const auto pass = [&] {
    J.ZeroGrad();
    P_l.ZeroGrad();
    ResetPeakMemory();
    const int64_t live = GetMemoryStats().live_bytes;
    const double begin = WallSeconds();
    const Variable L = Einsum("L[b,h,n,m] = einsum(J[b,h_k,n,m], P_l[h_k,h])", {J, P_l});
    const double middle = WallSeconds();
    Backward(L, dL);
    const double end = WallSeconds();
    const int64_t outputs = 2 * dL.num_elements() + P_l.value().num_elements();  // L, dJ; dP_l
    extra_bytes =
        std::max<int64_t>(0, GetMemoryStats().peak_bytes - live - outputs * static_cast<int64_t>(sizeof(float)));
    return PassSeconds{.forward = middle - begin, .backward = end - middle};
  };
  return MeasurePasses(name, settings, sizes.multiplications(),
                       {.run = pass, .measure_memory = [&](BenchResult& result) {
                          pass();
                          result.extra_bytes = extra_bytes;
                        }});
}

}  // namespace

std::vector<BenchCase> MixingBenchCases() {
  std::vector<BenchCase> cases;
  for (const int64_t h : {6, 12, 24, 48}) {
    const auto sizes = [h](const BenchSettings& settings) {
      return MixingSizes{h, settings.batch.value_or(kMixingBatch), settings.n.value_or(kMixingN)};
    };
    const std::string name = StrCat("mix-", h), composed = name + kComposedSuffix;
    cases.push_back({.name = name,
                     .goal = "90/90",
                     .run = [=](const BenchSettings& s) { return MeasureFused(name, sizes(s), s); },
                     .in_bfloat16 = false});
    cases.push_back({.name = composed,
                     .goal = "",
                     .run = [=](const BenchSettings& s) { return MeasureComposed(composed, sizes(s), s); },
                     .in_bfloat16 = false});
  }
  return cases;
}

}  // namespace crosstalk
