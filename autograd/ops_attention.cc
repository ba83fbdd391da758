#include "crosstalk/autograd/ops_attention.h"

#include <cmath>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/call.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

using kernels::AttentionShape;
using kernels::ConstRows;
using kernels::Rows;

using kernels::AttentionOperand;

// A call's values as the kernel reads them: float; Q, K and V also bfloat16, in that precision.
using TensorCall = kernels::AttentionCallOf<Tensor, Tensor, Tensor>;

// Q, K or V.
bool IsProjection(AttentionOperand operand) { return operand <= AttentionOperand::kV; }

struct Results {
  Tensor O;                     // [b, n, h_v, d_v]; not read where the weights are mixed
  Tensor row_max, inv_row_sum;  // [b, h, n]
  Tensor L;                     // where it is kept (kernels::KeptLogits)
};

// Contiguous, and every one in the table: the kernel reads what it is told to.
Tensor CheckedBuckets(const Tensor& distance_bucket, int64_t buckets) {
  CROSSTALK_CHECK(distance_bucket.dtype() == DType::kInt32, "attention: distance_bucket is ", distance_bucket.dtype(),
                  ", not int32");
  const Tensor checked = distance_bucket.Contiguous();
  Launch([&] {
    for (int64_t i = 0; i < checked.num_elements(); ++i) {
      const int32_t bucket = checked.data<int32_t>()[i];
      CROSSTALK_CHECK(bucket >= 0 && bucket < buckets, "attention: distance_bucket[", i, "] = ", bucket,
                      ", but bias_table[h, buckets] has buckets=", buckets);
    }
  });
  return checked;
}

// x[b, positions, …] itself if what belongs to a position lies together, as in a slice of a wider projection or of a
// decoding buffer; else a copy.
Tensor InRows(const Tensor& x) {
  int64_t expected = 1;
  for (int dim = x.rank() - 1; dim >= 2; --dim) {
    if (x.size(dim) != 1 && x.strides()[dim] != expected) return math::Contiguous(x);
    expected *= x.size(dim);
  }
  return x;
}

ConstRows RowsOf(const Tensor& x) {
  if (!x.defined()) return {};
  if (x.rank() < 3) return x.data<float>();
  if (x.dtype() == DType::kBFloat16) return {x.data<uint16_t>(), x.strides()[1], x.strides()[0]};
  return {x.data<float>(), x.strides()[1], x.strides()[0]};
}
// The rows of a contiguous tensor.
Rows WritableRowsOf(const Tensor& x) {
  if (!x.defined()) return {};
  return {x.data<float>(), x.rank() < 3 ? 0 : x.strides()[1]};
}

kernels::AttentionCall KernelCall(const TensorCall& call) {
  kernels::AttentionCall in;
  static_cast<kernels::AttentionSettings&>(in) = call;
  for (int i = 0; i < kernels::kAttentionOperands; ++i) {
    const auto operand = static_cast<AttentionOperand>(i);
    in[operand] = RowsOf(call[operand]);
  }
  const auto mask = [](const Tensor& x) { return x.defined() ? x.data<uint8_t>() : nullptr; };
  in.key_padding_mask = mask(call.key_padding_mask);
  in.attention_mask = mask(call.attention_mask);
  if (call.distance_bucket.defined()) in.distance_bucket = call.distance_bucket.data<int32_t>();
  return in;
}

// Counts the multiplications of J = Q·K, of each convolution and mixing of logits and of weights, and of O = U·V.
int64_t EquationMultiplications(const AttentionShape& s) {
  // of a query and a memory position
  int64_t of_a_pair = SaturatingSum(SaturatingProduct(s.h_k, s.d_k), SaturatingProduct(s.h_v, s.d_v));
  for (const kernels::MixingSide side : kernels::kMixingSides) {
    const kernels::SideShape mixes(s, side);
    for (const kernels::MixingKind kind : {kernels::kStatic, kernels::kPerQuery, kernels::kPerPosition}) {
      if (mixes.has[kind]) of_a_pair = SaturatingSum(of_a_pair, SaturatingProduct(mixes.in, mixes.out));
    }
    // T = x·A and T·B, of the query and of the position; the diagonals are element by element.
    if (mixes.has_factors()) {
      of_a_pair = SaturatingSum(of_a_pair, SaturatingProduct(4 * kernels::kMixingRank, mixes.in));
    }
  }
  of_a_pair = SaturatingSum(of_a_pair, SaturatingProduct(s.h_k, s.c_ql, s.c_kl));
  of_a_pair = SaturatingSum(of_a_pair, SaturatingProduct(s.h, s.c_qw, s.c_kw));
  return SaturatingProduct(s.b, s.n, s.m, of_a_pair);
}

// The forward pass is one of `passes`; the backward pass counts as two.
LoopWork WorkOf(const AttentionShape& s, double passes) {
  return LoopWork::OfSmallProducts(passes * static_cast<double>(EquationMultiplications(s)));
}

