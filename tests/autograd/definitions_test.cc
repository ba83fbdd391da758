// Each op beside its definition by other ops, in values and in the gradients of every input; those other ops beside
// plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace definitions_test {

using testing::RandomTensor;
using testing::Strided;

using Inputs = std::vector<Variable>;
using Op = std::function<Variable(const Inputs& in)>;
// An op takes up to three inputs.
#define CROSSTALK_OP(expression) \
  [=](const Inputs& in) { \
    [[maybe_unused]] const Variable &a = in[0], &b = in[in.size() > 1], &c = in.back(); \
    return expression; \
  }

struct Row {
  std::string name;
  std::vector<Tensor> inputs;
  Op op, definition;
};

Variable Constant(double value) { return Variable(Tensor::Scalar(value, DType::kFloat64)); }
Variable SumKept(const Variable& x, int dim) { return Sum(x, {dim}, KeepDims::kYes); }
Variable MeanKept(const Variable& x) { return Scale(SumKept(x, -1), 1.0 / static_cast<double>(x.size(-1))); }
// Rows of the indices given, along a dimension.
Variable Pick(const Variable& x, int dim, const std::vector<int64_t>& indices) {
  std::vector<Variable> parts;
  for (const int64_t i : indices) parts.push_back(Slice(x, dim, i, i + 1));
  return Concat(parts, dim);
}
Tensor Ints(const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::FromValues<int32_t>(shape, values);
}
Variable GeluTanhOf(const Variable& x) {
  const Variable inner = Scale(Add(x, Scale(Mul(x, Mul(x, x)), 0.044715)), std::sqrt(2 / std::numbers::pi));
  return Mul(Scale(x, 0.5), AddScalar(Tanh(inner), 1));
}
Variable RmsNormOf(const Variable& x, const Variable& scale, double epsilon) {
  return Mul(Div(x, Sqrt(AddScalar(MeanKept(Square(x)), epsilon))), scale);
}
Variable CrossEntropyOf(const Variable& logits, bool ignore_0, double z_loss) {
  const Variable log_z = LogSumExp(logits, 1), chosen = Gather(logits, 1, Ints({5, 1}, {8, 0, 3, 0, 5}));
  const Variable loss = Add(Sub(log_z, Reshape(chosen, {5})), Scale(Square(log_z), z_loss));
  return Sum(ignore_0 ? MaskedFill(loss, Tensor::FromValues<uint8_t>({5}, {0, 1, 0, 1, 0}), 0) : loss);
}

