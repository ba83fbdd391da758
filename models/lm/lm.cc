#include "crosstalk/models/lm/lm.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// A language model as a decoder: it goes on with what it is given.
namespace {

class LmDecoder : public Decoder {
 public:
  LmDecoder(const Lm& model, const DecoderOptions& options) : model_(model), options_(options) {}

  const ModelConfig& config() const override { return model_.config(); }
  // There is nothing between the texts of a batch and their continuations: only equal lengths go together.
  int64_t PaddedLength(int64_t n) const override { return n; }

  // The model sees the last `context` tokens of a longer text.
  Tensor Start(const Tensor& inputs, const Tensor& mask) override {
    const bool* const read = mask.data<bool>();
    const bool* const end = read + mask.num_elements();
    CROSSTALK_CHECK_FIELD(std::find(read, end, false) == end, "attention_mask",
                          "hides a token inside a text, which a language model cannot leave out");
    inputs_ = inputs.size(0);
    texts_.clear();
    for (int64_t row = 0; row < inputs_; ++row) texts_.push_back(inputs.Select(0, row).ToVector<int32_t>());
    return Read(model_.config().context);
  }

  // The model sees at most `context` tokens. When they are used up, it begins again with the last half of them.
  Tensor Step(const Tensor& tokens) override {
    for (size_t row = 0; row < texts_.size(); ++row) texts_[row].push_back(tokens.data<int32_t>()[row]);
    if (cache_.length == model_.config().context) return Read((model_.config().context + 1) / 2);
    return model_.DecodeStep(tokens.Reshape({tokens.size(0), 1}), cache_);
  }

  void SelectBeams(const std::vector<int64_t>& rows) override {
    cache_.SelectBeams(rows);
    std::vector<std::vector<int32_t>> texts;
    for (const int64_t row : rows) texts.push_back(texts_[static_cast<size_t>(row)]);
    texts_ = std::move(texts);
  }

  void SelectInputs(const std::vector<int64_t>& inputs) override {
    const int64_t beams = static_cast<int64_t>(texts_.size()) / inputs_;
    std::vector<int64_t> rows;
    for (const int64_t input : inputs) {
      for (int64_t beam = 0; beam < beams; ++beam) rows.push_back(input * beams + beam);
    }
    SelectBeams(rows);
    inputs_ = static_cast<int64_t>(inputs.size());
  }

 private:
  // Begins with the last `most` tokens of each text → the logits of what follows.
  Tensor Read(int64_t most) {
    const int64_t count = std::min(most, static_cast<int64_t>(texts_[0].size()));
    std::vector<int32_t> last;
    for (const std::vector<int32_t>& text : texts_) last.insert(last.end(), text.end() - count, text.end());
    cache_ = model_.StartDecoding();
    cache_.mixings = options_.mixings;
    return model_.DecodeStep(Tensor::FromValues<int32_t>({static_cast<int64_t>(texts_.size()), count}, last), cache_);
  }

