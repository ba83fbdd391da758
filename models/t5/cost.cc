// EstimateT5: multiplications and memory of a training step, from the configuration alone.
#include <algorithm>
#include <initializer_list>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/models/t5/config.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kFactoredSize = 128;  // AdafactorConfig::min_factored_size

// Elements of Adafactor's state for a parameter that is the matrix [rows, cols].
int64_t AdafactorElements(int64_t rows, int64_t cols) {
  return rows >= kFactoredSize && cols >= kFactoredSize ? rows + cols : rows * cols;
}

// Every matrix of an attention layer as AttentionModule shapes it for factoring.
int64_t AttentionOptimizerElements(const AttentionConfig& c) {
  if (c.form == AttentionForm::kDotProduct) return 0;
  if (c.form == AttentionForm::kBilinear) {
    return AdafactorElements(c.d_X, c.h * c.d_M) + AdafactorElements(c.h * c.d_M, c.d_Y);
  }
  int64_t elements = AdafactorElements(c.d_X, c.h_k * c.d_k) + AdafactorElements(c.d_M, c.h_k * c.d_k) +
                     AdafactorElements(c.h_v * c.d_v, c.d_Y);
  if (!c.tied()) elements += AdafactorElements(c.d_M, c.h_v * c.d_v);
  const HeadMixing& mixing = c.mixing;
  if (mixing.P_l) elements += AdafactorElements(c.h_k, c.h);
  if (mixing.P_w) elements += AdafactorElements(c.h, c.h_v);
  if (mixing.P_Xl) elements += AdafactorElements(c.d_X, c.h_k * c.h);
  if (mixing.P_Ml) elements += AdafactorElements(c.d_M, c.h_k * c.h);
  if (mixing.P_Xw) elements += AdafactorElements(c.d_X, c.h * c.h_v);
  if (mixing.P_Mw) elements += AdafactorElements(c.d_M, c.h * c.h_v);
  return elements;
}

// One attention layer of a stack, as a step computes it.
struct AttentionUse {
  const AttentionConfig& config;
  int64_t b, n, m;           // batch, queries, memory positions
  int64_t relative_buckets;  // of the position bias; 0: it has none
};

bool IsFused(const AttentionConfig& c) {
  return ImplementationFor(c, DType::kFloat32, AttentionOutputs::kOutputOnly) == AttentionImplementation::kFused;
}

// R_Xl[n, h_k, h], R_Ml[m, h_k, h], R_Xw[n, h, h_v], R_Mw[m, h, h_v], those that there are, of one example.
int64_t GeneratedElements(const AttentionConfig& c, int64_t n, int64_t m) {
  const HeadMixing& mixing = c.mixing;
  return (n * int64_t{mixing.P_Xl} + m * int64_t{mixing.P_Ml}) * c.h_k * c.h +
         (n * int64_t{mixing.P_Xw} + m * int64_t{mixing.P_Mw}) * c.h * c.h_v;
}

// Q[n, h_k, d_k], K[m, h_k, d_k], V[m, h_v, d_v] and O[n, h_v, d_v] of one example; without P_k and P_v X·P and O.
int64_t ProjectedElements(const AttentionConfig& c, int64_t n, int64_t m) {
  if (c.form == AttentionForm::kDotProduct) return 0;
  if (c.form == AttentionForm::kBilinear) return 2 * n * c.h * c.d_M;
  return (n + m) * c.h_k * c.d_k + n * c.h_v * c.d_v + (c.tied() ? 0 : m * c.h_v * c.d_v);
}

// What the tape keeps of the composed attention between queries and memory, n·m times
//   h_k for J as often as it is mixed, h for W, h for W as often as it is mixed from the memory's side, h_v for U, if W
//   is mixed.
// P and R_X mix J as it stands; R_M mixes a transposed copy, and takes P along where there is no R_X.
int64_t ComposedElements(const AttentionConfig& c, int64_t n, int64_t m) {
  const HeadMixing& mixing = c.mixing;
  const bool J_stands = mixing.P_Xl || (mixing.P_l && !mixing.P_Ml);
  return n * m *
         (c.h_k * (int64_t{J_stands} + int64_t{mixing.P_Ml}) + c.h + (mixing.P_Mw ? c.h : 0) +
          (mixing.MixesWeights() ? c.h_v : 0));
}