std::vector<Row> Rows() {
  std::vector<Row> rows = {
      {"gather",
       {RandomTensor("g", {3, 5})},
       CROSSTALK_OP(Gather(a, 1, Ints({2, 3}, {4, 0, 1, 1, 1, 3}))),
       CROSSTALK_OP(Concat({Pick(Slice(a, 0, 0, 1), 1, {4, 0, 1}), Pick(Slice(a, 0, 1, 2), 1, {1, 1, 3})}, 0))},
      // An input of several products has the sum of their gradients, whether one adds its own within itself or not.
      {"several products",
       {RandomTensor("a", {2, 5, 7}), RandomTensor("b", {7, 3}), RandomTensor("bias", {3})},
       CROSSTALK_OP(Add(Add(MatMulAdd(a, b, c), MatMulAdd(a, b, c)), Add(MatMul(a, b), MatMulAdd(a, b, c)))),
       CROSSTALK_OP(Add(Scale(MatMul(a, b), 4), Scale(c, 3)))}};
  // Few rows and many, one block of k and two, no row and no term; and leading dimensions, which are rows.
  for (const auto& [shape, n] : std::vector<std::pair<Shape, int64_t>>{
           {{61, 800}, 37}, {{100, 64}, 513}, {{0, 3}, 2}, {{3, 0}, 2}, {{2, 5, 7}, 3}, {{1, 1, 7}, 3}}) {
    rows.push_back({StrCat("matmul_add ", shape),
                    {RandomTensor("a", shape), RandomTensor("b", {shape.at(-1), n}), RandomTensor("bias", {n})},
                    CROSSTALK_OP(MatMulAdd(a, b, c)),
                    CROSSTALK_OP(Add(MatMul(a, b), c))});
  }
  // Ops of the table in tests/support/grad_cases.cc.
  const auto define = [&](const std::string& name, const Op& definition) {
    for (const testing::GradCase& one : testing::GradCases()) {
      if (one.name == name) return rows.push_back({name, one.inputs, one.function, definition});
    }
    ADD_FAILURE() << "no case " << name;
  };
  define("neg", CROSSTALK_OP(Sub(Constant(0), a)));
  define("square", CROSSTALK_OP(Mul(a, a)));
  define("sigmoid", CROSSTALK_OP(Div(Constant(1), AddScalar(Exp(Neg(a)), 1))));
  define("gelu_tanh", CROSSTALK_OP(GeluTanhOf(a)));
  define("gated_gelu", CROSSTALK_OP(Mul(GeluTanhOf(a), b)));
  define("mean_all", CROSSTALK_OP(Scale(Sum(a, {2, 0, -2}), 1.0 / 105)));
  define("mean_last_keep", CROSSTALK_OP(MeanKept(a)));
  define("masked_fill_unless", CROSSTALK_OP(MaskedFill(a, Tensor::FromValues<uint8_t>({5, 1}, {0, 1, 0, 0, 1}), 2)));
  const std::vector<int64_t> ids = {4, 0, 4, 1, 3, 4};
  define("embedding", CROSSTALK_OP(Reshape(Pick(a, 0, ids), {3, 2, 7})));
  define("take_middle", CROSSTALK_OP(Reshape(Pick(a, 1, ids), {3, 3, 2, 7})));
  define("take_last", CROSSTALK_OP(Reshape(Pick(a, 1, ids), {3, 3, 2})));
  define("matmul_add", CROSSTALK_OP(Add(MatMul(a, b), c)));
  define("recompute", CROSSTALK_OP(Tanh(RmsNorm(a, b, 1e-6))));
  for (const double epsilon : {1e-12, 0.1}) {
    const std::string of = epsilon == 0.1 ? "_wide" : "";
    define("rms_norm" + of, CROSSTALK_OP(RmsNormOf(a, b, epsilon)));
    define("layer_norm" + of, CROSSTALK_OP(Add(RmsNormOf(Sub(a, MeanKept(a)), b, epsilon), c)));
  }
  for (const bool ignore : {false, true}) {
    for (const double z : {0.0, 0.1}) {
      define(StrCat("cross_entropy", ignore ? "_ignore" : "", z > 0 ? "_z" : ""),
             CROSSTALK_OP(Scale(CrossEntropyOf(a, ignore, z), 0.3)));
    }
  }
  for (const int dim : {0, 1, 2}) {
    const std::string of = "_dim" + std::to_string(dim);
    define("softmax" + of, CROSSTALK_OP(Div(Exp(a), SumKept(Exp(a), dim))));
    define("logsumexp" + of, CROSSTALK_OP(Log(Sum(Exp(a), {dim}))));
    define("log_softmax" + of, CROSSTALK_OP(Sub(a, Log(SumKept(Exp(a), dim)))));
  }
  for (const std::string ta : {"n", "t"}) {
    for (const std::string tb : {"n", "t"}) {
      const std::string equation =
          StrCat("C[p,q,i,j] = einsum(A[p,", ta == "t" ? "k,i" : "i,k", "], B[q,", tb == "t" ? "j,k" : "k,j", "])");
      define("matmul_outer_batch_" + ta + tb,
             CROSSTALK_OP(Einsum(equation, {Reshape(a, {3, a.size(2), a.size(3)}), b})));
    }
  }
  return rows;
}

TEST(DefinitionsTest, OpsEqualThemInValuesAndGradientsHoweverInputsAreStored) {
  for (const Row& row : Rows()) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(row.name + (strided ? ", strided" : ""));
      std::vector<std::vector<double>> results[2];
      for (const bool defined : {false, true}) {
        std::vector<Variable> in;
        for (const Tensor& input : row.inputs) {
          in.emplace_back(strided && input.rank() > 1 ? Strided(input) : input, Variable::RequiresGrad::kYes);
        }
        const Variable y = (defined ? row.definition : row.op)(in);
        Backward(y, RandomTensor("dy", y.shape()));
        results[defined].push_back(y.value().Contiguous().ToVector<double>());
        for (const Variable& leaf : in) results[defined].push_back(leaf.grad().Contiguous().ToVector<double>());
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t i = 0; i < results[0].size(); ++i) {
        // Some hundred roundings of 2^-53, of numbers up to some dozens.
        EXPECT_TRUE(testing::AllClose(results[0][i], results[1][i], {2e-12, 1e-13})) << "result " << i;
      }
    }
  }
}

// f of every element, however x is stored. The vector kernels are within a few units in the last place of the C
// library's.
TEST(LoopsTest, FunctionsOfAnElementEqualThem) {
  const Tensor wide = RandomTensor("wide", {7, 13}, -4, 4), positive = RandomTensor("positive", {7, 13}, 0.01, 4);
  const struct {
    const char* name;
    Variable (*op)(const Variable&);
    double (*f)(double);
    const Tensor& x;
  } kCases[] = {{"exp", Exp, std::exp, wide},
                {"tanh", Tanh, std::tanh, wide},
                {"relu", Relu, [](double v) { return v > 0 ? v : 0; }, wide},
                {"gelu", Gelu, [](double v) { return v / 2 * (1 + std::erf(v / std::numbers::sqrt2)); }, wide},
                {"log", Log, std::log, positive},
                {"sqrt", Sqrt, std::sqrt, positive}};
  for (const auto& c : kCases) {
    for (const Tensor& x : {c.x, Strided(c.x)}) {
      std::vector<double> expected = x.ToVector<double>();
      for (double& v : expected) v = c.f(v);
      EXPECT_TRUE(testing::AllClose(c.op(Variable(x)).value().ToVector<double>(), expected, {1e-14, 1e-14})) << c.name;
    }
  }
}

