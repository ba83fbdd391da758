#include <functional>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk {
namespace precision_test {

using kernels::Transpose;

Tensor Random(const Shape& shape, uint32_t stream) {
  const Tensor x = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(x, RandomKey{11, stream, 0}, 0, 1);
  return x;
}

Tensor AsStored(const Tensor& x) {
  std::vector<uint16_t> halves(static_cast<size_t>(x.num_elements()));
  kernels::RoundToBFloat16(x.num_elements(), x.data<float>(), halves.data());
  const Tensor y = Tensor::Empty(x.shape(), DType::kFloat32);
  kernels::WidenBFloat16(x.num_elements(), halves.data(), y.data<float>());
  return y;
}

std::vector<float> Values(const Tensor& x) {
  const Tensor dense = x.Contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.num_elements()};
}
std::vector<double> Doubles(const Tensor& x) {
  const std::vector<float> values = Values(x);
  return {values.begin(), values.end()};
}

Variable Leaf(const Tensor& x) { return Variable(x, Variable::RequiresGrad::kYes); }

TEST(PrecisionTest, DoubleIsNotRounded) {
  const Variable a(Random({3, 31}, 1).To(DType::kFloat64)), b(Random({31, 5}, 2).To(DType::kFloat64));
  const std::vector<double> plain = MatMul(a, b).value().ToVector<double>();
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  EXPECT_EQ(MatMul(a, b).value().ToVector<double>(), plain);
}

TEST(PrecisionTest, WhatIsRecomputedIsRoundedAgain) {
  const Tensor a = Random({9, 31}, 1), b = Random({31, 9}, 2);
  const auto gradient = [&](bool recompute) {
    const Variable in_a = Leaf(a), in_b = Leaf(b);
    Variable y;
    {
      const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
      const auto twice = [&](const std::vector<Variable>& in) { return MatMul(MatMul(in[0], in[1]), in[0]); };
      y = recompute ? Recompute(twice, {in_a, in_b}) : twice({in_a, in_b});
    }
    Backward(y, Random({9, 31}, 3));
    return Values(in_a.grad());
  };
  EXPECT_TRUE(testing::SameBits(gradient(true), gradient(false)));
}

// Products of two operands, each made of a leaf: single ones, batches of them, interleaved small ones, with copies of
// permuted operands, and with a bias that is added.
using Operand = std::function<Variable(const Variable&)>;
struct Products {
  Variable x = Leaf(Random({24, 31}, 1)), w = Leaf(Random({31, 19}, 2)), bias = Leaf(Random({19}, 3)),
           p = Leaf(Random({5, 31, 64}, 4)), q = Leaf(Random({31, 7, 64}, 5)), batch = Leaf(Random({3, 1, 24, 31}, 6)),
           b = Leaf(Random({1, 5, 19, 31}, 7)), table = Leaf(Random({9, 31}, 8));
  std::vector<Variable> leaves = {x, w, bias, p, q, batch, b, table};
  static Variable Of(const char* equation, const Variable& first, const Variable& second) {
    return Einsum(equation, {first, second});
  }
  using Product = std::function<Variable(const Operand& f, const Operand& g)>;
  std::vector<Product> all = {
      [&](const Operand& f, const Operand& g) { return MatMulAdd(f(x), g(w), bias); },
      [&](const Operand& f, const Operand& g) { return MatMul(g(w), f(x), Transpose::kYes, Transpose::kYes); },
      [&](const Operand& f, const Operand& g) { return MatMul(f(batch), g(b), Transpose::kNo, Transpose::kYes); },
      [&](const Operand& f, const Operand& g) { return Of("y[j, i] = einsum(x[i, k], w[k, j])", f(x), g(w)); },
      [&](const Operand& f, const Operand& g) { return Of("y[i, j, b] = einsum(p[i, k, b], q[k, j, b])", f(p), g(q)); },
      [&](const Operand& f, const Operand& g) { return Of("y[b, j, i] = einsum(p[i, k, b], w[k, j])", f(p), g(w)); },
      [&](const Operand& f, const Operand& g) {
        return MatMul(Reshape(f(x), Shape{4, 6, 31}), g(w));
      }};
};
Variable Itself(const Variable& x) { return x; }

TEST(PrecisionTest, EveryOpThatMultipliesMatricesRoundsItsOperandsAndThoseOfItsGradients) {
  const Products products;
  // Sums of up to 320 products of size 1 in float, in two orders.
  constexpr double kSums = 320 * 320 * 0x1p-24;
  for (size_t i = 0; i < products.all.size(); ++i) {
    const auto results = [&](bool stored, Precision precision) {
      std::vector<Variable> leaves;
      const Operand leaf = [&](const Variable& x) {
        leaves.push_back(Leaf(stored ? AsStored(x.value()) : x.value()));
        return leaves.back();
      };
      Variable y;
      {
        const ContextScope scope(&OpContext::precision, precision);
        y = products.all[i](leaf, leaf);
      }
      const Tensor dy = Random(y.shape(), 9);
      Backward(y, stored ? AsStored(dy) : dy);  // outside of the scope
      return std::vector<Tensor>{y.value(), leaves[0].grad(), leaves[1].grad()};
    };
    const std::vector<Tensor> plain = results(false, Precision::kFloat32), exact = results(true, Precision::kFloat32),
                              rounded = results(false, Precision::kBFloat16);
    for (size_t j = 0; j < plain.size(); ++j) {
      SCOPED_TRACE(::testing::Message() << "product " << i << ", result " << j);
      EXPECT_TRUE(testing::AllClose(Values(rounded[j]), Doubles(exact[j]), {kSums, 0}));
      EXPECT_FALSE(testing::AllClose(Values(rounded[j]), Doubles(plain[j]), {kSums, 0})) << "it is not rounded";
    }
  }
}

