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

class Table {
 public:
  void Add(const std::string& name, std::vector<Tensor> inputs, std::function<Variable(const Inputs&)> function) {
    cases_.push_back({name, std::move(inputs), std::move(function)});
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
  std::vector<GradCase> Take() { return std::move(cases_); }

 private:
  std::vector<GradCase> cases_;
};

void AddElementwise(Table& table) {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  const Tensor b = RandomTensor("b", {3, 5, 7}, 0.5, 2);
  struct Named {
    const char* name;
    Variable (*function)(const Variable&, const Variable&);
  };
  for (const Named& op : {Named{"add", Add}, Named{"sub", Sub}, Named{"mul", Mul}, Named{"div", Div}}) {
    const auto function = [f = op.function](const Inputs& in) { return f(in[0], in[1]); };
    const std::string name = op.name;
    table.AddTwice(name, {a, b}, function);
    table.Add(name + "_row", {a, RandomTensor("row", {7}, 0.5, 2)}, function);
    table.Add(name + "_column", {a, RandomTensor("column", {5, 1}, 0.5, 2)}, function);
    table.Add(name + "_outer", {RandomTensor("o1", {3, 1, 7}), RandomTensor("o2", {5, 1}, 0.5, 2)}, function);
    table.Add(name + "_of_scalar", {a, RandomTensor("s", {}, 0.5, 2)}, function);
  }
  table.Add("mul_itself", {a}, [](const Inputs& in) { return Mul(in[0], in[0]); });
  table.Add("neg", {a}, [](const Inputs& in) { return Neg(in[0]); });
  table.Add("scale_constant", {a}, [](const Inputs& in) { return Scale(in[0], -2.5); });
  table.Add("add_constant", {a}, [](const Inputs& in) { return AddScalar(in[0], 0.75); });
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
    table.AddTwice(op.name, {op.x}, function);
  }
  table.AddTwice("gated_gelu", {wide, RandomTensor("x", {5, 11})},
                 [](const Inputs& in) { return GatedGelu(in[0], in[1]); });
  table.Add("gated_gelu_of_itself", {wide}, [](const Inputs& in) { return GatedGelu(in[0], in[0]); });
  const Tensor mask = Bool({5, 1}, {1, 0, 1, 1, 0});
  table.Add("masked_fill", {a}, [mask](const Inputs& in) { return MaskedFill(in[0], mask, -3); });
  table.Add("masked_fill_unless", {a}, [mask](const Inputs& in) { return MaskedFillUnless(in[0], mask, 2); });
}

void AddShapes(Table& table) {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  table.AddTwice("reshape", {a}, [](const Inputs& in) { return Reshape(in[0], {15, -1}); });
  table.Add("transpose", {a}, [](const Inputs& in) { return Transpose(in[0], 0, -1); });
  table.Add("permute", {a}, [](const Inputs& in) { return Permute(in[0], {2, 0, 1}); });
  table.Add("slice", {a}, [](const Inputs& in) { return Slice(in[0], 1, 1, 4); });
  table.Add("slice_last", {a}, [](const Inputs& in) { return Slice(in[0], -1, 2, 7); });
  table.Add("concat_first", {a, RandomTensor("c", {2, 5, 7})}, [](const Inputs& in) { return Concat(in, 0); });
  table.Add("concat_middle", {a, RandomTensor("c", {3, 2, 7}), Strided(a)},
            [](const Inputs& in) { return Concat(in, 1); });
  table.Add("broadcast_to", {RandomTensor("x", {5, 1})}, [](const Inputs& in) {
    return BroadcastTo(in[0], {3, 5, 7});
  });
  table.Add("contiguous", {a}, [](const Inputs& in) { return Contiguous(Transpose(in[0], 0, 1)); });
}

