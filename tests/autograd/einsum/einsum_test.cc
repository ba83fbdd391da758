#include "crosstalk/autograd/einsum/einsum.h"

#include <gtest/gtest.h>

#include <map>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/einsum/order.h"
#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/close.h"
#include "tests/support/einsum_loops.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace einsum_test {

using testing::RandomTensor;
using testing::Strided;

// One size for each name of the paper's dimension key, all different.
const std::map<std::string, int64_t>& Sizes() {
  static const std::map<std::string, int64_t> sizes = {{"b", 2},   {"n", 5},    {"m", 7},    {"d", 8},
                                                       {"d_X", 9}, {"d_M", 11}, {"d_Y", 13}, {"d_k", 3},
                                                       {"d_v", 6}, {"h_k", 4},  {"h", 10},   {"h_v", 12}};
  return sizes;
}

Shape ShapeOf(const Bracket& bracket) {
  Shape shape;
  for (const std::string& name : bracket.indices) shape.Append(Sizes().at(name));
  return shape;
}

// Operands as they are and strided. Sums of up to 1e4 products of numbers below 1: 1e4 · 2^-53 of the largest.
void ExpectEqualsLoops(const std::string& text) {
  const EinsumEquation equation = ParseEinsum(text);
  std::vector<Tensor> tensors;
  std::vector<Variable> dense, strided;
  for (const Bracket& bracket : equation.operands) {
    tensors.push_back(RandomTensor(bracket.tensor, ShapeOf(bracket)));
    dense.emplace_back(tensors.back());
    strided.emplace_back(tensors.back().rank() > 1 ? Strided(tensors.back()) : tensors.back());
  }
  const testing::EinsumLoops loops = testing::LoopOver(equation, tensors);
  for (const std::vector<Variable>* operands : {&dense, &strided}) {
    const Variable result = Einsum(text, *operands);
    ASSERT_EQ(result.shape(), loops.shape) << text;
    EXPECT_TRUE(result.value().is_contiguous()) << text;
    EXPECT_TRUE(testing::CloseToLargest(result.value().ToVector<double>(), loops.result, 1e-12)) << text;
  }
}

// Every einsum of the paper's pseudocode (sections 3, 4, 6 and Appendix A), as printed.
const char* const kPaperLines[] = {
    "L[n, m] = einsum(X[n, d], M[m, d]) # Attention logits",
    "Y[n, d] = einsum(W[n, m], M[m, d])",
    "Q[n, d_k, h] = einsum(X[n, d_X], P_q[d_X, d_k, h]) # queries h*n*d_X*d_k",
    "K[m, d_k, h] = einsum(M[m, d_M], P_k[d_M, d_k, h]) # keys h*m*d_M*d_k",
    "V[m, d_v, h] = einsum(M[m, d_M], P_v[d_M, d_v, h]) # values h*m*d_M*d_v",
    "L[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h]) # logits h*n*m*d_k",
    "O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h]) # h*n*m*d_v",
    "Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h]) # output h*n*d_Y*d_v",
    "L[n, m, h] = einsum(X[n, d_X],\nM[m, d_M],\nP_q[d_X, d_k, h],\nP_k[d_M, d_k, h])",
    "Y[n, d_Y] = einsum(W[n, m, h],\nM[m, d_M],\nP_v[d_M, d_v, h],\nP_o[d_Y, d_v, h])",
    "Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k]) # queries n*d_X*d_k*h_k",
    "K[m, d_k, h_k] = einsum(M[m, d_M], P_k[d_M, d_k, h_k]) # keys m*d_M*d_k*h_k",
    "V[m, d_v, h_v] = einsum(M[m, d_M], P_v[d_M, d_v, h_v]) # values m*d_M*d_v*h_v",
    "J[n, m, h_k] = einsum(Q[n, d_k, h_k], K[m, d_k, h_k]) # dot prod. n*m*d_k*h_k",
    "L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h]) # Talking-heads proj. n*m*h*h_k",
    "U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v]) # Talking-heads proj. n*m*h*h_v",
    "O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v]) # n*m*d_v*h_v",
    "Y[n, d_Y] = einsum(O[n, d_v, h_v], P_o[d_Y, d_v, h_v]) # n*d_Y*d_v*h_v",
    "L[n, m, h] = einsum(X[n, d_X],\nM[m, d_M],\nP_q[d_X, d_k, h_k],\nP_k[d_M, d_k, h_k],\nP_l[h_k, h])",
    "Y[n, d_Y] = einsum(W[n, m, h],\nM[m, d_M],\nP_v[d_M, d_v, h_v],\nP_o[d_Y, d_v, h_v],\nP_w[h, h_v])",
    "L[n, m, h] = einsum(X[n, d_X], M[m, d_M], P[d_X, d_M, h])",
    "Y[n, d_Y] = einsum(W[n, m, h], M[m, d_M], Q[d_M, d_Y, h])",
    "P[d_X, d_M, h] = einsum(P_q[d_X, d_k, h], P_k[d_M, d_k, h])",
    "Q[d_M, d_Y, h] = einsum(P_v[d_M, d_v, h], P_o[d_Y, d_v, h])",
    "P[d_X, d_M, h] = einsum(P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h])",
    "Q[d_M, d_Y, h] = einsum(P_v[d_M, d_v, h_v], P_o[d_Y, d_v, h_v], P_w[h, h_v])",
    "R_Xl[n, h_k, h] = einsum(X[n, d_X], P_Xl[d_X, h_k, h]) # dynamic proj. n*d_X*h_k*h",
    "L[n, m, h] = einsum(J[n, m, h_k], R_Xl[n, h_k, h])",
    "L[n, m, h] = einsum(J[n, m, h_k], R_Ml[m, h_k, h])",
    "R_Xw[n, h, h_v] = einsum(X[n, d_X], P_Xw[d_X, h, h_v])",
    "U[n, m, h_v] = einsum(W[n, m, h], R_Xw[n, h, h_v])",
    "U[n, m, h_v] = einsum(W[n, m, h], R_Mw[m, h, h_v])",
};

