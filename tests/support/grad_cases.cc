#include "tests/support/grad_cases.h"

#include <cmath>
#include <numeric>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk::testing {
namespace {

using Inputs = std::vector<Variable>;

Tensor Int32(const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::FromValues<int32_t>(shape, values);
}

Tensor Bool(const Shape& shape, const std::vector<uint8_t>& values) {
  return Tensor::FromValues<uint8_t>(shape, values);
}

std::vector<GradCase> cases;

void Add(const std::string& name, std::vector<Tensor> inputs, std::function<Variable(const Inputs&)> function) {
  cases.push_back({name, std::move(inputs), std::move(function)});
}
// And with inputs that are stored in another order.
void AddTwice(const std::string& name, const std::vector<Tensor>& inputs,
              const std::function<Variable(const Inputs&)>& function) {
  Add(name, inputs, function);
  std::vector<Tensor> strided;
  for (const Tensor& input : inputs) strided.push_back(input.rank() > 1 ? Strided(input) : input);
  Add(name + "_strided", strided, function);
}
void AddEinsum(const std::string& name, const std::string& equation, const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(RandomTensor(name + std::to_string(inputs.size()), shape));
  Add("einsum_" + name, inputs, [equation](const Inputs& in) { return Einsum(equation, in); });
}

void AddElementwise() {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  const Tensor b = RandomTensor("b", {3, 5, 7}, 0.5, 2);
  struct Named {
    const char* name;
    Variable (*function)(const Variable&, const Variable&);
  };
  for (const Named& op : {Named{"add", crosstalk::Add}, Named{"sub", Sub}, Named{"mul", Mul}, Named{"div", Div}}) {
    const auto function = [f = op.function](const Inputs& in) { return f(in[0], in[1]); };
    const std::string name = op.name;
    AddTwice(name, {a, b}, function);
    Add(name + "_row", {a, RandomTensor("row", {7}, 0.5, 2)}, function);
    Add(name + "_column", {a, RandomTensor("column", {5, 1}, 0.5, 2)}, function);
    Add(name + "_outer", {RandomTensor("o1", {3, 1, 7}), RandomTensor("o2", {5, 1}, 0.5, 2)}, function);
    Add(name + "_of_scalar", {a, RandomTensor("s", {}, 0.5, 2)}, function);
  }
  Add("mul_itself", {a}, [](const Inputs& in) { return Mul(in[0], in[0]); });
  Add("neg", {a}, [](const Inputs& in) { return Neg(in[0]); });
  Add("scale_constant", {a}, [](const Inputs& in) { return Scale(in[0], -2.5); });
  Add("add_constant", {a}, [](const Inputs& in) { return AddScalar(in[0], 0.75); });
  struct Unary {
    const char* name;
    Variable (*function)(const Variable&);
    Tensor x;
  };
  const Tensor positive = RandomTensor("positive", {5, 11}, 0.3, 2);
  const Tensor wide = RandomTensor("wide", {5, 11}, -3, 3);
  const Tensor off_zero = wide.Clone();  // where relu has a kink
  for (int64_t i = 0; i < 55; ++i) off_zero.data<double>()[i] += std::copysign(0.01, off_zero.data<double>()[i]);
  for (const Unary& op :
       {Unary{"exp", Exp, wide}, Unary{"log", Log, positive}, Unary{"sqrt", Sqrt, positive},
        Unary{"square", Square, wide}, Unary{"tanh", Tanh, wide}, Unary{"sigmoid", Sigmoid, wide},
        Unary{"relu", Relu, off_zero}, Unary{"gelu", Gelu, wide}, Unary{"gelu_tanh", GeluTanh, wide}}) {
    const auto function = [f = op.function](const Inputs& in) { return f(in[0]); };
    AddTwice(op.name, {op.x}, function);
  }
  AddTwice("gated_gelu", {wide, RandomTensor("x", {5, 11})}, [](const Inputs& in) { return GatedGelu(in[0], in[1]); });
  Add("gated_gelu_of_itself", {wide}, [](const Inputs& in) { return GatedGelu(in[0], in[0]); });
  const Tensor mask = Bool({5, 1}, {1, 0, 1, 1, 0});
  Add("masked_fill", {a}, [mask](const Inputs& in) { return MaskedFill(in[0], mask, -3); });
  Add("masked_fill_unless", {a}, [mask](const Inputs& in) { return MaskedFillUnless(in[0], mask, 2); });
}

void AddShapes() {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  AddTwice("reshape", {a}, [](const Inputs& in) { return Reshape(in[0], {15, -1}); });
  Add("transpose", {a}, [](const Inputs& in) { return Transpose(in[0], 0, -1); });
  Add("permute", {a}, [](const Inputs& in) { return Permute(in[0], {2, 0, 1}); });
  Add("slice", {a}, [](const Inputs& in) { return Slice(in[0], 1, 1, 4); });
  Add("slice_last", {a}, [](const Inputs& in) { return Slice(in[0], -1, 2, 7); });
  Add("concat_first", {a, RandomTensor("c", {2, 5, 7})}, [](const Inputs& in) { return Concat(in, 0); });
  Add("concat_middle", {a, RandomTensor("c", {3, 2, 7}), Strided(a)}, [](const Inputs& in) { return Concat(in, 1); });
  Add("broadcast_to", {RandomTensor("x", {5, 1})}, [](const Inputs& in) { return BroadcastTo(in[0], {3, 5, 7}); });
  Add("contiguous", {a}, [](const Inputs& in) { return Contiguous(Transpose(in[0], 0, 1)); });
}

void AddReductions() {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  Add("sum_all", {a}, [](const Inputs& in) { return Sum(in[0]); });
  AddTwice("sum_first", {a}, [](const Inputs& in) { return Sum(in[0], {0}); });
  Add("sum_outer_keep", {a}, [](const Inputs& in) { return Sum(in[0], {0, -1}, KeepDims::kYes); });
  Add("mean_all", {a}, [](const Inputs& in) { return Mean(in[0]); });
  Add("mean_last_keep", {a}, [](const Inputs& in) { return Mean(in[0], {-1}, KeepDims::kYes); });
  Add("max_last", {a}, [](const Inputs& in) { return Max(in[0], {-1}); });
  Add("max_outer_keep", {a}, [](const Inputs& in) { return Max(in[0], {0, 2}, KeepDims::kYes); });
  Add("max_all", {a}, [](const Inputs& in) { return Max(in[0]); });
  for (const int dim : {0, 1, 2}) {
    const std::string at = "_dim" + std::to_string(dim);
    AddTwice("logsumexp" + at, {a}, [dim](const Inputs& in) { return LogSumExp(in[0], dim); });
    AddTwice("softmax" + at, {a}, [dim](const Inputs& in) { return Softmax(in[0], dim); });
    AddTwice("log_softmax" + at, {a}, [dim](const Inputs& in) { return LogSoftmax(in[0], dim); });
  }
  Add("logsumexp_keep", {a}, [](const Inputs& in) { return LogSumExp(in[0], -1, KeepDims::kYes); });
  // One row has nothing left to attend to.
  const Tensor attend = Bool({5, 7}, {1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1,
                                      1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0});
  Add("softmax_masked", {a}, [attend](const Inputs& in) {
    return Softmax(MaskedFillUnless(in[0], attend, -std::numeric_limits<double>::infinity()));
  });
}

void AddMatMuls() {
  for (const kernels::Transpose ta : {kernels::Transpose::kNo, kernels::Transpose::kYes}) {
    for (const kernels::Transpose tb : {kernels::Transpose::kNo, kernels::Transpose::kYes}) {
      const std::string suffix =
          std::string(ta == kernels::Transpose::kYes ? "_t" : "_n") + (tb == kernels::Transpose::kYes ? "t" : "n");
      const Shape a = ta == kernels::Transpose::kYes ? Shape{7, 5} : Shape{5, 7};
      const Shape b = tb == kernels::Transpose::kYes ? Shape{9, 7} : Shape{7, 9};
      const auto function = [ta, tb](const Inputs& in) { return MatMul(in[0], in[1], ta, tb); };
      Add("matmul" + suffix, {RandomTensor("a", a), RandomTensor("b", b)}, function);
      Add("matmul_batched" + suffix, {RandomTensor("a", {3, a[0], a[1]}), RandomTensor("b", {3, b[0], b[1]})},
          function);
      Add("matmul_shared_b" + suffix, {RandomTensor("a", {3, a[0], a[1]}), RandomTensor("b", b)}, function);
      Add("matmul_outer_batch" + suffix,
          {RandomTensor("a", {3, 1, a[0], a[1]}), Strided(RandomTensor("b", {11, b[0], b[1]}))}, function);
    }
  }
}

void AddNormsIndexLoss() {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  const Tensor scale = RandomTensor("scale", {7}, 0.5, 2);
  for (const double epsilon : {1e-12, 0.1}) {
    const std::string at = epsilon < 0.1 ? "" : "_wide";
    AddTwice("rms_norm" + at, {a, scale}, [=](const Inputs& in) { return RmsNorm(in[0], in[1], epsilon); });
    AddTwice("layer_norm" + at, {a, scale, RandomTensor("bias", {7})},
             [=](const Inputs& in) { return LayerNorm(in[0], in[1], in[2], epsilon); });
  }
  const Tensor ids = Int32({3, 2}, {4, 0, 4, 1, 3, 4});
  AddTwice("embedding", {RandomTensor("table", {5, 7})}, [ids](const Inputs& in) { return Embedding(in[0], ids); });
  Add("take_last", {RandomTensor("t", {3, 5})}, [ids](const Inputs& in) { return Take(in[0], -1, ids); });
  Add("take_middle", {a}, [ids](const Inputs& in) { return Take(in[0], 1, ids); });
  const Tensor index =
      Int32({3, 2, 5}, {0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2});
  Add("gather_middle", {a}, [index](const Inputs& in) { return Gather(in[0], 1, index); });
  Add("gather_last", {a}, [index](const Inputs& in) { return Gather(in[0], -1, index); });
  const RandomKey key = {7, StreamId("grad_cases.dropout"), 3};
  AddTwice("dropout", {a}, [key](const Inputs& in) { return Dropout(in[0], 0.4, key); });
  AddTwice("matmul_add", {RandomTensor("A", {5, 7}), RandomTensor("B", {7, 3}), RandomTensor("b", {3})},
           [](const Inputs& in) { return MatMulAdd(in[0], in[1], in[2]); });

  const Tensor logits = RandomTensor("logits", {5, 9}, -3, 3);
  const Tensor hidden = RandomTensor("hidden", {5, 7});
  const Tensor classes = RandomTensor("classes", {9, 7});
  const Tensor targets = Int32({5}, {8, 0, 3, 0, 5});
  for (const bool ignore : {false, true}) {
    for (const double z_loss : {0.0, 0.1}) {
      CrossEntropyOptions options;
      options.ignore_index = ignore ? 0 : CrossEntropyOptions::kIgnoreNone;
      options.z_loss = z_loss;
      const std::string suffix = std::string(ignore ? "_ignore" : "") + (z_loss > 0 ? "_z" : "");
      Add("cross_entropy" + suffix, {logits},
          [=](const Inputs& in) { return Scale(CrossEntropy(in[0], targets, options).loss, 0.3); });
      Add("linear_cross_entropy" + suffix, {hidden, classes},
          [=](const Inputs& in) { return LinearCrossEntropy(in[0], in[1], targets, 0.7, options).loss; });
      Add("linear_cross_entropy_bias" + suffix, {hidden, classes, RandomTensor("bias", {9})},
          [=](const Inputs& in) { return LinearCrossEntropy(in[0], in[1], targets, 0.7, options, in[2]).loss; });
    }
  }
  Add("recompute", {a, scale}, [](const Inputs& in) {
    const Variable captured = in[1];
    return Recompute([captured](const Inputs& x) { return Tanh(RmsNorm(x[0], captured, 1e-6)); }, {in[0]});
  });
}

void AddEinsums() {
  AddEinsum("permute", "Y[d, n, b] = einsum(X[b, n, d])", {{3, 5, 7}});
  AddEinsum("outer", "Y[n, m] = einsum(X[n], M[m])", {{5}, {7}});
  AddEinsum("elementwise", "Y[m, n] = einsum(X[n, m], M[m, n])", {{5, 7}, {7, 5}});
  AddEinsum("dot", "Y[] = einsum(X[n, m], M[m, n])", {{5, 7}, {7, 5}});
  AddEinsum("projection", "Q[b,n,d_k,h] = einsum(X[b,n,d_X], P_q[d_X,d_k,h])", {{2, 5, 7}, {7, 3, 9}});
  AddEinsum("projection_heads_first", "Q[b,h,n,d_k] = einsum(X[b,n,d_X], P_q[d_X,h,d_k])", {{2, 5, 7}, {7, 3, 9}});
  AddEinsum("logits", "J[b,n,m,h] = einsum(Q[b,n,d_k,h], K[b,m,d_k,h])", {{2, 5, 7, 3}, {2, 9, 7, 3}});
  AddEinsum("logits_heads_first", "J[b,h,n,m] = einsum(Q[b,h,n,d_k], K[b,h,m,d_k])", {{2, 3, 5, 7}, {2, 3, 9, 7}});
  AddEinsum("mixing", "L[b,n,m,h] = einsum(J[b,n,m,h_k], P_l[h_k,h])", {{2, 5, 7, 3}, {3, 9}});
  AddEinsum("mixing_heads_first", "L[b,h,n,m] = einsum(J[b,h_k,n,m], P_l[h_k,h])", {{2, 3, 5, 7}, {3, 9}});
  AddEinsum("mixing_by_query", "L[b,h,n,m] = einsum(J[b,h_k,n,m], R_Xl[b,n,h_k,h])", {{2, 3, 5, 7}, {2, 5, 3, 9}});
  AddEinsum("mixing_by_memory", "L[b,h,n,m] = einsum(J[b,h_k,n,m], R_Ml[b,m,h_k,h])", {{2, 3, 5, 7}, {2, 7, 3, 9}});
  AddEinsum("output", "Y[b,n,d_Y] = einsum(O[b,n,d_v,h_v], P_o[d_Y,d_v,h_v])", {{2, 5, 7, 3}, {9, 7, 3}});
  AddEinsum("bilinear", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P[d_X,d_M,h])", {{5, 3}, {7, 9}, {3, 9, 2}});
  AddEinsum("four", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h], P_k[d_M,d_k,h])",
            {{5, 3}, {7, 9}, {3, 4, 2}, {9, 4, 2}});
  AddEinsum("five", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h_k], P_k[d_M,d_k,h_k], P_l[h_k,h])",
            {{5, 3}, {7, 9}, {3, 4, 2}, {9, 4, 2}, {2, 6}});
}

}  // namespace

const std::vector<GradCase>& GradCases() {
  if (!cases.empty()) return cases;
  AddElementwise();
  AddShapes();
  AddReductions();
  AddMatMuls();
  AddNormsIndexLoss();
  AddEinsums();
  return cases;
}

Tensor RandomTensor(const std::string& name, const Shape& shape, double low, double high) {
  const Tensor x = Tensor::Empty(shape, DType::kFloat64);
  FillUniform(x, {1, StreamId(name), 0}, low, high);
  return x;
}

Tensor Strided(const Tensor& x) {
  std::vector<int> reversed(static_cast<size_t>(x.rank()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return x.Permute(reversed).Clone().Permute(reversed);
}

Variable Leaf(const Shape& shape, double value) {
  return Variable(Tensor::Full(shape, value, DType::kFloat64), Variable::RequiresGrad::kYes);
}

}  // namespace crosstalk::testing
