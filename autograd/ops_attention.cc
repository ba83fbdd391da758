#include "crosstalk/autograd/ops_attention.h"

#include <array>
#include <cmath>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/rounded.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

using kernels::AttentionInputs;
using kernels::AttentionShape;
using kernels::ConstRows;
using kernels::MemoryHeads;
using kernels::Rows;

// The order of the inputs on the tape.
enum Input { kQ, kK, kV, kP_l, kP_w, kR_Xl, kR_Ml, kR_Xw, kR_Mw, kBias, kBiasTable, kNumInputs };

// What backward needs of the call: the values, in the order of Input and as the kernel reads them, the masks, and the
// results.
struct Call {
  AttentionShape shape;
  std::array<Tensor, kNumInputs> values;  // float; Q, K and V also bfloat16, in that precision
  Tensor distance_bucket, memory_mask, pair_mask;
  double scale = 1.0;
  double dropout_rate = 0.0;
  RandomKey dropout_key;
  Tensor O;                      // [b, n, h_v, d_v]; not read where the weights are mixed
  Tensor reference, reciprocal;  // [b, h, n]: the rows' statistics
  Tensor L;                      // where it is kept (kernels::KeptLogits)
};

AttentionShape BindShape(const FusedAttentionInputs& in) {
  const bool shared = in.memory_heads == MemoryHeads::kMultiQuery;
  Dims dims("fused attention");
  dims.Bind("Q[b, n, h_k, d_k]", in.Q.shape());
  dims.Bind(shared ? "K[b, m, d_k]" : "K[b, m, h_k, d_k]", in.K.shape());
  dims.Bind(shared ? "V[b, m, d_v]" : "V[b, m, h_v, d_v]", in.V.shape());
  const auto bind = [&](std::string_view bracket, const Variable& x) {
    if (x.defined()) dims.Bind(bracket, x.shape());
    return x.defined();
  };
  AttentionShape shape;
  shape.P_l = bind("P_l[h_k, h]", in.P_l);
  shape.R_Xl = bind("R_Xl[b, n, h_k, h]", in.R_Xl);
  shape.R_Ml = bind("R_Ml[b, m, h_k, h]", in.R_Ml);
  if (!shape.MixesLogits()) dims.Set("h", dims["h_k"], "h = h_k, as nothing mixes the logits");
  if (shared) dims.Set("h_v", dims["h"], "h_v = h, as K and V are shared by all heads");
  shape.P_w = bind("P_w[h, h_v]", in.P_w);
  shape.R_Xw = bind("R_Xw[b, n, h, h_v]", in.R_Xw);
  shape.R_Mw = bind("R_Mw[b, m, h, h_v]", in.R_Mw);
  if (!shape.MixesWeights()) dims.Set("h_v", dims["h"], "h_v = h, as nothing mixes the weights");
  CROSSTALK_CHECK(!in.bias.defined() || !in.bias_table.defined(),
                  "fused attention: a bias and a bias_table are given; it adds one of them");
  if (bind("bias[h, n, m]", in.bias)) shape.bias = kernels::AttentionBias::kDense;
  if (bind("bias_table[h, buckets]", in.bias_table)) {
    shape.bias = kernels::AttentionBias::kRelativePosition;
    shape.buckets = dims["buckets"];
    dims.Set("distances", dims["n"] + dims["m"] - 1, "n + m - 1");
    dims.Bind("distance_bucket[distances]", in.distance_bucket.shape());
  }
  const auto bind_mask = [&](std::string_view bracket, const Tensor& mask) {
    if (!mask.defined()) return;
    dims.Bind(bracket, mask.shape());
    CROSSTALK_CHECK(mask.dtype() == DType::kBool, "fused attention: ", bracket, " is ", mask.dtype(), ", not bool");
  };
  bind_mask("mask[b, m]", in.memory_mask);
  bind_mask("mask[b, n, m]", in.pair_mask);
  CROSSTALK_CHECK(in.dropout_rate >= 0 && in.dropout_rate < 1, "fused attention: dropout_rate=", in.dropout_rate,
                  "; must be at least 0 and below 1");
  shape.b = dims["b"];
  shape.n = dims["n"];
  shape.m = dims["m"];
  shape.h_k = dims["h_k"];
  shape.h = dims["h"];
  shape.h_v = dims["h_v"];
  shape.d_k = dims["d_k"];
  shape.d_v = dims["d_v"];
  shape.memory_heads = in.memory_heads;
  shape.causality = in.causality;
  shape.precision = CurrentContext().precision;
  return shape;
}