// Whether products of the rounded x · scale are those of x · scale: rounding commutes with powers of two alone.
bool RoundsAlike(double scale) {
  int exponent = 0;
  return std::abs(std::frexp(scale, &exponent)) == 0.5;
}

// The tensors of a call kept for backward. In bfloat16 the kernel rounds scale · Q, K and V as it packs them, and so
// they are kept rounded, in half the bytes: to the bits of what is computed of them that is no difference.
TensorCall Kept(const TensorCall& call) {
  TensorCall kept = call;
  // of tied projections, or the memory itself
  const bool one_tensor = call.V.raw_data() == call.K.raw_data() && call.V.shape() == call.K.shape();
  if (RoundsAlike(call.scale)) kept.Q = KeptForBackward(call.Q);
  kept.K = KeptForBackward(call.K);
  kept.V = one_tensor ? kept.K : KeptForBackward(call.V);
  return kept;
}

kernels::SoftmaxStats StatsOf(const Results& results) {
  return {results.row_max.data<float>(), results.inv_row_sum.data<float>(),
          results.L.defined() ? results.L.data<float>() : nullptr};
}

Tensor Workspace(size_t bytes) {
  return Tensor::Empty({static_cast<int64_t>((bytes + sizeof(float) - 1) / sizeof(float))}, DType::kFloat32);
}

// `operands`: which each input on the tape is.
void Backpropagate(const TensorCall& call, const Results& results, const std::vector<AttentionOperand>& operands,
                   const Tensor& dO, Gradients& gradients) {
  // The kernel writes dQ, dK and dV whether or not they are wanted; the others only if there is room for them.
  std::vector<Tensor> d(operands.size());
  kernels::AttentionGradients out;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!IsProjection(operands[i]) && !gradients.Needs(static_cast<int>(i))) continue;
    d[i] = Tensor::Empty(call[operands[i]].shape(), DType::kFloat32);
    out[operands[i]] = WritableRowsOf(d[i]);
  }
  const LoopWork work = WorkOf(call.shape, 2);
  const int threads = ThreadsOfLoop();
  const Tensor workspace = Workspace(kernels::AttentionBackwardWorkspaceBytes(call.shape, threads));
  const Tensor dO_rows = InRows(dO);
  Launch([&] {
    const TraceScope traced({.kind = TraceEvent::Kind::kProduct,
                             .name = "attention",
                             .multiplications = 2 * EquationMultiplications(call.shape)});
    kernels::AttentionBackward(KernelCall(call), RowsOf(results.O), StatsOf(results), RowsOf(dO_rows), out,
                               workspace.raw_data(), threads);
  });
  for (size_t i = 0; i < operands.size(); ++i) {
    if (d[i].defined()) gradients.Add(static_cast<int>(i), d[i]);
  }
}

}  // namespace

AttentionShape BindShape(const AttentionCall& call) {
  AttentionShape shape = call.shape;
  const bool one_K = call.K.rank() == 3, one_V = call.V.rank() == 3;
  Dims dims("attention");
  dims.Bind("Q[b, n, h_k, d_k]", call.Q.shape());
  dims.Bind(one_K ? "K[b, m, d_k]" : "K[b, m, g_k, d_k]", call.K.shape());
  dims.Bind(one_V ? "V[b, m, d_v]" : "V[b, m, g_v, d_v]", call.V.shape());
  shape.g_k = one_K ? 1 : dims["g_k"];
  shape.g_v = one_V ? 1 : dims["g_v"];
  const auto bind = [&](std::string_view bracket, const Variable& x) {
    if (x.defined()) dims.Bind(bracket, x.shape());
    return x.defined();
  };
  const auto bind_mixings = [&](kernels::MixingSide side) {
    for (const kernels::MixingRow& mixing : kernels::kMixings[side]) {
      shape.*mixing.present = bind(mixing.bracket, call[mixing.operand]);
    }
  };
  dims.Set("factors", kernels::kMixingFactors, "those of two rows, two columns and a diagonal");
  const auto bind_filter = [&](std::string_view bracket, const Variable& filter, int64_t left, int64_t& queries,
                               int64_t& keys) {
    if (!bind(bracket, filter)) return;
    queries = filter.size(0);
    keys = filter.size(1);
    CROSSTALK_CHECK(left >= 0 && left < keys, "attention: ", bracket, " reads ", keys, " keys, which cannot be ", left,
                    " before its own");
  };
  bind_filter("conv_l[c_ql, c_kl, h_k]", call.conv_l, call.left_l, shape.c_ql, shape.c_kl);
  bind_mixings(kernels::kLogits);
  if (!shape.MixesLogits() || shape.F_Xl) dims.Set("h", dims["h_k"], "h = h_k, as no matrix mixes the logits");
  bind_filter("conv_w[c_qw, c_kw, h]", call.conv_w, call.left_w, shape.c_qw, shape.c_kw);
  bind_mixings(kernels::kWeights);
  if (!shape.MixesWeights() || shape.F_Xw) dims.Set("h_v", dims["h"], "h_v = h, as no matrix mixes the weights");
  CROSSTALK_CHECK(!call.bias.defined() || !call.bias_table.defined(),
                  "attention: a bias and a bias_table are given; it adds one of them");
  if (bind("bias[h, n, m]", call.bias)) shape.bias = kernels::AttentionBias::kDense;
  if (bind("bias_table[h, buckets]", call.bias_table)) {
    shape.bias = kernels::AttentionBias::kRelativePosition;
    shape.buckets = dims["buckets"];
    dims.Set("distances", dims["n"] + dims["m"] - 1, "n + m - 1");
    dims.Bind("distance_bucket[distances]", call.distance_bucket.shape());
  }
  const auto bind_mask = [&](std::string_view bracket, const Tensor& mask) {
    if (!mask.defined()) return;
    dims.Bind(bracket, mask.shape());
    CROSSTALK_CHECK(mask.dtype() == DType::kBool, "attention: ", bracket, " is ", mask.dtype(),
                    ", not bool (true = attend)");
  };
  bind_mask("key_padding_mask[b, m]", call.key_padding_mask);
  bind_mask("attention_mask[b, n, m]", call.attention_mask);
  CROSSTALK_CHECK(call.dropout_rate >= 0 && call.dropout_rate < 1, "attention: dropout_rate=", call.dropout_rate,
                  "; must be at least 0 and below 1");
  shape.b = dims["b"];
  shape.n = dims["n"];
  shape.m = dims["m"];
  shape.h_k = dims["h_k"];
  shape.h = dims["h"];
  shape.h_v = dims["h_v"];
  shape.d_k = dims["d_k"];
  shape.d_v = dims["d_v"];
  kernels::CheckMemoryHeads(shape);
  shape.precision = CurrentContext().precision;
  return shape;
}