// What the tape keeps of a layer, in elements: the residual stream before it and its normed copy, the projections, and
// what stands between queries and memory; of the fused attention that is two statistics [n, h].
int64_t AttentionActivations(const AttentionUse& use) {
  const auto& [c, b, n, m, buckets] = use;
  const int64_t between = IsFused(c) ? 2 * n * c.h : ComposedElements(c, n, m);
  return b * (2 * n * c.d_X + ProjectedElements(c, n, m) + GeneratedElements(c, n, m) + between);
}

kernels::AttentionShape FusedShape(const AttentionUse& use) {
  const auto& [c, b, n, m, buckets] = use;
  const bool projected = c.form == AttentionForm::kProjected;
  kernels::AttentionShape shape;
  shape.b = b, shape.n = n, shape.m = m;
  shape.h_k = projected ? c.h_k : c.h, shape.h = c.h, shape.h_v = projected ? c.h_v : c.h;
  shape.d_k = projected ? c.d_k : c.d_M, shape.d_v = projected ? c.d_v : c.d_M;
  shape.P_l = c.mixing.P_l, shape.R_Xl = c.mixing.P_Xl, shape.R_Ml = c.mixing.P_Ml;
  shape.P_w = c.mixing.P_w, shape.R_Xw = c.mixing.P_Xw, shape.R_Mw = c.mixing.P_Mw;
  if (!projected) shape.memory_heads = kernels::MemoryHeads::kMultiQuery;
  if (c.causality == Causality::kCausal) shape.causality = kernels::AttentionCausality::kCausal;
  if (buckets > 0) shape.bias = kernels::AttentionBias::kRelativePosition;
  shape.buckets = buckets;
  return shape;
}

// The most that the gradient of one attention layer holds at once beside that.
// Composed: two tensors of the widest head count; four where dynamic projections need them in two orders.
// Fused: the gradients of the projections, and the kernel's workspace.
int64_t AttentionTransient(const AttentionUse& use) {
  const auto& [c, b, n, m, buckets] = use;
  if (IsFused(c)) {
    const size_t workspace = kernels::AttentionBackwardWorkspaceBytes(FusedShape(use), NumThreads());
    return b * (ProjectedElements(c, n, m) + GeneratedElements(c, n, m)) +
           static_cast<int64_t>(workspace) / kFloatBytes;
  }
  const HeadMixing& mixing = c.mixing;
  const bool dynamic = mixing.P_Xl || mixing.P_Ml || mixing.P_Xw || mixing.P_Mw;
  return (dynamic ? 4 : 2) * b * n * m * std::max({c.h, c.h_k, c.h_v});
}

struct FeedForwardCost {
  int64_t parameters, multiplications, activations, optimizer_elements;
};

// Kept: the stream and its normed copy, and the hidden layer: once after ReLU; gated four times (before and after
// the gelu, the other half, their product).
FeedForwardCost CostOfFeedForward(const T5Config& c, int64_t n) {
  const bool gated = c.feed_forward == FeedForwardKind::kGatedGelu;
  const int64_t matrices = gated ? 3 : 2;
  return {.parameters = matrices * c.d_model * c.d_ff,
          .multiplications = matrices * n * c.d_model * c.d_ff,
          .activations = 2 * n * c.d_model + (gated ? 4 : 1) * n * c.d_ff,
          .optimizer_elements = matrices * AdafactorElements(c.d_model, c.d_ff)};
}

// One stack of layers: sums over its blocks, and of one block what comes and goes.
struct StackCost {
  int64_t parameters, multiplications, optimizer_elements;
  int64_t kept;       // on the tape at the end of its forward pass
  int64_t transient;  // beside that, while a block's gradient is computed
  int64_t block;      // of one block while its gradient is computed, kept and transient
};