  const Lm& model_;
  DecoderOptions options_;
  TransformerCache cache_;
  std::vector<std::vector<int32_t>> texts_;  // of each row: read and written
  int64_t inputs_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> Lm::MakeDecoder(const DecoderOptions& options) const {
  return std::make_unique<LmDecoder>(*this, options);
}

const FieldTable<ModelConfig>& LmFields() {
  using Config = ModelConfig;
  static const FieldTable<Config> table =
      Joined<Config>({{"layers", &Config::layers},
                      {"context", &Config::context},
                      {"attention", &Config::decoder_self},
                      {"layer_attention", &Config::decoder_self_layers, {.only_if_set = true}},
                      {"positions", &Config::positions},
                      {"norm", &Config::norm, {.only_if_set = true}},
                      {"feed_forward_biases", &Config::feed_forward_biases, {.only_if_set = true}},
                      {"ends_texts", &Config::ends_texts, {.only_if_set = true}},
                      {"answers", &Config::answers, {.only_if_set = true}},
                      {"learns_padding", &Config::learns_padding, {.only_if_set = true}},
                      {"logit_scale", &Config::logit_scale, {.only_if_set = true}}},
                     ModelConfigFields());
  return table;
}

void ValidateLm(const ModelConfig& config) {
  config.Check({});
  CheckLayers("layers", config.layers);
  CROSSTALK_CHECK_FIELD(config.context >= 1, "context", config.context, " is less than 1");
  CROSSTALK_CHECK_FIELD(config.learns_padding || config.tokens.pad != kNoToken, "learns_padding",
                        "is false, but there is no padding");
  config.relative_bias().Validate(RelativeDirection::kUnidirectional);
  CheckModelAttention("attention", config.decoder_self, config.d_model, Causality::kCausal);
  CheckLayerAttention("layer_attention", config.decoder_self_layers, config.layers, config.d_model, Causality::kCausal);
}

void MakeLmLayers(ModelConfig& config) {
  config.decoder_self = MakeAttentionLayer(config);
  config.decoder_self_layers = MakeAttentionLayers(config, config.layers);
  MakeCausal(config, config.decoder_self);
  for (AttentionConfig& layer : config.decoder_self_layers) MakeCausal(config, layer);
}

namespace {

constexpr double kEmbeddingStddev = 1.0;
constexpr double kPositionsStddev = 1.0;

TransformerConfig LmStack(const ModelConfig& config) {
  TransformerConfig stack = config.PreNormStack(config.layers, config.decoder_self);
  stack.positions = config.positions;
  stack.block_attention = config.decoder_self_layers;
  return stack;
}

}  // namespace

Lm::Lm(const ModelConfig& config, const Initializer& init)
    : Model(init),
      config_(Validated(config)),
      embedding_(this, "embedding", VocabularySize{config.vocabulary}, config.d_model,
                 InitialValues::Normal(kEmbeddingStddev),
                 config.learns_padding ? std::nullopt : std::optional(config.tokens.pad)) {
  if (config.positions == PositionScheme::kLearned) {
    positions_ = {this, "positions", config.context, config.d_model, kPositionsStddev};
  }
  decoder_ = {this, "decoder", LmStack(config)};
  classifier_ = {this,
                 "classifier",
                 config.classifier,
                 config.vocabulary,
                 embedding_,
                 ClassifierForm{.scale = config.logit_scale}};
}

std::vector<AttentionPlace> Lm::AttentionPlaces() const {
  return PlacesOf("self-attention", config_.decoder_self, config_.decoder_self_layers);
}

std::string Lm::Describe() const { return StrCat("language model, ", config_.layers, " layers"); }

Variable Lm::Embed(const Tensor& ids, int64_t first, const Tensor& positions) const {
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32 && ids.rank() == 2 && ids.size(1) >= 1,
                  "language model: tokens must be int32[b, n] with n ≥ 1");
  const int64_t n = ids.size(1);
  CROSSTALK_CHECK(first + n <= config_.context, "language model: ", first + n, " tokens are more than its context of ",
                  config_.context);
  const Variable embedded = embedding_->Forward(ids);
  if (!positions_) return embedded;
  return Add(embedded, positions.defined() ? positions_->Forward(positions) : positions_->Forward(n, first));
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
  const bool at_positions = batch.Has("target_positions");
  const Shape& shape = (at_positions ? batch.Get("target_positions") : inputs).shape();
  CROSSTALK_CHECK(targets.shape() == shape && targets.dtype() == DType::kInt32, "language model: targets ",
                  targets.dtype(), targets.shape(), " must be int32", shape);
  Variable hidden = Forward(inputs, context);
  if (at_positions) hidden = AtPositions(hidden, batch.Get("target_positions"), "target_positions");
  // A published model may pad with the token that ends its texts, which is a target.
  const int32_t pad = config_.EndsText(config_.tokens.pad) ? kNoToken : config_.tokens.pad;
  const CrossEntropyResult result = classifier_->Loss(
      hidden, targets,
      {.ignore_index = pad, .also_ignored = kNoToken, .z_loss = context.training() ? options.z_loss : 0});
  return {.sum = result.loss, .sums = {{"ln_ppl", result.nll_sum, result.count}}};
}

Tensor Lm::DecodeStep(const Tensor& tokens, TransformerCache& cache) const {
  const ContextScope products = InPrecision(), no_grad = NoGrad();
  const Tensor hidden = decoder_->Step(Embed(tokens, cache.length), cache).value();
  const int64_t n = hidden.size(1);
  return Logits(Variable(hidden.Select(1, n - 1).Contiguous())).value();
}

namespace {

// Attention that reads positions as differences has those of its own counting, from wherever a row's text begins.
void CheckCountOn(const Tensor& positions, const Tensor& mask) {
  const int64_t n = positions.size(1);
  for (int64_t row = 0; row < positions.size(0); ++row) {
    const int32_t* const of_row = positions.data<int32_t>() + row * n;
    std::optional<int64_t> before;
    for (int64_t i = 0; i < n; ++i) {
      if (mask.defined() && !mask.data<bool>()[row * n + i]) continue;
      CROSSTALK_CHECK(!before || of_row[i] - of_row[*before] == i - *before, "position_ids: ", of_row[i], " at place ",
                      i, " of row ", row, ": the positions of this model count on by one from token to token");
      before = i;
    }
  }
}

}  // namespace

std::vector<NamedVariable> Lm::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                              const ForwardContext& context) const {
  CheckInputNames(inputs, {"input_ids", "attention_mask", "position_ids", "labels"});
  const Tensor ids = RequiredInputIds(inputs, 2, config_.vocabulary);
  const int64_t n = ids.size(1);
  CROSSTALK_CHECK(n <= config_.context, "input_ids: ", ids.shape(), " are ", n, " tokens, more than the model's ",
                  config_.context);
  const Tensor labels = InputLabels(inputs, "labels", 2, config_.vocabulary);
  CROSSTALK_CHECK(!labels.defined() || (labels.shape() == ids.shape() && n >= 2), "labels: ", labels.shape(),
                  " must be as input_ids", ids.shape(), ", of two tokens or more");

  const Tensor mask = InputMask(inputs, "attention_mask", ids.shape());
  const Tensor positions = InputIds(inputs, "position_ids", 2, {0, config_.context - 1});
  CROSSTALK_CHECK(!positions.defined() || positions.shape() == ids.shape(), "position_ids: ", positions.shape(),
                  " must be as input_ids", ids.shape());
  if (positions.defined() && !positions_) CheckCountOn(positions, mask);

  TransformerRecord record;
  const bool all = detail == OutputDetail::kAll;
  Variable hidden;
  {
    const ContextScope scope = InLayer("decoder");
    hidden = decoder_->Forward(Embed(ids, 0, positions), mask, {}, context, all ? &record : nullptr);
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