void AddReductions(Table& table) {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  table.Add("sum_all", {a}, [](const Inputs& in) { return Sum(in[0]); });
  table.AddTwice("sum_first", {a}, [](const Inputs& in) { return Sum(in[0], {0}); });
  table.Add("sum_outer_keep", {a}, [](const Inputs& in) { return Sum(in[0], {0, -1}, KeepDims::kYes); });
  table.Add("mean_all", {a}, [](const Inputs& in) { return Mean(in[0]); });
  table.Add("mean_last_keep", {a}, [](const Inputs& in) { return Mean(in[0], {-1}, KeepDims::kYes); });
  table.Add("max_last", {a}, [](const Inputs& in) { return Max(in[0], {-1}); });
  table.Add("max_outer_keep", {a}, [](const Inputs& in) { return Max(in[0], {0, 2}, KeepDims::kYes); });
  table.Add("max_all", {a}, [](const Inputs& in) { return Max(in[0]); });
  for (const int dim : {0, 1, 2}) {
    const std::string at = "_dim" + std::to_string(dim);
    table.AddTwice("logsumexp" + at, {a}, [dim](const Inputs& in) { return LogSumExp(in[0], dim); });
    table.AddTwice("softmax" + at, {a}, [dim](const Inputs& in) { return Softmax(in[0], dim); });
    table.AddTwice("log_softmax" + at, {a}, [dim](const Inputs& in) { return LogSoftmax(in[0], dim); });
  }
  table.Add("logsumexp_keep", {a}, [](const Inputs& in) { return LogSumExp(in[0], -1, KeepDims::kYes); });
  // One row has nothing left to attend to.
  const Tensor attend = Bool({5, 7}, {1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1,
                                      1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0});
  table.Add("softmax_masked", {a}, [attend](const Inputs& in) {
    return Softmax(MaskedFillUnless(in[0], attend, -std::numeric_limits<double>::infinity()));
  });
}

void AddMatMuls(Table& table) {
  for (const kernels::Transpose ta : {kernels::Transpose::kNo, kernels::Transpose::kYes}) {
    for (const kernels::Transpose tb : {kernels::Transpose::kNo, kernels::Transpose::kYes}) {
      const std::string suffix =
          std::string(ta == kernels::Transpose::kYes ? "_t" : "_n") + (tb == kernels::Transpose::kYes ? "t" : "n");
      const Shape a = ta == kernels::Transpose::kYes ? Shape{7, 5} : Shape{5, 7};
      const Shape b = tb == kernels::Transpose::kYes ? Shape{9, 7} : Shape{7, 9};
      const auto function = [ta, tb](const Inputs& in) { return MatMul(in[0], in[1], ta, tb); };
      table.Add("matmul" + suffix, {RandomTensor("a", a), RandomTensor("b", b)}, function);
      table.Add("matmul_batched" + suffix, {RandomTensor("a", {3, a[0], a[1]}), RandomTensor("b", {3, b[0], b[1]})},
                function);
      table.Add("matmul_shared_b" + suffix, {RandomTensor("a", {3, a[0], a[1]}), RandomTensor("b", b)}, function);
      table.Add("matmul_outer_batch" + suffix,
                {RandomTensor("a", {3, 1, a[0], a[1]}), Strided(RandomTensor("b", {11, b[0], b[1]}))}, function);
    }
  }
}

void AddNormsIndexLoss(Table& table) {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  const Tensor scale = RandomTensor("scale", {7}, 0.5, 2);
  for (const double epsilon : {1e-12, 0.1}) {
    const std::string at = epsilon < 0.1 ? "" : "_wide";
    table.AddTwice("rms_norm" + at, {a, scale}, [=](const Inputs& in) { return RmsNorm(in[0], in[1], epsilon); });
    table.AddTwice("layer_norm" + at, {a, scale, RandomTensor("bias", {7})},
                   [=](const Inputs& in) { return LayerNorm(in[0], in[1], in[2], epsilon); });
  }
  const Tensor ids = Int32({3, 2}, {4, 0, 4, 1, 3, 4});
  table.AddTwice("embedding", {RandomTensor("table", {5, 7})},
                 [ids](const Inputs& in) { return Embedding(in[0], ids); });
  table.Add("take_last", {RandomTensor("t", {3, 5})}, [ids](const Inputs& in) { return Take(in[0], 1, ids); });
  table.Add("take_middle", {a}, [ids](const Inputs& in) { return Take(in[0], 1, ids); });
  const Tensor index =
      Int32({3, 2, 5}, {0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2});
  table.Add("gather_middle", {a}, [index](const Inputs& in) { return Gather(in[0], 1, index); });
  table.Add("gather_last", {a}, [index](const Inputs& in) { return Gather(in[0], -1, index); });
  const RandomKey key = {7, StreamId("grad_cases.dropout"), 3};
  table.AddTwice("dropout", {a}, [key](const Inputs& in) { return Dropout(in[0], 0.4, key); });
  table.AddTwice("matmul_add", {RandomTensor("A", {5, 7}), RandomTensor("B", {7, 3}), RandomTensor("b", {3})},
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
      table.Add("cross_entropy" + suffix, {logits},
                [=](const Inputs& in) { return Scale(CrossEntropy(in[0], targets, options).loss, 0.3); });
      table.Add("linear_cross_entropy" + suffix, {hidden, classes},
                [=](const Inputs& in) { return LinearCrossEntropy(in[0], in[1], targets, 0.7, options).loss; });
      table.Add("linear_cross_entropy_bias" + suffix, {hidden, classes, RandomTensor("bias", {9})},
                [=](const Inputs& in) { return LinearCrossEntropy(in[0], in[1], targets, 0.7, options, in[2]).loss; });
    }
  }
  table.Add("recompute", {a, scale}, [](const Inputs& in) {
    const Variable captured = in[1];
    return Recompute([captured](const Inputs& x) { return Tanh(RmsNorm(x[0], captured, 1e-6)); }, {in[0]});
  });
}