TEST(EinsumTest, EveryLineOfThePaperEqualsNestedLoops) {
  for (const char* const line : kPaperLines) ExpectEqualsLoops(line);
}

TEST(EinsumTest, OtherFormsEqualNestedLoops) {
  for (const char* const text : {
           "Y[n,m,d] = einsum(X[d,m,n])",                            // a permutation
           "Y[n,m]=einsum(X[n],M[m])",                               // an outer product
           "Y[m,n] = einsum(X[n,m], M[m,n])",                        // elementwise
           "Y[] = einsum(X[b,n,m], M[m,n,b])",                       // a dot product
           "Y[n] = einsum(X[n], A[n], B[n])",                        // elementwise, three
           "Y[b,h,n,m] = einsum(J[b,h_k,n,m], P_l[h_k,h])",          // heads before positions
           "Y[b,h,n,m] = einsum(J[b,h_k,n,m], R[b,n,h_k,h])",        //
           "Y[b,h,n,m] = einsum(J[b,h_k,n,m], R[b,m,h_k,h])",        //
           "Q[b,h,n,d_k] = einsum(X[b,n,d_X], P[d_X,h,d_k])",        //
           "J[b,h,n,m] = einsum(Q[b,h,n,d_k], K[b,h,m,d_k])",        //
           "Y[b,n,d_Y] = einsum(O[b,h_v,n,d_v], P_o[d_Y,d_v,h_v])",  //
           "dP[h_k,h] = einsum(J[b,h_k,n,m], dL[b,h,n,m])",          // a looped inner dimension
           "Y[n] = einsum(A[n,m], B[m,d], C[d,h_k], D[h_k,d_k], E[d_k,b], F[b,d_v], G[d_v])",  // greedy
           "Y[n] = einsum(\n  X [ n , d ] ,\n  M[ d ] )",                                      // spaces
       }) {
    ExpectEqualsLoops(text);
  }
}

TEST(EinsumTest, DimensionObjectsMeanTheSameAsText) {
  const Dim n("n"), d_X("d_X"), d_k("d_k"), h("h");
  const Variable X(RandomTensor("X", {5, 9}));
  const Variable P_q(RandomTensor("P_q", {9, 3, 10}));
  const Variable by_text = Einsum("Q[n,d_k,h] = einsum(X[n,d_X], P_q[d_X,d_k,h])", {X, P_q});
  const Variable by_objects = Einsum({n, d_k, h}, {{X, {n, d_X}}, {P_q, {d_X, d_k, h}}});
  EXPECT_EQ(by_text.value().ToVector<double>(), by_objects.value().ToVector<double>());
  const Variable transposed = Einsum({d_X, n}, {{X, {n, d_X}}});
  EXPECT_EQ(transposed.shape(), Shape({9, 5}));
}