// `attentions` are a block's, the last first; that is the self-attention.
StackCost CostOfStack(const T5Config& c, int64_t layers, Activations activations,
                      std::initializer_list<AttentionUse> attentions) {
  const AttentionUse& self = *(attentions.end() - 1);
  const int64_t b = self.b, length = self.n;
  const FeedForwardCost feed_forward = CostOfFeedForward(c, length);
  StackCost block = {.parameters = feed_forward.parameters + c.d_model,
                     .multiplications = b * feed_forward.multiplications,
                     .optimizer_elements = feed_forward.optimizer_elements + c.d_model,
                     .kept = b * feed_forward.activations,
                     .transient = b * 2 * length * c.d_ff,
                     .block = 0};
  int64_t consumed = block.kept;  // by the gradients of the parts behind: backward order
  for (const AttentionUse& attention : attentions) {
    const AttentionCost cost = CostOf(attention.config, attention.n, attention.m);
    block.parameters += cost.parameters + c.d_model;
    block.multiplications += b * cost.multiplications;
    block.optimizer_elements += AttentionOptimizerElements(attention.config) + c.d_model;
    const int64_t kept = AttentionActivations(attention);
    block.kept += kept;
    block.transient = std::max(block.transient, AttentionTransient(attention) - consumed);
    consumed += kept;
  }
  // Recomputing, the input of each block stays, and one block at a time is whole.
  const bool recompute = activations == Activations::kRecompute;
  const int64_t relative_bias = c.relative_buckets * self.config.h, stream = b * length * c.d_model;
  return {.parameters = layers * block.parameters + relative_bias + c.d_model,
          .multiplications = layers * block.multiplications,
          .optimizer_elements = layers * block.optimizer_elements + relative_bias + c.d_model,
          .kept = layers * (recompute ? stream : block.kept) + 3 * stream,
          .transient = block.transient + (recompute ? block.kept : 0),
          .block = block.transient + block.kept};
}

// Rows of the classifier's logits that the fused loss holds at once: 2^23 logits, in multiples of 64 rows.
int64_t LossRows(int64_t rows, int64_t classes) {
  return std::min(rows, std::max<int64_t>((int64_t{1} << 23) / classes / 64 * 64, 64));
}

}  // namespace

T5Cost EstimateT5(const T5Config& c, int64_t batch, int64_t n, int64_t m, Activations activations) {
  c.Validate();
  CROSSTALK_CHECK(batch >= 1 && n >= 1 && m >= 1, "T5 cost: batch = ", batch, ", n = ", n, " and m = ", m,
                  " must be at least 1");
  const int64_t d = c.d_model, classes = c.padded_vocabulary();
  const int64_t table = classes * d, tables = c.classifier == ClassifierKind::kUntied ? 2 : 1;
  const StackCost encoder =
      CostOfStack(c, c.encoder_layers, activations, {{c.encoder_self, batch, n, n, c.relative_buckets}});
  const StackCost decoder =
      CostOfStack(c, c.decoder_layers, activations,
                  {{c.encoder_decoder, batch, m, n, 0}, {c.decoder_self, batch, m, m, c.relative_buckets}});

  T5Cost cost;
  cost.parameters = tables * table + encoder.parameters + decoder.parameters;
  cost.forward_multiplications = encoder.multiplications + decoder.multiplications + batch * m * table;
  cost.step_multiplications = (activations == Activations::kRecompute ? 4 : 3) * cost.forward_multiplications;
  cost.parameter_bytes = 2 * kFloatBytes * cost.parameters;
  cost.optimizer_bytes =
      kFloatBytes * (tables * AdafactorElements(classes, d) + encoder.optimizer_elements + decoder.optimizer_elements);

  // Elements beside the parameters, at the moments that can be the peak. Gradients come as activations go.
  const int64_t kept = encoder.kept + decoder.kept;
  const int64_t decoder_gradients = decoder.parameters + table;
  const int64_t packed = std::max(kernels::GemmPackedFloats(d, classes), kernels::GemmPackedFloats(d, c.d_ff));
  const int64_t peak = packed + std::max({
                                    // the gradient of the loss; of the decoder's last block, of its first; of the
                                    // encoder's last block, of its first
                                    kept + table + LossRows(batch * m, classes) * classes + batch * m * d,
                                    kept + table + decoder.transient,
                                    encoder.kept + decoder.block + decoder_gradients,
                                    encoder.kept + decoder_gradients + std::max(table, encoder.transient),
                                    encoder.block + cost.parameters,
                                    // of the embedding, last
                                    cost.parameters + table + batch * n * d,
                                });
  cost.activation_bytes = kFloatBytes * std::max<int64_t>(peak - cost.parameters, 0);
  return cost;
}

}  // namespace crosstalk
