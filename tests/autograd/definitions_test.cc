// Each op beside its definition by other ops, in values and in the gradients of every input; those other ops beside
// plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace definitions_test {

using kernels::Transpose;
using testing::RandomTensor;
using testing::Strided;

using Op = std::function<Variable(const Variable& a, const Variable& b, const Variable& c)>;
#define CROSSTALK_INPUTS \
  [[maybe_unused]] const Variable &a, [[maybe_unused]] const Variable &b, [[maybe_unused]] const Variable &c
#define CROSSTALK_OP(expression) [=](CROSSTALK_INPUTS) { return expression; }

struct Row {
  std::string name;
  std::vector<Tensor> inputs;
  Op op, definition;
};

Variable Constant(double value) { return Variable(Tensor::Scalar(value, DType::kFloat64)); }
Variable SumKept(const Variable& x, int dim) { return Sum(x, {dim}, KeepDims::kYes); }
// Rows of the indices given, along a dimension.
Variable Pick(const Variable& x, int dim, const std::vector<int64_t>& indices) {
  std::vector<Variable> parts;
  for (const int64_t i : indices) parts.push_back(Slice(x, dim, i, i + 1));
  return Concat(parts, dim);
}
Tensor Ints(const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::FromValues<int32_t>(shape, values);
}

