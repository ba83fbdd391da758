// The matrix products of a T5: Y = X·W forward, dX = dY·Wᵀ and dW = Xᵀ·dY backward, ours on all threads, and OpenBLAS's
// with its best kernels on one, where it is installed.
#include "crosstalk/kernels/gemm/gemm.h"

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

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

}  // namespace crosstalk