TEST(LoopsTest, BinaryOpsThatBroadcastEqualThem) {
  const Tensor full = RandomTensor("full", {3, 5, 7}, 0.5, 2);
  const std::vector<Tensor> others = {full,
                                      Strided(full),
                                      RandomTensor("row", {7}, 0.5, 2),
                                      RandomTensor("column", {5, 1}, 0.5, 2),
                                      RandomTensor("outer", {3, 1, 1}, 0.5, 2),
                                      Strided(RandomTensor("middle", {3, 1, 7}, 0.5, 2)),
                                      RandomTensor("scalar", {}, 0.5, 2)};
  for (const Tensor& a : others) {
    for (const Tensor& b : others) {
      const Variable x(a), y(b);
      const Tensor sum = (x + y).value(), difference = (x - y).value(), product = (x * y).value();
      const Tensor quotient = (x / y).value();
      const Tensor wide_a = a.BroadcastTo(sum.shape()).Clone(), wide_b = b.BroadcastTo(sum.shape()).Clone();
      for (int64_t i = 0; i < sum.num_elements(); ++i) {
        const double u = wide_a.data<double>()[i], v = wide_b.data<double>()[i];
        ASSERT_EQ(sum.data<double>()[i], u + v) << a.shape() << b.shape();
        ASSERT_EQ(difference.data<double>()[i], u - v) << a.shape() << b.shape();
        ASSERT_EQ(product.data<double>()[i], u * v) << a.shape() << b.shape();
        ASSERT_EQ(quotient.data<double>()[i], u / v) << a.shape() << b.shape();
      }
    }
  }
}

TEST(LoopsTest, SumsAndMaximaOverAnyDimensionsEqualThem) {
  const Tensor contiguous = RandomTensor("x", {3, 5, 7});
  const std::vector<std::vector<int>> all_dims = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {-1}, {-1, 0}};
  for (const Tensor& x : {contiguous, Strided(contiguous)}) {
    for (const std::vector<int>& dims : all_dims) {
      Shape shape = x.shape();
      for (const int dim : dims) shape[dim < 0 ? dim + 3 : dim] = 1;
      std::vector<double> sums(shape.NumElements()), maxima(shape.NumElements(), -9);
      for (int64_t at = 0; at < 3 * 5 * 7; ++at) {
        const int64_t i = at / 35, j = at / 7 % 5, k = at % 7;
        const size_t to = ((i % shape[0]) * shape[1] + j % shape[1]) * shape[2] + k % shape[2];
        sums[to] += x.At({i, j, k});
        maxima[to] = std::max(maxima[to], x.At({i, j, k}));
      }
      const Tensor sum = Sum(Variable(x), dims, KeepDims::kYes).value(), dropped = Sum(Variable(x), dims).value();
      EXPECT_EQ(sum.shape(), shape);
      EXPECT_TRUE(testing::AllClose(sum.ToVector<double>(), sums, {1e-13, 0}));  // ~100 additions of ~1
      EXPECT_EQ(Max(Variable(x), dims, KeepDims::kYes).value().ToVector<double>(), maxima);
      EXPECT_EQ(dropped.rank(), 3 - static_cast<int>(dims.size()));
      EXPECT_EQ(dropped.ToVector<double>(), sum.ToVector<double>());
    }
  }
}

TEST(LoopsTest, ConcatAndReshapeOfAPermutedTensorEqualThem) {
  const Tensor a = RandomTensor("a", {3, 2, 5}), b = Strided(RandomTensor("b", {3, 4, 5}));
  const Tensor y = Concat({Variable(a), Variable(b)}, -2).value();
  ASSERT_EQ(y.shape(), Shape({3, 6, 5}));
  for (int64_t at = 0; at < 3 * 6 * 5; ++at) {
    const int64_t i = at / 30, j = at / 5 % 6, k = at % 5;
    EXPECT_EQ(y.At({i, j, k}), j < 2 ? a.At({i, j, k}) : b.At({i, j - 2, k}));
  }
  const Tensor turned = Reshape(Permute(Variable(b), {2, 0, 1}), {-1, 4}).value();
  ASSERT_EQ(turned.shape(), Shape({15, 4}));
  for (int64_t at = 0; at < 60; ++at) EXPECT_EQ(turned.At({at / 4, at % 4}), b.At({at / 4 % 3, at % 4, at / 12}));
}

}  // namespace definitions_test
}  // namespace crosstalk