TEST(EinsumTest, StretchedOperandsAreReadThroughTheirStridesAndEmptyDimensionsGiveZeros) {
  const Variable a(Tensor::Zeros({3, 0}, DType::kFloat32)), b(Tensor::Zeros({0, 5}, DType::kFloat32));
  EXPECT_EQ(Einsum("C[n,m] = einsum(A[n,k], B[k,m])", {a, b}).value().ToVector<float>(), std::vector<float>(15, 0.0f));
  const Tensor row = RandomTensor("row", {1, 9}), column = RandomTensor("column", {7, 1});
  const Tensor other = RandomTensor("other", {9, 3});
  for (const Tensor& x : {row.BroadcastTo({7, 9}), column.BroadcastTo({7, 9})}) {
    const char* const equation = "Y[n,m] = einsum(A[n,k], B[k,m])";
    const Variable stretched = Einsum(equation, {Variable(x), Variable(other)});
    const Variable copied = Einsum(equation, {Variable(x.Clone()), Variable(other)});
    EXPECT_TRUE(testing::AllClose(stretched.value().ToVector<double>(), copied.value().ToVector<double>(), {1e-14, 0}));
  }
}

// An equation, its operands' shapes and the error, after "einsum: ".
TEST(EinsumTest, MistakesSayWhatIsWrong) {
  const std::string name(600, 'n'), sums = " (Sum(x, dims) sums over a tensor's own dimensions)";
  const std::string alone = " is in no other operand and not in the result of ";
  const std::string form = " is not of the form RESULT[dims] = einsum(TENSOR[dims], …)";
  const struct {
    std::string equation;
    std::vector<Shape> shapes;
    std::string error;
  } kCases[] = {
      {"Q[n,d_k,h] = einsum(X[n,d_X], P_q[d_X,d_k,h])",
       {{5, 9}, {7, 3, 2}},
       "P_q[d_X, d_k, h] = [7, 3, 2] has d_X=7, but d_X=9 in X[n, d_X] = [5, 9]"},
      {"Y[" + name + "] = einsum(X[" + name + "])", {{3}}, "an equation of 1217 bytes, where at most 1000 are read"},
      // The paper's own slip in Appendix A: R_Ml belongs to the memory positions m.
      {"R_Ml[n,h_k,h] = einsum(M[m,d_M], P_Ml[d_M,h_k,h])",
       {{7, 11}, {11, 4, 2}},
       "R_Ml[n, h_k, h] has the dimension n, which no operand of "
       "'R_Ml[n, h_k, h] = einsum(M[m, d_M], P_Ml[d_M, h_k, h])' has"},
      {"Q[n,h,d_k] = einsum(X[n,d_x], P_q[d_X,h,d_k])",
       {{5, 9}, {9, 3, 2}},
       "the dimension d_x of X[n, d_x]" + alone +
           "'Q[n, h, d_k] = einsum(X[n, d_x], P_q[d_X, h, d_k])'; did you mean \"d_X\"?" + sums},
      {"Y[] = einsum(X[batch])", {{3}}, "the dimension batch of X[batch]" + alone + "'Y[] = einsum(X[batch])'" + sums},
      {"Y[n] = einsum(X[n,n])", {{3, 3}}, "X[n, n] names the dimension n twice (in 'Y[n] = einsum(X[n,n])')"},
      {"Y[n,n] = einsum(X[n])", {{3}}, "Y[n, n] names the dimension n twice (in 'Y[n,n] = einsum(X[n])')"},
      {"Y[n] = einsum(X[n,m])", {{3}}, "X[n, m] has 2 dimensions, but the tensor given is [3]"},
      {"Y[n] = einsum(X[n], Z[n])", {{3}}, "'Y[n] = einsum(X[n], Z[n])' has 2 operands, but 1 tensors were given"},
      {"X[n] + Z[n]", {{3}}, "'X[n] + Z[n]'" + form},
      {"Y[n] = product(X[n])", {{3}}, "'Y[n] = product(X[n])'" + form},
      {"Y[n] = einsum(X[n]", {{3}}, "'Y[n] = einsum(X[n]'" + form},
      {"einsum(X[n]) = Y[n]", {{3}}, "'einsum(X[n]) = Y[n]'" + form},
      {"Y[n] = einsum(X[n],)", {{3}}, "an operand is missing in 'Y[n] = einsum(X[n],)'"},
      {"Y[n] = einsum(X[n,3])",
       {{3, 3}},
       "X[n, 3] has the number 3 where a dimension's name is needed (in 'Y[n] = einsum(X[n,3])')"},
      {"Y[n] = einsum(X[n-1])", {{3}}, "'n-1' in 'X[n-1]' is not a dimension's name (in 'Y[n] = einsum(X[n-1])')"}};
  for (const auto& [equation, shapes, error] : kCases) {
    std::vector<Variable> operands;
    for (const Shape& shape : shapes) operands.emplace_back(Tensor::Zeros(shape, DType::kFloat32));
    EXPECT_EQ(testing::MessageOf([&, text = equation] { Einsum(text, operands); }), "einsum: " + error);
  }
  const Variable a(Tensor::Zeros({3}, DType::kFloat32)), b(Tensor::Zeros({3}, DType::kFloat64));
  const std::vector<Variable> two_types = {a, b}, undefined = {a, Variable(), a};
  const Shape four{1, 1, 1, 1}, six{1, 1, 1, 1, 1, 1}, empty{0, 1, 1, 1, 1, 1};
  const std::vector<Shape> negative = {{2, -1}, {-1, 3}}, wide = {six, empty, six, four};
  const char* const wide_plan = "Y[a,b] = einsum(A[a,c,d,e,f,g], B[b,h,i,j,k,l], C[c,d,e,h,i,j], D[f,g,k,l])";
  testing::ExpectRefused(
      {{"two types", [&] { Einsum("Y[] = einsum(A[n], B[n])", two_types); }, {"B[n] is float64, but A[n] is float32"}},
       {"no operand",
        [&] { Einsum("Y[n] = einsum(A[n], B[n], C[n])", undefined); },
        {"operand 2, B[n], is an undefined Variable (in 'Y[n] = einsum(A[n], B[n], C[n])')"}},
       {"a negative size",
        [&] { EinsumMultiplications("Y[n,m] = einsum(A[n,k], B[k,m])", negative); },
        {"einsum: A[n, k] = [2, -1] has a negative size"}},
       {"a plan that no tensor holds",
        [&] { EinsumMultiplications(wide_plan, wide); },
        {"dimensions on the way, where a tensor has at most 8"}}});
}