Variable FusedAttention(const AttentionCall& given) {
  TensorCall call;
  static_cast<kernels::AttentionSettings&>(call) = given;
  const AttentionShape& s = call.shape = BindShape(given);
  std::vector<Variable> inputs;
  std::vector<AttentionOperand> operands;  // which each is
  for (int i = 0; i < kernels::kAttentionOperands; ++i) {
    const auto operand = static_cast<AttentionOperand>(i);
    const Variable& input = given[operand];
    if (!input.defined()) continue;
    const DType dtype = IsProjection(operand) ? ResultDType(input.dtype()) : input.dtype();
    CROSSTALK_CHECK(dtype == DType::kFloat32, "fused attention: it computes in float32, but an input is ", dtype,
                    "; the composed implementation takes both");
    inputs.push_back(input);
    operands.push_back(operand);
    const bool in_rows = IsProjection(operand) || kernels::IsPerPosition(operand);
    const Tensor value = ReadByProducts(input.value());
    call[operand] = in_rows ? InRows(value) : math::Contiguous(value);
  }
  if (given.bias_table.defined()) call.distance_bucket = CheckedBuckets(given.distance_bucket, s.buckets);
  if (given.key_padding_mask.defined()) call.key_padding_mask = given.key_padding_mask.Contiguous();
  if (given.attention_mask.defined()) call.attention_mask = given.attention_mask.Contiguous();

  Results results;
  results.O = Tensor::Empty({s.b, s.n, s.h_v, s.d_v}, DType::kFloat32);
  results.row_max = Tensor::Empty({s.b, s.h, s.n}, DType::kFloat32);
  results.inv_row_sum = Tensor::Empty({s.b, s.h, s.n}, DType::kFloat32);
  const int64_t kept_logits = IsRecorded(inputs) ? kernels::KeptLogits(s) : 0;
  if (kept_logits > 0) results.L = Tensor::Empty({kept_logits}, DType::kFloat32);
  {
    const LoopWork work = WorkOf(s, 1);
    const int threads = ThreadsOfLoop();
    const Tensor workspace = Workspace(kernels::AttentionForwardWorkspaceBytes(s, threads));
    Launch([&] {
      const TraceScope traced(
          {.kind = TraceEvent::Kind::kProduct, .name = "attention", .multiplications = EquationMultiplications(s)});
      kernels::AttentionForward(KernelCall(call), WritableRowsOf(results.O), StatsOf(results), workspace.raw_data(),
                                threads);
    });
    CountMultiplications(EquationMultiplications(s));
  }
  const Tensor O = results.O;
  if (s.MixesWeights() || s.Convolves()) results.O = Tensor();
  return MakeOp("fused_attention", O, inputs,
                [call = Kept(call), results, operands](const Tensor& dO, Gradients& gradients) {
                  // Recomputes W and U tile by tile from the statistics, and J except where L is kept.
                  Backpropagate(call, results, operands, dO, gradients);
                });
}

}  // namespace crosstalk
