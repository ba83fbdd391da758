// One order of every sum: each kernel gives the same bits on all SIMD targets that fuse multiply-adds, and the same on
// all that do not, whatever the width of their vectors, for every remainder that a vector can leave; and on any number
// of threads, where its work is cut into several tiles.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/kernel_test.h"
#include "tests/support/simd_targets.h"

namespace crosstalk::kernels {
namespace target_bits_test {

// 1 … 200 columns, and some that fill several blocks of a sum and leave a rest.
std::vector<int64_t> Lengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 200; ++n) lengths.push_back(n);
  lengths.insert(lengths.end(), {2047, 2048, 2049, 4111, 9001});
  return lengths;
}

// Results of kernels, one after the other.
template <typename T>
class Results {
 public:
  // Room for `count` more, until the next call.
  T* Take(int64_t count) {
    values_.resize(values_.size() + count);
    return values_.data() + values_.size() - count;
  }
  const std::vector<T>& values() const { return values_; }

 private:
  std::vector<T> values_;
};

template <typename T>
void ForSizes(std::vector<T> (*compute)(int64_t rows, int64_t n)) {
  for (const int64_t n : Lengths()) {
    ExpectSameBitsOnEveryTarget([&] { return compute(3, n); }, StrCat(n, " columns"));
  }
  for (const auto& [rows, n] : {std::pair(300, 1001), {3, 100'003}}) {
    SCOPED_TRACE(StrCat(rows, " rows of ", n));
    ExpectSameBitsOnAnyThreads([&, rows = rows, n = n] { return compute(rows, n); });
  }
}
#define CROSSTALK_TEST_BITS(Name, Compute) \
  TEST(TargetBitsTest, Name) { \
    ForSizes<float>(Compute<float>); \
    ForSizes<double>(Compute<double>); \
  }

// Sums whose terms differ in size and sign, so that every order rounds otherwise.
template <typename T>
std::vector<T> Input(int64_t count, const char* name) {
  return RandomValues<T>(count, name, 1, 0.25);
}

template <typename T>
std::vector<T> Reductions(int64_t rows, int64_t n) {
  Results<T> out;
  const std::vector<T> x = Input<T>(rows * n, "x");
  Sum(rows, n, 1, x.data(), out.Take(rows));
  Sum(1, n, rows, x.data(), out.Take(rows));
  Sum(1, rows, n, x.data(), out.Take(n));
  Max(rows, n, 1, x.data(), out.Take(rows), nullptr);
  // As a sum of squares in double, to its last bit.
  const double squares = SumOfSquares(rows * n, x.data());
  static_assert(sizeof(double) % sizeof(T) == 0);
  std::memcpy(out.Take(sizeof(double) / sizeof(T)), &squares, sizeof(double));
  // The maximum of zeros of either sign is +0.
  std::vector<T> zeros(n, T(0));
  for (int64_t i = 0; i < n; i += 3) zeros[i] = -T(0);
  Max(1, n, 1, zeros.data(), out.Take(1), nullptr);
  return out.values();
}
CROSSTALK_TEST_BITS(SumsAndMaxima, Reductions)

template <typename T>
std::vector<T> RmsNorms(int64_t rows, int64_t n) {
  Results<T> out;
  const std::vector<T> x = Input<T>(rows * n, "x"), dy = Input<T>(rows * n, "dy"),
                       scale = RandomValues<T>(n, "scale", 0.3, 1);
  std::vector<T> rstd(rows), dscale(n), workspace(NormWorkspace(rows, n));
  RmsNorm(rows, n, x.data(), scale.data(), 1e-6, out.Take(rows * n), rstd.data());
  RmsNormGradient(rows, n, x.data(), scale.data(), rstd.data(), dy.data(), out.Take(rows * n), dscale.data(),
                  workspace.data());
  std::copy(rstd.begin(), rstd.end(), out.Take(rows));
  std::copy(dscale.begin(), dscale.end(), out.Take(n));
  return out.values();
}
CROSSTALK_TEST_BITS(RmsNorm, RmsNorms)

template <typename T>
std::vector<T> LayerNorms(int64_t rows, int64_t n) {
  Results<T> out;
  const std::vector<T> x = Input<T>(rows * n, "x"), dy = Input<T>(rows * n, "dy"),
                       scale = RandomValues<T>(n, "scale", 0.3, 1);
  std::vector<T> mean(rows), rstd(rows), dscale(n), dbias(n), workspace(NormWorkspace(rows, n));
  LayerNorm(rows, n, x.data(), scale.data(), scale.data(), 1e-6, out.Take(rows * n), mean.data(), rstd.data());
  LayerNormGradient(rows, n, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), out.Take(rows * n),
                    dscale.data(), dbias.data(), workspace.data());
  for (const auto* sums : {&mean, &rstd}) std::copy(sums->begin(), sums->end(), out.Take(rows));
  for (const auto* sums : {&dscale, &dbias}) std::copy(sums->begin(), sums->end(), out.Take(n));
  return out.values();
}
CROSSTALK_TEST_BITS(LayerNorm, LayerNorms)

template <typename T>
std::vector<T> Softmaxes(int64_t rows, int64_t n) {
  Results<T> out;
  const std::vector<T> x = Input<T>(rows * n, "x"), dy = Input<T>(rows * n, "dy");
  // [rows, n] by rows, [n, rows] by columns.
  for (const int64_t inner : {int64_t{1}, rows}) {
    const int64_t outer = rows / inner;
    std::vector<T> y(rows * n), log_z(rows);
    Softmax(outer, n, inner, x.data(), y.data());
    SoftmaxGradient(outer, n, inner, y.data(), dy.data(), out.Take(rows * n));
    LogSumExp(outer, n, inner, x.data(), log_z.data());
    LogSumExpGradient(outer, n, inner, x.data(), log_z.data(), dy.data(), out.Take(rows * n));
    std::copy(y.begin(), y.end(), out.Take(rows * n));
    std::copy(log_z.begin(), log_z.end(), out.Take(rows));
  }
  return out.values();
}
CROSSTALK_TEST_BITS(SoftmaxAndLogSumExp, Softmaxes)

template <typename T>
std::vector<T> CrossEntropies(int64_t rows, int64_t n) {
  Results<T> out;
  for (const double magnitude : {1.0, 1e5}) {  // 1e5: log Z is coarse in float
    const std::vector<T> logits = RandomValues<T>(rows * n, "logits", magnitude, magnitude);
    std::vector<int32_t> targets(rows);
    for (int64_t row = 0; row < rows; ++row) targets[row] = static_cast<int32_t>(row * (n / 2) % n);
    std::vector<T> nll(rows), log_z(rows);
    const auto correct = std::make_unique<bool[]>(rows);
    CrossEntropy(rows, n, logits.data(), targets.data(), {.z_loss = 1e-4}, nll.data(), log_z.data(), correct.get());
    std::copy(correct.get(), correct.get() + rows, out.Take(rows));
    CrossEntropyGradient<T>(rows, n, logits.data(), targets.data(), log_z.data(), {.z_loss = 1e-4}, T(0.3), nullptr,
                            out.Take(rows * n));
    for (const auto* sums : {&nll, &log_z}) std::copy(sums->begin(), sums->end(), out.Take(rows));
  }
  return out.values();
}
CROSSTALK_TEST_BITS(CrossEntropy, CrossEntropies)

template <typename T>
std::vector<T> OptimizerSteps(int64_t rows, int64_t n) {
  const int64_t count = rows * n;
  const std::vector<T> gradient = Input<T>(rows * n, "gradient");
  std::vector<T> all;
  const auto take = [&](const std::vector<T>& part) { all.insert(all.end(), part.begin(), part.end()); };

  std::vector<T> parameter = Input<T>(rows * n, "parameter"), v(count, T(0.1));
  const AdafactorOptions adafactor = {.learning_rate = 0.01, .decay = 0.7, .gradient_scale = 0.3};
  AdafactorStep(count, adafactor, gradient.data(), v.data(), parameter.data());
  take(parameter);
  take(v);

  std::vector<T> v_row(rows, T(0.1)), v_col(n, T(0.1)), workspace(AdafactorWorkspace(rows, n));
  AdafactorFactoredStep(rows, n, adafactor, gradient.data(), v_row.data(), v_col.data(), parameter.data(),
                        workspace.data());
  take(parameter);
  take(v_row);
  take(v_col);

  std::vector<T> m(count, T(0.1));
  AdamWStep(count, {.weight_decay = 0.1, .learning_rate = 0.01, .step = 7}, gradient.data(), m.data(), v.data(),
            parameter.data());
  take(parameter);
  LambStep(count, {.weight_decay = 0.1, .learning_rate = 0.01, .step = 8}, gradient.data(), m.data(), v.data(),
           parameter.data());
  take(parameter);
  take(m);
  take(v);
  return all;
}
CROSSTALK_TEST_BITS(OptimizerSteps, OptimizerSteps)

template <typename T>
std::vector<T> ElementwiseFunctions(int64_t /*rows*/, int64_t n) {
  Results<T> out;
  const std::vector<T> x = RandomValues<T>(n, "x", 5, 0), dy = RandomValues<T>(n, "dy");
  for (const UnaryOp f : {UnaryOp::kExp, UnaryOp::kLog, UnaryOp::kSqrt, UnaryOp::kSquare, UnaryOp::kTanh,
                          UnaryOp::kSigmoid, UnaryOp::kGelu, UnaryOp::kGeluTanh}) {
    std::vector<T> in = x, y(n);
    if (f == UnaryOp::kLog || f == UnaryOp::kSqrt) {
      for (T& v : in) v = v * v;
    }
    Unary(f, n, in.data(), y.data());
    if (IsActivation(f)) {
      Activation(f, n, in.data(), y.data(), out.Take(n));
    } else {
      UnaryGradient(f, n, in.data(), y.data(), dy.data(), out.Take(n));
    }
    std::copy(y.begin(), y.end(), out.Take(n));
  }
  // Powers down to subnormal ones and up to infinity.
  const std::vector<T> wide = RandomValues<T>(n, "wide", sizeof(T) == 4 ? 110 : 760, 0);
  Unary(UnaryOp::kExp, n, wide.data(), out.Take(n));
  return out.values();
}
CROSSTALK_TEST_BITS(ElementwiseFunctions, ElementwiseFunctions)

}  // namespace target_bits_test
}  // namespace crosstalk::kernels