// n·d_X·d_k·h + m·d_M·d_k·h + n·m·d_k·h, as in section 3.3: the concise form costs what the steps cost.
TEST(EinsumPlanTest, MultiplicationsAreThoseOfThePapersComments) {
  const Shape X{512, 768}, P_q{768, 64, 12};
  EXPECT_EQ(EinsumMultiplications("Q[n,d_k,h] = einsum(X[n,d_X], P_q[d_X,d_k,h])", {X, P_q}), 512LL * 768 * 64 * 12);
  EXPECT_EQ(EinsumMultiplications("Y[d,n] = einsum(X[n,d])", {X}), 0);
  EXPECT_EQ(
      EinsumMultiplications("L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h], P_k[d_M,d_k,h])", {X, X, P_q, P_q}),
      2 * 512LL * 768 * 64 * 12 + 512LL * 512 * 64 * 12);
}

TEST(EinsumPlanTest, DescribesEveryStep) {
  EXPECT_EQ(DescribeEinsum("L[n,m] = einsum(X[n,d], K[m,h], P[d,h], s[])", {{3, 5}, {7, 11}, {5, 11}, {}}),
            "T1[n, d] = einsum(X[n, d], s[])  # 15 multiplications\n"
            "T2[n, h] = einsum(T1[n, d], P[d, h])  # 165 multiplications\n"
            "L[n, m] = einsum(T2[n, h], K[m, h])  # 231 multiplications\n");
  EXPECT_EQ(DescribeEinsum("Y[d,n] = einsum(X[n,d])", {{3, 5}}), "Y[d, n] = einsum(X[n, d])  # permutation\n");
}

TEST(EinsumPlanTest, TheOrderOfOperandsDoesNotChangeTheCost) {
  const std::vector<Shape> shapes = {{5, 9}, {7, 11}, {9, 3, 4}, {11, 3, 4}, {4, 10}};
  const int64_t cost = EinsumMultiplications(
      "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h_k], P_k[d_M,d_k,h_k], P_l[h_k,h])", shapes);
  EXPECT_EQ(cost, EinsumMultiplications(
                      "L[n,m,h] = einsum(P_l[h_k,h], P_k[d_M,d_k,h_k], P_q[d_X,d_k,h_k], M[m,d_M], X[n,d_X])",
                      {shapes[4], shapes[3], shapes[2], shapes[1], shapes[0]}));
}

// J[b, h_k, n, m] mixed by P_l[h_k, h] is one product per batch entry, nothing copied. Mixed by R_Ml[b, m, h_k, h] it
// is computed in lanes: m is contiguous in J and in the result, so only the small R_Ml is copied.
TEST(ContractTest, ReadsStridedHeadsWithoutCopiesAndMixesInLanes) {
  const auto empty = [](const Shape& shape) { return Tensor::Empty(shape, DType::kFloat32); };
  const Tensor J = empty({4, 12, 64, 96});
  EXPECT_EQ(math::DescribeContraction(J, {0, 1, 2, 3}, empty({12, 12}), {1, 4}, {0, 4, 2, 3}),
            "4 products of [6144, 12] x [12, 12]");
  EXPECT_EQ(math::DescribeContraction(empty({4, 12, 64, 32}), {0, 1, 2, 5}, empty({4, 12, 96, 32}), {0, 1, 3, 5},
                                      {0, 1, 2, 3}),
            "48 products of [64, 32] x [32, 96]");
  EXPECT_EQ(math::DescribeContraction(J, {0, 1, 2, 3}, empty({4, 96, 12, 12}), {0, 3, 1, 4}, {0, 4, 2, 3}),
            "4 x 96 lanes of [64, 12] x [12, 12], copying the second");
}