void AddEinsums(Table& table) {
  table.AddEinsum("permute", "Y[d, n, b] = einsum(X[b, n, d])", {{3, 5, 7}});
  table.AddEinsum("outer", "Y[n, m] = einsum(X[n], M[m])", {{5}, {7}});
  table.AddEinsum("elementwise", "Y[m, n] = einsum(X[n, m], M[m, n])", {{5, 7}, {7, 5}});
  table.AddEinsum("dot", "Y[] = einsum(X[n, m], M[m, n])", {{5, 7}, {7, 5}});
  table.AddEinsum("projection", "Q[b,n,d_k,h] = einsum(X[b,n,d_X], P_q[d_X,d_k,h])", {{2, 5, 7}, {7, 3, 9}});
  table.AddEinsum("projection_heads_first", "Q[b,h,n,d_k] = einsum(X[b,n,d_X], P_q[d_X,h,d_k])",
                  {{2, 5, 7}, {7, 3, 9}});
  table.AddEinsum("logits", "J[b,n,m,h] = einsum(Q[b,n,d_k,h], K[b,m,d_k,h])", {{2, 5, 7, 3}, {2, 9, 7, 3}});
  table.AddEinsum("logits_heads_first", "J[b,h,n,m] = einsum(Q[b,h,n,d_k], K[b,h,m,d_k])",
                  {{2, 3, 5, 7}, {2, 3, 9, 7}});
  table.AddEinsum("mixing", "L[b,n,m,h] = einsum(J[b,n,m,h_k], P_l[h_k,h])", {{2, 5, 7, 3}, {3, 9}});
  table.AddEinsum("mixing_heads_first", "L[b,h,n,m] = einsum(J[b,h_k,n,m], P_l[h_k,h])", {{2, 3, 5, 7}, {3, 9}});
  table.AddEinsum("mixing_by_query", "L[b,h,n,m] = einsum(J[b,h_k,n,m], R_Xl[b,n,h_k,h])",
                  {{2, 3, 5, 7}, {2, 5, 3, 9}});
  table.AddEinsum("mixing_by_memory", "L[b,h,n,m] = einsum(J[b,h_k,n,m], R_Ml[b,m,h_k,h])",
                  {{2, 3, 5, 7}, {2, 7, 3, 9}});
  table.AddEinsum("output", "Y[b,n,d_Y] = einsum(O[b,n,d_v,h_v], P_o[d_Y,d_v,h_v])", {{2, 5, 7, 3}, {9, 7, 3}});
  table.AddEinsum("bilinear", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P[d_X,d_M,h])", {{5, 3}, {7, 9}, {3, 9, 2}});
  table.AddEinsum("four", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h], P_k[d_M,d_k,h])",
                  {{5, 3}, {7, 9}, {3, 4, 2}, {9, 4, 2}});
  table.AddEinsum("five", "L[n,m,h] = einsum(X[n,d_X], M[m,d_M], P_q[d_X,d_k,h_k], P_k[d_M,d_k,h_k], P_l[h_k,h])",
                  {{5, 3}, {7, 9}, {3, 4, 2}, {9, 4, 2}, {2, 6}});
}

std::vector<GradCase> MakeCases() {
  Table table;
  AddElementwise(table);
  AddShapes(table);
  AddReductions(table);
  AddMatMuls(table);
  AddNormsIndexLoss(table);
  AddEinsums(table);
  return table.Take();
}

}  // namespace

const std::vector<GradCase>& GradCases() {
  static const std::vector<GradCase> cases = MakeCases();
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