std::vector<Row> Rows() {
  const Tensor x = RandomTensor("x", {3, 5, 7}, -3, 3), scale = RandomTensor("scale", {7}),
               bias = RandomTensor("bias", {7});
  std::vector<Row> rows = {
      {"neg", {x}, CROSSTALK_OP(Neg(a)), CROSSTALK_OP(Sub(Constant(0), a))},
      {"square", {x}, CROSSTALK_OP(Square(a)), CROSSTALK_OP(Mul(a, a))},
      {"sigmoid", {x}, CROSSTALK_OP(Sigmoid(a)), CROSSTALK_OP(Div(Constant(1), AddScalar(Exp(Neg(a)), 1)))},
      {"gelu_tanh",
       {x},
       CROSSTALK_OP(GeluTanh(a)),
       [](CROSSTALK_INPUTS) {
         const Variable cubed = Mul(a, Mul(a, a));
         const Variable inner = Scale(Add(a, Scale(cubed, 0.044715)), std::sqrt(2 / std::numbers::pi));
         return Mul(Scale(a, 0.5), AddScalar(Tanh(inner), 1));
       }},
      {"gated_gelu",
       {x, RandomTensor("gated", {3, 5, 7})},
       CROSSTALK_OP(GatedGelu(a, b)),
       CROSSTALK_OP(Mul(GeluTanh(a), b))},
      {"mean", {x}, CROSSTALK_OP(Mean(a, {0, 2})), CROSSTALK_OP(Scale(Sum(a, {-1, 0}), 1.0 / 21))},
      {"rms_norm",
       {x, scale},
       CROSSTALK_OP(RmsNorm(a, b, 0.01)),
       [](CROSSTALK_INPUTS) {
         const Variable squares = Scale(SumKept(Square(a), -1), 1.0 / 7);
         return Mul(Div(a, Sqrt(AddScalar(squares, 0.01))), b);
       }},
      {"layer_norm",
       {x, scale, bias},
       CROSSTALK_OP(LayerNorm(a, b, c, 0.01)),
       [](CROSSTALK_INPUTS) {
         const Variable centred = Sub(a, Scale(SumKept(a, -1), 1.0 / 7));
         const Variable variance = Scale(SumKept(Square(centred), -1), 1.0 / 7);
         return Add(Mul(Div(centred, Sqrt(AddScalar(variance, 0.01))), b), c);
       }},
      {"masked_fill_unless",
       {x},
       CROSSTALK_OP(MaskedFillUnless(a, Tensor::FromValues<uint8_t>({5, 1}, {1, 0, 1, 1, 0}), 9)),
       CROSSTALK_OP(MaskedFill(a, Tensor::FromValues<uint8_t>({5, 1}, {0, 1, 0, 0, 1}), 9))},
      {"embedding",
       {RandomTensor("table", {5, 7})},
       CROSSTALK_OP(Embedding(a, Tensor::FromValues<int64_t>({2, 3}, {4, 0, 1, 1, 3, 4}))),
       CROSSTALK_OP(Reshape(Pick(a, 0, {4, 0, 1, 1, 3, 4}), {2, 3, 7}))},
      {"take",
       {x},
       CROSSTALK_OP(Take(a, 1, Ints({2, 2}, {4, 0, 1, 4}))),
       CROSSTALK_OP(Reshape(Pick(a, 1, {4, 0, 1, 4}), {3, 2, 2, 7}))},
      {"take_last", {x}, CROSSTALK_OP(Take(a, -1, Ints({2}, {4, 1}))), CROSSTALK_OP(Pick(a, 2, {4, 1}))},
      {"gather",
       {RandomTensor("g", {3, 5})},
       CROSSTALK_OP(Gather(a, 1, Ints({2, 3}, {4, 0, 1, 1, 1, 3}))),
       [](CROSSTALK_INPUTS) {
         return Concat({Pick(Slice(a, 0, 0, 1), 1, {4, 0, 1}), Pick(Slice(a, 0, 1, 2), 1, {1, 1, 3})}, 0);
       }},
      {"cross_entropy",
       {RandomTensor("logits", {5, 9}, -3, 3)},
       CROSSTALK_OP(CrossEntropy(a, Ints({5}, {8, 0, 3, 0, 5}), {.ignore_index = 0, .z_loss = 0.25}).loss),
       [](CROSSTALK_INPUTS) {
         const Variable log_z = LogSumExp(a, 1), logits = Gather(a, 1, Ints({5, 1}, {8, 0, 3, 0, 5}));
         const Variable loss = Add(Sub(log_z, Reshape(logits, {5})), Scale(Square(log_z), 0.25));
         return Sum(MaskedFill(loss, Tensor::FromValues<uint8_t>({5}, {0, 1, 0, 1, 0}), 0));
       }},
  };
  for (const int dim : {0, 1, -1}) {
    const std::string of = std::to_string(dim);
    rows.push_back(
        {"softmax " + of, {x}, CROSSTALK_OP(Softmax(a, dim)), CROSSTALK_OP(Div(Exp(a), SumKept(Exp(a), dim)))});
    rows.push_back({"logsumexp " + of, {x}, CROSSTALK_OP(LogSumExp(a, dim)), CROSSTALK_OP(Log(Sum(Exp(a), {dim})))});
    rows.push_back(
        {"log_softmax " + of, {x}, CROSSTALK_OP(LogSoftmax(a, dim)), CROSSTALK_OP(Sub(a, Log(SumKept(Exp(a), dim))))});
  }
  // A[3, 1, 5, 7] · B[11, 7, 9] = C[3, 11, 5, 9]
  for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      const bool flip_a = ta == Transpose::kYes, flip_b = tb == Transpose::kYes;
      const std::string equation =
          StrCat("C[p,q,i,j] = einsum(A[p,", flip_a ? "k,i" : "i,k", "], B[q,", flip_b ? "j,k" : "k,j", "])");
      rows.push_back({equation,
                      {RandomTensor("a", flip_a ? Shape{3, 1, 7, 5} : Shape{3, 1, 5, 7}),
                       RandomTensor("b", flip_b ? Shape{11, 9, 7} : Shape{11, 7, 9})},
                      CROSSTALK_OP(MatMul(a, b, ta, tb)),
                      CROSSTALK_OP(Einsum(equation, {Reshape(a, {3, a.size(2), a.size(3)}), b}))});
    }
  }
  // Few rows and many, one block of k and two, no row and no term; and leading dimensions, which are rows.
  for (const auto& [shape, n] : std::vector<std::pair<Shape, int64_t>>{
           {{5, 7}, 3}, {{61, 800}, 37}, {{100, 64}, 513}, {{0, 3}, 2}, {{3, 0}, 2}, {{2, 5, 7}, 3}, {{1, 1, 7}, 3}}) {
    rows.push_back({StrCat("matmul_add ", shape),
                    {RandomTensor("a", shape), RandomTensor("b", {shape.at(-1), n}), RandomTensor("bias", {n})},
                    CROSSTALK_OP(MatMulAdd(a, b, c)),
                    CROSSTALK_OP(Add(MatMul(a, b), c))});
  }
  // An input of several products has the sum of their gradients, whether one adds its own within itself or not.
  rows.push_back({"several products",
                  {RandomTensor("a", {2, 5, 7}), RandomTensor("b", {7, 3}), RandomTensor("bias", {3})},
                  [](CROSSTALK_INPUTS) {
                    const auto product = [&] { return MatMulAdd(a, b, c); };
                    return Add(Add(product(), product()), Add(MatMul(a, b), product()));
                  },
                  CROSSTALK_OP(Add(Scale(MatMul(a, b), 4), Scale(c, 3)))});
  return rows;
}

TEST(DefinitionsTest, OpsEqualThemInValuesAndGradientsHoweverInputsAreStored) {
  const Variable none;
  for (const Row& row : Rows()) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(row.name + (strided ? ", strided" : ""));
      std::vector<std::vector<double>> results[2];
      for (const bool defined : {false, true}) {
        std::vector<Variable> in;
        for (const Tensor& input : row.inputs) {
          in.emplace_back(strided && input.rank() > 1 ? Strided(input) : input, Variable::RequiresGrad::kYes);
        }
        const Variable y =
            (defined ? row.definition : row.op)(in[0], in.size() > 1 ? in[1] : none, in.size() > 2 ? in[2] : none);
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