TEST(EinsumTest, LanesOfEveryLengthEqualMatrixProducts) {
  // Beyond one block of lanes, rows, columns and inner indices; the gradients go the same way. einsum is linear in each
  // operand: a central difference is exact for any step, and a long one keeps rounding small (2^-53 · Σ|y| / step).
  GradCheckOptions options;
  options.step = 0.1;
  options.directions = 2;
  const char* const by_lanes = "L[b,h,n,m] = einsum(J[b,h_k,n,m], R[b,m,h_k,h])";
  const char* const by_products = "L[b,m,n,h] = einsum(J[b,m,n,h_k], R[b,m,h_k,h])";
  for (const int64_t m : {3, 17, 71}) {
    const Tensor J = RandomTensor("J", {2, 19, 67, m}), R = RandomTensor("R", {2, m, 19, 13});
    const GradCheckReport report =
        GradCheck([&](const std::vector<Variable>& in) { return Einsum(by_lanes, in); }, {J, R}, options);
    EXPECT_TRUE(report.ok) << report;
    const Tensor lanes = Einsum(by_lanes, {Variable(J), Variable(R)}).value();
    const Tensor products = Einsum(by_products, {Variable(J.Permute({0, 3, 2, 1}).Clone()), Variable(R)}).value();
    const std::vector<double> a = lanes.ToVector<double>(), b = products.Permute({0, 3, 2, 1}).ToVector<double>();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-13) << "m=" << m << " at " << i;  // 19 products
  }
}

// Sizes at which the fastest way depends on the number of rows: one product or all sums at once, k cut into slices,
// lanes.
TEST(EinsumTest, BatchInvariantSumsGiveARowTheSameBitsAmongAnyNumber) {
  const ContextScope batch_invariant(&OpContext::sum_order, SumOrder::kBatchInvariant);
  struct Case {
    const char* equation;
    Shape row, other;
  };
  for (const Case& c : {Case{"Y[n,d_Y] = einsum(X[n,d_X], P[d_X,d_Y])", {1, 16}, {16, 13}},
                        Case{"Y[n,d_Y] = einsum(X[n,d_X], P[d_X,d_Y])", {1, 9001}, {9001, 11}},
                        Case{"Y[n,d_Y] = einsum(O[n,h,d_v], P[h,d_v,d_Y])", {1, 5, 7}, {5, 7, 11}},
                        Case{"Y[n,d_Y] = einsum(O[n,h,d_v], P[d_v,h,d_Y])", {1, 41, 37}, {37, 41, 6}},
                        Case{"L[n,h,m] = einsum(J[n,h_k,m], P[h_k,h])", {1, 19, 33}, {19, 13}}}) {
    SCOPED_TRACE(c.equation);
    const Tensor other = RandomTensor("other", c.other).To(DType::kFloat32);
    std::vector<float> alone;
    for (const int64_t n : {1, 2, 3, 65, 130}) {
      Shape shape = c.row;
      shape[0] = n;
      const Tensor rows = RandomTensor("rows", shape).To(DType::kFloat32);
      const Tensor y = Einsum(c.equation, {Variable(rows), Variable(other)}).value().Slice(0, 0, 1).Contiguous();
      if (n == 1) alone = y.ToVector<float>();
      EXPECT_TRUE(y.ToVector<float>() == alone) << "n=" << n;
    }
  }
}

TEST(EinsumTest, LargeGradientsAgreeAlongRandomDirections) {
  const GradCheckReport report = GradCheck(
      [](const std::vector<Variable>& in) {
        return Einsum("L[b,h,n,m] = einsum(Q[b,h_k,n,d_k], K[b,h_k,m,d_k], P_l[h_k,h])", in);
      },
      {RandomTensor("Q", {2, 5, 33, 17}), RandomTensor("K", {2, 5, 47, 17}), RandomTensor("P_l", {5, 7})});
  EXPECT_TRUE(report.ok) << report;
}

}  // namespace einsum_test
}  // namespace crosstalk