TEST(AsOperandTest, GivesTheBitsOfTheOperandItself) {
  Products products;
  products.all.push_back([&, targets = Tensor::Full({24}, 7, DType::kInt32)](const Operand&, const Operand& g) {
    return LinearCrossEntropy(products.x, g(products.table), targets, 0.5).loss;
  });
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  const auto values = [&](const Variable& y) {
    Backward(y, Random(y.shape(), 99));
    std::vector<std::vector<float>> all = {Values(y.value())};
    for (const Variable& leaf : products.leaves) {
      all.push_back(leaf.grad().defined() ? Values(leaf.grad()) : std::vector<float>());
      leaf.ZeroGrad();
    }
    return all;
  };
  const Operand kept = [](const Variable& x) { return AsOperand(x); };
  for (size_t i = 0; i < products.all.size(); ++i) {
    const auto plain = values(products.all[i](Itself, Itself));
    for (const auto& [f, g] : std::vector<std::pair<Operand, Operand>>{{kept, kept}, {kept, Itself}, {Itself, kept}}) {
      const auto of_kept = values(products.all[i](f, g));
      for (size_t j = 0; j < plain.size(); ++j) {
        EXPECT_TRUE(testing::SameBits(of_kept[j], plain[j])) << "product " << i << ", result " << j;
      }
    }
  }
}

TEST(AsOperandTest, OneCopyInHalfTheBytesIsKept) {
  const Variable x = Leaf(Random({64, 128}, 1)), v = Leaf(Random({128, 32}, 2)), w = Leaf(Random({128, 32}, 3));
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  const int64_t before = GetMemoryStats().live_bytes;
  const Variable halved = [&] {
    const Variable operand = AsOperand(Scale(x, 2));
    return Add(MatMul(operand, v), MatMul(operand, w));
  }();
  const int64_t results = 64 * 32 * 4, rounded = 64 * 128 * 2;
  EXPECT_EQ(GetMemoryStats().live_bytes - before, results + rounded);
}

TEST(AsOperandTest, IsTheOperandItselfWhereNothingIsRoundedOrKept) {
  const Variable x = Leaf(Random({3, 5}, 1));
  EXPECT_EQ(AsOperand(x).dtype(), DType::kFloat32);  // fp32
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  EXPECT_EQ(AsOperand(Variable(Random({3, 5}, 2).To(DType::kFloat64))).dtype(), DType::kFloat64);
  const Variable operand = AsOperand(x);
  EXPECT_EQ(operand.dtype(), DType::kBFloat16);
  EXPECT_TRUE(AsOperand(operand).value().SharesStorageWith(operand.value()));
  const ContextScope no_grad = NoGrad();
  EXPECT_EQ(AsOperand(x).dtype(), DType::kFloat32);
}

TEST(AsOperandTest, AProductByElementsReadsTheRoundedValuesAndWhatDoesNotMultiplyRefuses) {
  const Tensor x = Random({3, 5}, 1), y = Random({3, 5}, 2);
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  const char* const equation = "z[i, j] = einsum(x[i, j], y[i, j])";
  const Variable z = Einsum(equation, {AsOperand(Leaf(x)), Variable(y)});
  EXPECT_EQ(Values(z.value()), Values(Einsum(equation, {Variable(AsStored(x)), Variable(y)}).value()));
  EXPECT_THROW(Exp(AsOperand(Leaf(x))), Error);
}

// Value and gradients of a gate and its factor.
std::vector<std::vector<float>> ResultsOf(Variable (*gated)(const Variable&, const Variable&)) {
  const Variable gate = Leaf(Random({5, 31}, 1)), x = Leaf(Random({5, 31}, 2));
  const Variable y = gated(gate, x);
  Backward(y, Random({5, 31}, 3));
  return {Values(y.value()), Values(gate.grad()), Values(x.grad())};
}

// In float it has the bits of its two parts; the gate's gradient alone differs: dy · (x · gelu′), where the parts
// compute (dy · x) · gelu′. In bfloat16 factors are within 2^-9 of themselves; the result is computed of the factors
// themselves.
TEST(GatedGeluTest, EqualsItsTwoPartsAndRoundingTouchesGradientsAlone) {
  const auto one = ResultsOf(GatedGelu);
  const auto two = ResultsOf([](const Variable& gate, const Variable& x) { return Mul(GeluTanh(gate), x); });
  EXPECT_EQ(one[0], two[0]);
  EXPECT_EQ(one[2], two[2]);
  EXPECT_TRUE(testing::AllClose(one[1], two[1], {0, 3e-7}));
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  const auto rounded = ResultsOf(GatedGelu);
  EXPECT_TRUE(testing::SameBits(rounded[0], one[0]));
  for (const size_t i : {1u, 2u}) {
    EXPECT_FALSE(testing::SameBits(rounded[i], one[i]));
    EXPECT_TRUE(testing::CloseToLargest(rounded[i], one[i], 0x1p-7));
  }
}

TEST(GatedGeluTest, KeepsItsFactorsInHalfTheBytesAndOneOfAFixedGate) {
  const Variable a = Leaf(Random({64, 128}, 1));
  const ContextScope scope(&OpContext::precision, Precision::kBFloat16);
  const auto kept = [&](const Variable& gate) {
    const int64_t before = GetMemoryStats().live_bytes;
    const Variable y = GatedGelu(gate.requires_grad() ? Scale(gate, 2) : gate, Scale(a, 3));
    return GetMemoryStats().live_bytes - before - 64 * 128 * 4;  // the result
  };
  EXPECT_EQ(kept(a), 2 * 64 * 128 * 2);
  EXPECT_EQ(kept(Variable(a.value())), 64 * 128 * 2);
}

}  // namespace precision_test
}  // namespace crosstalk
