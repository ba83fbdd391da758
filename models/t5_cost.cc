// EstimateT5: multiplications and memory of a training step, from the configuration alone.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "models/t5_config.h"
#include "runtime/check.h"

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

// What the tape keeps of the composed attention on one example, in elements, with the residual stream before it and
// its normed copy:
//   2·n·d + Q[n, h_k, d_k] + K[m, h_k, d_k] + V[m, h_v, d_v] + O[n, h_v, d_v]
//   + n·m · (h_k for J as often as it is mixed, h for W, h for W as often as it is mixed from the memory's side,
//            h_v for U, if W is mixed) + the generated matrices R.
// P and R_X mix J as it stands; R_M mixes a transposed copy, and takes P along where there is no R_X.
int64_t AttentionActivations(const AttentionConfig& c, int64_t n, int64_t m) {
  const int64_t stream = 2 * n * c.d_X;
  if (c.form == AttentionForm::kDotProduct) return stream + n * m;
  if (c.form == AttentionForm::kBilinear) return stream + 2 * n * c.h * c.d_M + n * m * c.h;
  const HeadMixing& mixing = c.mixing;
  int64_t elements = stream + (n + m) * c.h_k * c.d_k + n * c.h_v * c.d_v;
  if (!c.tied()) elements += m * c.h_v * c.d_v;
  const bool J_stands = mixing.P_Xl || (mixing.P_l && !mixing.P_Ml);
  elements += n * m * c.h_k * (int64_t{J_stands} + int64_t{mixing.P_Ml});
  elements += n * m * (c.h + (mixing.P_Mw ? c.h : 0) + (mixing.MixesWeights() ? c.h_v : 0));
  if (mixing.P_Xl) elements += n * c.h_k * c.h;
  if (mixing.P_Ml) elements += m * c.h_k * c.h;
  if (mixing.P_Xw) elements += n * c.h * c.h_v;
  if (mixing.P_Mw) elements += m * c.h * c.h_v;
  return elements;
}

// The most that the gradient of one attention layer holds at once beside that: two tensors of the widest head count;
// four where dynamic projections need them in two orders.
int64_t AttentionTransient(const AttentionConfig& c, int64_t n, int64_t m) {
  const HeadMixing& mixing = c.mixing;
  const bool dynamic = mixing.P_Xl || mixing.P_Ml || mixing.P_Xw || mixing.P_Mw;
  return (dynamic ? 4 : 2) * n * m * std::max({c.h, c.h_k, c.h_v});
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

// One stack of layers on one example: sums over its blocks, and of one block what comes and goes.
struct StackCost {
  int64_t parameters, multiplications, optimizer_elements;
  int64_t kept;       // on the tape at the end of its forward pass
  int64_t transient;  // beside that, while a block's gradient is computed
  int64_t block;      // of one block while its gradient is computed, kept and transient
};

// `attentions` are pairs of a layer and the number of memory positions, the last of the block first.
StackCost CostOfStack(const T5Config& c, int64_t layers, int64_t length, Activations activations,
                      std::initializer_list<std::pair<const AttentionConfig*, int64_t>> attentions) {
  const FeedForwardCost feed_forward = CostOfFeedForward(c, length);
  StackCost block = {.parameters = feed_forward.parameters + c.d_model,
                     .multiplications = feed_forward.multiplications,
                     .optimizer_elements = feed_forward.optimizer_elements + c.d_model,
                     .kept = feed_forward.activations,
                     .transient = 2 * length * c.d_ff,
                     .block = 0};
  int64_t consumed = feed_forward.activations;  // by the gradients of the parts behind: backward order
  for (const auto& [attention, memory] : attentions) {
    const AttentionCost cost = CostOf(*attention, length, memory);
    block.parameters += cost.parameters + c.d_model;
    block.multiplications += cost.multiplications;
    block.optimizer_elements += AttentionOptimizerElements(*attention) + c.d_model;
    const int64_t kept = AttentionActivations(*attention, length, memory);
    block.kept += kept;
    block.transient = std::max(block.transient, AttentionTransient(*attention, length, memory) - consumed);
    consumed += kept;
  }
  // Recomputing, the input of each block stays, and one block at a time is whole.
  const bool recompute = activations == Activations::kRecompute;
  const int64_t relative_bias = c.relative_buckets * (attentions.end() - 1)->first->h;
  return {.parameters = layers * block.parameters + relative_bias + c.d_model,
          .multiplications = layers * block.multiplications,
          .optimizer_elements = layers * block.optimizer_elements + relative_bias + c.d_model,
          .kept = layers * (recompute ? length * c.d_model : block.kept) + 3 * length * c.d_model,
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
  const StackCost encoder = CostOfStack(c, c.encoder_layers, n, activations, {{&c.encoder_self, n}});
  const StackCost decoder =
      CostOfStack(c, c.decoder_layers, m, activations, {{&c.encoder_decoder, n}, {&c.decoder_self, m}});

  T5Cost cost;
  cost.parameters = tables * table + encoder.parameters + decoder.parameters;
  cost.forward_multiplications = batch * (encoder.multiplications + decoder.multiplications + m * table);
  cost.step_multiplications = (activations == Activations::kRecompute ? 4 : 3) * cost.forward_multiplications;
  cost.parameter_bytes = 2 * kFloatBytes * cost.parameters;
  cost.optimizer_bytes =
      kFloatBytes * (tables * AdafactorElements(classes, d) + encoder.optimizer_elements + decoder.optimizer_elements);

  // Elements beside the parameters, at the moments that can be the peak. Gradients come as activations go.
  const int64_t kept = batch * (encoder.kept + decoder.kept);
  const int64_t decoder_gradients = decoder.parameters + table;
  const int64_t peak = std::max({
      // the gradient of the loss; of the decoder's last block, of its first; of the encoder's last block, of its first
      kept + table + LossRows(batch * m, classes) * classes + batch * m * d,
      kept + table + batch * decoder.transient,
      batch * (encoder.kept + decoder.block) + decoder_gradients,
      batch * encoder.kept + decoder_gradients + std::max(table, batch * encoder.transient),
      batch * encoder.block + cost.parameters,
      // of the embedding, last
      cost.parameters + table + batch * n * d,
  });
  cost.activation_bytes = kFloatBytes * std::max<int64_t>(peak - cost.parameters, 0);
  return cost;
}

}  // namespace crosstalk