// Contiguous, and every one in the table: the kernel reads what it is told to.
Tensor CheckedBuckets(const Tensor& distance_bucket, int64_t buckets) {
  CROSSTALK_CHECK(distance_bucket.dtype() == DType::kInt32, "fused attention: distance_bucket is ",
                  distance_bucket.dtype(), ", not int32");
  const Tensor checked = distance_bucket.Contiguous();
  Launch([&] {
    for (int64_t i = 0; i < checked.num_elements(); ++i) {
      const int32_t bucket = checked.data<int32_t>()[i];
      CROSSTALK_CHECK(bucket >= 0 && bucket < buckets, "fused attention: distance_bucket[", i, "] = ", bucket,
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
  const ProductOperand<float> operand(x);
  return {operand.values, x.strides()[1], x.strides()[0], operand.rounded};
}
ConstRows RowsOrNone(const Tensor& x) { return x.defined() ? RowsOf(x) : ConstRows{}; }
// Of a contiguous tensor.
Rows WritableRowsOf(const Tensor& x) { return {x.data<float>(), x.strides()[1]}; }

const float* DataOrNull(const Tensor& x) { return x.defined() ? x.data<float>() : nullptr; }
const uint8_t* MaskOrNull(const Tensor& x) { return x.defined() ? x.data<uint8_t>() : nullptr; }

AttentionInputs KernelInputs(const Call& call) {
  const auto& v = call.values;
  AttentionInputs in;
  in.Q = RowsOf(v[kQ]);
  in.K = RowsOf(v[kK]);
  in.V = RowsOf(v[kV]);
  in.P_l = DataOrNull(v[kP_l]);
  in.P_w = DataOrNull(v[kP_w]);
  in.R_Xl = DataOrNull(v[kR_Xl]);
  in.R_Ml = RowsOrNone(v[kR_Ml]);
  in.R_Xw = DataOrNull(v[kR_Xw]);
  in.R_Mw = RowsOrNone(v[kR_Mw]);
  in.bias = DataOrNull(v[kBias]);
  in.bias_table = DataOrNull(v[kBiasTable]);
  if (call.distance_bucket.defined()) in.distance_bucket = call.distance_bucket.data<int32_t>();
  in.scale = static_cast<float>(call.scale);
  in.key_padding_mask = MaskOrNull(call.memory_mask);
  in.attention_mask = MaskOrNull(call.pair_mask);
  in.dropout_rate = call.dropout_rate;
  in.dropout_key = call.dropout_key;
  return in;
}

// Of J = Q·K, each mixing of logits and of weights, and O = U·V.
int64_t EquationMultiplications(const AttentionShape& s) {
  const int64_t logits = int64_t{s.P_l} + int64_t{s.R_Xl} + int64_t{s.R_Ml};
  const int64_t weights = int64_t{s.P_w} + int64_t{s.R_Xw} + int64_t{s.R_Mw};
  int64_t of_a_pair = 0;  // of a query and a memory position
  for (const int64_t product : {SaturatingProduct(s.h_k, s.d_k), SaturatingProduct(logits, s.h_k, s.h),
                                SaturatingProduct(weights, s.h, s.h_v), SaturatingProduct(s.h_v, s.d_v)}) {
    of_a_pair = SaturatingSum(of_a_pair, product);
  }
  return SaturatingProduct(s.b, s.n, s.m, of_a_pair);
}

// Whether products of the rounded x · scale are those of x · scale: rounding commutes with powers of two alone.
bool RoundsAlike(double scale) {
  int exponent = 0;
  return std::abs(std::frexp(scale, &exponent)) == 0.5;
}

// What backward keeps of a call. In bfloat16 the kernel rounds scale · Q, K and V as it packs them, and so they are
// kept rounded, in half the bytes: to the bits of what is computed of them that is no difference.
Call Kept(const Call& call) {
  Call kept = call;
  if (call.shape.MixesWeights()) kept.O = Tensor();
  const auto& values = call.values;
  // of tied projections, or the memory itself
  const bool one_tensor = values[kV].raw_data() == values[kK].raw_data() && values[kV].shape() == values[kK].shape();
  if (RoundsAlike(call.scale)) kept.values[kQ] = KeptForBackward(values[kQ]);
  kept.values[kK] = KeptForBackward(values[kK]);
  kept.values[kV] = one_tensor ? kept.values[kK] : KeptForBackward(values[kV]);
  return kept;
}

kernels::SoftmaxStats StatsOf(const Call& call) {
  return {call.reference.data<float>(), call.reciprocal.data<float>(),
          call.L.defined() ? call.L.data<float>() : nullptr};
}

Tensor Workspace(size_t bytes) {
  return Tensor::Empty({static_cast<int64_t>((bytes + sizeof(float) - 1) / sizeof(float))}, DType::kFloat32);
}

void Backpropagate(const Call& call, const Tensor& dO, Gradients& gradients) {
  // The kernel writes dQ, dK and dV whether or not they are wanted; the others only where there is room for them.
  std::array<Tensor, kNumInputs> d;
  for (int i = 0; i < kNumInputs; ++i) {
    if (call.values[i].defined() && (i <= kV || gradients.Needs(i))) {
      d[i] = Tensor::Empty(call.values[i].shape(), DType::kFloat32);
    }
  }
  const auto writable = [&](Input i) { return d[i].defined() ? d[i].data<float>() : nullptr; };
  kernels::AttentionGradients out;
  out.dQ = WritableRowsOf(d[kQ]);
  out.dK = WritableRowsOf(d[kK]);
  out.dV = WritableRowsOf(d[kV]);
  out.dP_l = writable(kP_l);
  out.dP_w = writable(kP_w);
  out.dR_Xl = writable(kR_Xl);
  out.dR_Ml = writable(kR_Ml);
  out.dR_Xw = writable(kR_Xw);
  out.dR_Mw = writable(kR_Mw);
  out.dbias = writable(kBias);
  out.dbias_table = writable(kBiasTable);
  const int threads = NumThreads();
  const Tensor workspace = Workspace(kernels::AttentionBackwardWorkspaceBytes(call.shape, threads));
  const Tensor dO_rows = InRows(dO);
  Launch([&] {
    kernels::AttentionBackward(call.shape, KernelInputs(call), RowsOrNone(call.O), StatsOf(call), RowsOf(dO_rows), out,
                               workspace.raw_data(), threads);
  });
  for (int i = 0; i < kNumInputs; ++i) {
    if (d[i].defined() && gradients.Needs(i)) gradients.Add(i, d[i]);
  }
}

}  // namespace

Variable FusedAttention(const FusedAttentionInputs& in) {
  const std::vector<Variable> given = {in.Q,    in.K,    in.V,    in.P_l,  in.P_w,       in.R_Xl,
                                       in.R_Ml, in.R_Xw, in.R_Mw, in.bias, in.bias_table};
  Call call;
  call.shape = BindShape(in);
  std::vector<Variable> inputs;
  for (int i = 0; i < kNumInputs; ++i) {
    if (!given[i].defined()) {
      inputs.push_back(Variable(Tensor::Empty({0}, DType::kFloat32)));  // keeps the others' places
      continue;
    }
    const DType dtype = i <= kV ? ResultDType(given[i].dtype()) : given[i].dtype();
    CROSSTALK_CHECK(dtype == DType::kFloat32, "fused attention: it computes in float32, but an input is ", dtype,
                    "; the composed implementation takes both");
    inputs.push_back(given[i]);
    const bool in_rows = i <= kV || i == kR_Ml || i == kR_Mw;
    const Tensor value = ReadByProducts(given[i].value());
    call.values[i] = in_rows ? InRows(value) : math::Contiguous(value);
  }
  if (in.bias_table.defined()) call.distance_bucket = CheckedBuckets(in.distance_bucket, call.shape.buckets);
  if (in.memory_mask.defined()) call.memory_mask = in.memory_mask.Contiguous();
  if (in.pair_mask.defined()) call.pair_mask = in.pair_mask.Contiguous();
  call.scale = in.scale;
  call.dropout_rate = in.dropout_rate;
  call.dropout_key = in.dropout_key;

  const AttentionShape& s = call.shape;
  call.O = Tensor::Empty({s.b, s.n, s.h_v, s.d_v}, DType::kFloat32);
  call.reference = Tensor::Empty({s.b, s.h, s.n}, DType::kFloat32);
  call.reciprocal = Tensor::Empty({s.b, s.h, s.n}, DType::kFloat32);
  const int64_t kept_logits = IsRecorded(inputs) ? kernels::KeptLogits(s) : 0;
  if (kept_logits > 0) call.L = Tensor::Empty({kept_logits}, DType::kFloat32);
  {
    const int threads = NumThreads();
    const Tensor workspace = Workspace(kernels::AttentionForwardWorkspaceBytes(s, threads));
    Launch([&] {
      kernels::AttentionForward(s, KernelInputs(call), WritableRowsOf(call.O), StatsOf(call), workspace.raw_data(),
                                threads);
    });
    CountMultiplications(EquationMultiplications(s));
  }
  const Tensor O = call.O;
  return MakeOp("fused_attention", O, inputs, [kept = Kept(call)](const Tensor& dO, Gradients& gradients) {
    // Recomputes W and U tile by tile from the statistics, and J but where L is kept.
    Backpropagate(kept, dO, gradients);
  });
}

}  // namespace crosstalk
