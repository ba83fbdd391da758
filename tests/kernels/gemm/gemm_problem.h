// A random product of matrices of any shape, by the kernel and by its specification in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/kernel_test.h"
#include "tests/support/simd_targets.h"

namespace crosstalk::kernels {

struct Product {
  int64_t m, n, k;
};

inline std::vector<uint16_t> Halves(const std::vector<float>& x) {
  std::vector<uint16_t> y(x.size());
  RoundToBFloat16(std::ssize(x), x.data(), y.data());
  return y;
}
inline std::vector<float> Rounded(const std::vector<float>& x) {
  const std::vector<uint16_t> halves = Halves(x);
  std::vector<float> y(x.size());
  WidenBFloat16(std::ssize(x), halves.data(), y.data());
  return y;
}

// Rows are 3, 5 and 2 elements apart beyond their length; C begins as NaN where beta is 0.
template <typename T>
struct GemmProblem {
  GemmProblem(const Product& s, Transpose ta, Transpose tb, T alpha = 1, T beta = 0,
              Precision precision = Precision::kFloat32)
      : g{.transpose_a = ta, .transpose_b = tb, .m = s.m, .n = s.n, .k = s.k, .alpha = alpha, .beta = beta} {
    g.precision = precision;
    g.a.stride = (ta == Transpose::kYes ? s.m : s.k) + 3;
    g.b.stride = (tb == Transpose::kYes ? s.k : s.n) + 5;
    g.ldc = s.n + 2;
    a = RandomValues<T>((ta == Transpose::kYes ? s.k : s.m) * g.a.stride, "a");
    b = RandomValues<T>((tb == Transpose::kYes ? s.n : s.k) * g.b.stride, "b");
    c = RandomValues<T>(s.m * g.ldc, "c");
    for (int64_t i = 0; beta == T(0) && i < s.m * g.ldc; ++i) {
      if (i % g.ldc < s.n) c[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }

  // `rows` rows of C from row `first` on, from as many of op(A).
  std::vector<T> Compute(int64_t first, int64_t rows) const {
    GemmArguments<T> product = g;
    Guarded<T> in_a(a), in_b(b), out(std::vector<T>(c.begin() + first * g.ldc, c.begin() + (first + rows) * g.ldc));
    product.m = rows;
    product.a = Operand<T>(in_a.data(), g.a.stride) + first * (g.transpose_a == Transpose::kYes ? 1 : g.a.stride);
    product.b = {in_b.data(), g.b.stride}, product.c = out.data();
    if (!bias.empty()) product.bias = bias.data();
    Gemm(product);
    EXPECT_TRUE(out.GuardsIntact()) << Describe();
    const std::vector<T> values = out.values();
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      const bool kept = i % g.ldc < g.n || values[i] == c[first * g.ldc + i];
      if (!kept) ADD_FAILURE() << "written between rows: " << Describe(), i = std::ssize(values);
    }
    return values;
  }
  std::vector<T> Compute() const { return Compute(0, g.m); }

  // In double, of the operands rounded to the precision.
  std::vector<double> Expected() const {
    std::vector<double> wide_a = ToDouble(a), wide_b = ToDouble(b), wide_c = ToDouble(c), wide_bias = ToDouble(bias);
    if constexpr (std::is_same_v<T, float>) {
      if (g.precision == Precision::kBFloat16) wide_a = ToDouble(Rounded(a)), wide_b = ToDouble(Rounded(b));
    }
    reference::Gemm(GemmArguments<double>{.transpose_a = g.transpose_a,
                                          .transpose_b = g.transpose_b,
                                          .m = g.m,
                                          .n = g.n,
                                          .k = g.k,
                                          .alpha = g.alpha,
                                          .a = {wide_a.data(), g.a.stride},
                                          .b = {wide_b.data(), g.b.stride},
                                          .beta = g.beta,
                                          .c = wide_c.data(),
                                          .ldc = g.ldc,
                                          .bias = bias.empty() ? nullptr : wide_bias.data()});
    return wide_c;
  }
  // k products of numbers of size 1 in any order: the error is a sum of k roundings, of partial sums √k in size, at
  // worst k u √k, typically u k; 4 u (k + 2) leaves room for that and none for a wrong term, which is of size 1.
  testing::Tolerance Bound() const { return {4 * kRoundoff<T> * (static_cast<double>(g.k) + 2), 4 * kRoundoff<T>}; }
  std::string Describe() const {
    return StrCat("m=", g.m, " n=", g.n, " k=", g.k, " A ", int(g.transpose_a), " B ", int(g.transpose_b),
                  " beta=", g.beta,
                  sizeof(T) == 8                        ? " double"
                  : g.precision == Precision::kBFloat16 ? " bfloat16"
                                                        : " float");
  }

  GemmArguments<T> g;
  std::vector<T> a, b, c, bias;
};

// f(problem) in float, in double and in bfloat16, for each transpose of A and B; alpha and beta differ among them.
template <typename F>
void ForProblems(const std::vector<Product>& shapes, const F& f) {
  for (const Product& s : shapes) {
    for (int i = 0; i < 4; ++i) {
      const Transpose ta = i & 1 ? Transpose::kYes : Transpose::kNo, tb = i & 2 ? Transpose::kYes : Transpose::kNo;
      const bool adds = i % 3 == 0;
      f(GemmProblem<float>(s, ta, tb, adds ? -0.5f : 1.0f, adds ? 1.0f : 0.0f));
      f(GemmProblem<double>(s, ta, tb, adds ? 1.0 : -0.5, adds ? 0.0 : 1.0));
      f(GemmProblem<float>(s, ta, tb, adds ? 1.0f : 0.7f, adds ? 0.0f : 0.3f, Precision::kBFloat16));
    }
  }
}

// f() on every SIMD target, and in bfloat16 with every unit of pairs.
template <typename F>
void OnEveryTarget(Precision precision, const F& f) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    const bool rounds = precision == Precision::kBFloat16;
    for (const std::string& unit : rounds ? SupportedBFloat16Units() : std::vector<std::string>{""}) {
      RestrictBFloat16Unit(unit);
      SCOPED_TRACE(target + " " + unit);
      f();
    }
    RestrictBFloat16Unit("");
  }
  RestrictSimdTarget("");
}

}  // namespace crosstalk::kernels
