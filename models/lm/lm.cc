#include "crosstalk/models/lm/lm.h"

#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/published_inputs.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

constexpr double kEmbeddingStddev = 1.0;
constexpr double kPositionsStddev = 1.0;

TransformerConfig DecoderConfig(const LmConfig& config) {
  TransformerConfig stack = config.PreNormStack(config.layers, config.attention);
  stack.positions = config.positions;
  stack.block_attention = config.layer_attention;
  return stack;
}

const LmConfig& Validated(const LmConfig& config) {
  config.Validate();
  return config;
}

}  // namespace

Lm::Lm(const LmConfig& config, const Initializer& init)
    : Model(init),
      config_(Validated(config)),
      embedding_(this, "embedding", PaddedVocabulary(config.vocabulary), config.d_model, kEmbeddingStddev) {
  if (config.positions == PositionScheme::kLearned) {
    positions_ = {this, "positions", config.context, config.d_model, kPositionsStddev};
  }
  decoder_ = {this, "decoder", DecoderConfig(config)};
  classifier_ = {this, "classifier", config.classifier, config.vocabulary, embedding_};
}

std::vector<AttentionPlace> Lm::AttentionPlaces() const {
  return PlacesOf("self-attention", config_.attention, config_.layer_attention);
}

std::string Lm::Describe() const { return StrCat("language model, ", config_.layers, " layers"); }

Variable Lm::Embed(const Tensor& ids, int64_t first) const {
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32 && ids.rank() == 2 && ids.size(1) >= 1,
                  "language model: tokens must be int32[b, n] with n ≥ 1");
  const int64_t n = ids.size(1);
  CROSSTALK_CHECK(first + n <= config_.context, "language model: ", first + n, " tokens are more than its context of ",
                  config_.context);
  const Variable embedded = embedding_->Forward(ids);
  return positions_ ? Add(embedded, positions_->Forward(n, first)) : embedded;
}

Variable Lm::Forward(const Tensor& inputs, const ForwardContext& context) const {
  const ContextScope products = InPrecision(), scope = InLayer("decoder");
  return decoder_->Forward(Embed(inputs, 0), {}, {}, context);
}

Variable Lm::Logits(const Variable& hidden) const {
  const ContextScope products = InPrecision();
  return classifier_->Logits(hidden);
}

LossResult Lm::ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  const Tensor& inputs = batch.Get("inputs");
  const Tensor& targets = batch.Get("targets");
  CROSSTALK_CHECK(targets.shape() == inputs.shape() && targets.dtype() == DType::kInt32, "language model: targets ",
                  targets.dtype(), targets.shape(), " must be int32", inputs.shape());
  const CrossEntropyResult result =
      classifier_->Loss(Forward(inputs, context), targets,
                        {.ignore_index = config_.tokens.pad, .z_loss = context.training() ? options.z_loss : 0});
  return {.sum = result.loss, .sums = {{"ln_ppl", result.nll_sum, result.count}}};
}

Tensor Lm::DecodeStep(const Tensor& tokens, TransformerCache& cache) const {
  const ContextScope products = InPrecision(), no_grad = NoGrad();
  const Tensor hidden = decoder_->Step(Embed(tokens, cache.length), cache).value();
  const int64_t n = hidden.size(1);
  return Logits(Variable(hidden.Select(1, n - 1).Contiguous())).value();
}

std::vector<NamedVariable> Lm::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                              const ForwardContext& context) const {
  CheckInputNames(inputs, {"input_ids", "attention_mask", "labels"});
  const Tensor ids = RequiredInputIds(inputs, 2, config_.vocabulary);
  const int64_t n = ids.size(1);
  CROSSTALK_CHECK(n <= config_.context, "input_ids: ", ids.shape(), " are ", n, " tokens, more than the model's ",
                  config_.context);
  const Tensor labels = InputLabels(inputs, "labels", 2, config_.vocabulary);
  CROSSTALK_CHECK(!labels.defined() || (labels.shape() == ids.shape() && n >= 2), "labels: ", labels.shape(),
                  " must be as input_ids", ids.shape(), ", of two tokens or more");

  TransformerRecord record;
  const bool all = detail == OutputDetail::kAll;
  Variable hidden;
  {
    const ContextScope scope = InLayer("decoder");
    hidden = decoder_->Forward(Embed(ids, 0), InputMask(inputs, "attention_mask", ids.shape()), {}, context,
                               all ? &record : nullptr);
  }
  const Variable logits = classifier_->Logits(hidden);
  std::vector<NamedVariable> outputs = {{"logits", logits}, {"last_hidden_state", hidden}};
  if (labels.defined()) {
    const Variable asked = Slice(logits, 1, 0, n - 1);
    outputs.push_back({"loss", MeanCrossEntropy(asked, labels.Slice(1, 1, n).Contiguous(), "labels")});
  }
  AddRecord(record, "", outputs);
  return outputs;
}

}  // namespace crosstalk
