#include "crosstalk/nn/layers.h"

#include <cmath>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

Variable ApplyWeight(const Variable& x, const Variable& weight, const Variable& bias) {
  CROSSTALK_CHECK(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(0),
                  "linear: x[…, d_in] = ", x.shape(), " does not fit weight[d_in, d_out] = ", weight.shape());
  if (x.rank() == 1) return Reshape(ApplyWeight(Reshape(x, {1, x.size(0)}), weight, bias), {weight.size(1)});
  return bias.defined() ? MatMulAdd(x, weight, bias) : MatMul(x, weight);
}

Linear::Linear(int64_t d_in, int64_t d_out, LinearBias bias, const Initializer& init)
    : Linear(d_in, d_out, bias, 1.0 / std::sqrt(static_cast<double>(d_in)), init) {}

Linear::Linear(int64_t d_in, int64_t d_out, LinearBias bias, double stddev, const Initializer& init) : Module(init) {
  CROSSTALK_CHECK(d_in > 0 && d_out > 0, "linear: d_in = ", d_in, " and d_out = ", d_out, " must be positive");
  weight_ = AddWeight("weight", {d_in, d_out}, InitialValues::TruncatedNormal(stddev));
  if (bias == LinearBias::kYes) bias_ = AddParameter("bias", {d_out}, InitialValues::Zeros());
}

Variable Linear::Forward(const Variable& x) const { return ApplyWeight(x, weight_, bias_); }

NormLayer::NormLayer(int64_t d, const NormConfig& config, const Initializer& init)
    : Module(init), config_(config), scale_(AddParameter("scale", {d}, InitialValues::Ones())) {
  CROSSTALK_CHECK(config.epsilon > 0, "norm: epsilon = ", config.epsilon, " must be positive");
  if (config.kind == NormKind::kLayer) bias_ = AddParameter("bias", {d}, InitialValues::Zeros());
}

Variable NormLayer::Forward(const Variable& x) const {
  return config_.kind == NormKind::kRms ? RmsNorm(x, scale_, config_.epsilon)
                                        : LayerNorm(x, scale_, bias_, config_.epsilon);
}

Variable ApplyDropout(const Variable& x, double rate, std::string_view site, const ForwardContext& context) {
  if (!context.training() || rate == 0.0) return x;
  return Dropout(x, rate, context.DropoutKey(site));
}

EmbeddingLayer::EmbeddingLayer(int64_t rows, int64_t d, double stddev, const Initializer& init)
    : EmbeddingLayer(rows, d, InitialValues::Normal(stddev), std::nullopt, init) {}

EmbeddingLayer::EmbeddingLayer(int64_t rows, int64_t d, const InitialValues& values, std::optional<int32_t> padding_idx,
                               const Initializer& init)
    : Module(init), padding_idx_(padding_idx), vocabulary_(rows) {
  CROSSTALK_CHECK(rows > 0 && d > 0, "embedding: rows = ", rows, " and d = ", d, " must be positive");
  table_ = AddParameter("table", {rows, d}, values);
}

EmbeddingLayer::EmbeddingLayer(VocabularySize vocabulary, int64_t d, const InitialValues& values,
                               std::optional<int32_t> padding_idx, const Initializer& init)
    : EmbeddingLayer(vocabulary.rows(), d, values, padding_idx, init) {
  vocabulary_ = vocabulary.size;
}

Variable EmbeddingLayer::Forward(const Tensor& ids) const { return Embedding(table_, ids, padding_idx_, vocabulary_); }

LearnedPositions::LearnedPositions(int64_t max_length, int64_t d, double stddev, const Initializer& init)
    : LearnedPositions(max_length, d, InitialValues::Normal(stddev), init) {}

LearnedPositions::LearnedPositions(int64_t max_length, int64_t d, const InitialValues& values, const Initializer& init)
    : Module(init) {
  CROSSTALK_CHECK(max_length > 0 && d > 0, "learned positions: max_length = ", max_length, " and d = ", d,
                  " must be positive");
  table_ = AddParameter("table", {max_length, d}, values);
}

Variable LearnedPositions::Forward(int64_t n, int64_t first) const {
  CROSSTALK_CHECK(n >= 0 && first >= 0 && first + n <= table_.size(0), "learned positions: ", first, " … ",
                  first + n - 1, " are not all in [0, ", table_.size(0), ")");
  return Slice(table_, 0, first, first + n);
}

namespace {

InitialValues Weights(double stddev, int64_t fan_in) {
  return InitialValues::TruncatedNormal(stddev > 0 ? stddev : 1.0 / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace

FeedForward::FeedForward(const FeedForwardConfig& config, const Initializer& init) : Module(init), config_(config) {
  CROSSTALK_CHECK(config.d_model > 0 && config.d_ff > 0, "feed-forward: d_model = ", config.d_model,
                  " and d_ff = ", config.d_ff, " must be positive");
  const InitialValues in = Weights(config.stddev, config.d_model), out = Weights(config.stddev, config.d_ff);
  if (gated()) wi_gate_ = AddWeight("wi_0", {config.d_model, config.d_ff}, in);
  wi_ = AddWeight(gated() ? "wi_1" : "wi", {config.d_model, config.d_ff}, in);
  wo_ = AddWeight("wo", {config.d_ff, config.d_model}, out);
  if (config.bias == LinearBias::kNo) return;
  if (gated()) wi_gate_bias_ = AddParameter("wi_0_bias", {config.d_ff}, InitialValues::Zeros());
  wi_bias_ = AddParameter(gated() ? "wi_1_bias" : "wi_bias", {config.d_ff}, InitialValues::Zeros());
  wo_bias_ = AddParameter("wo_bias", {config.d_model}, InitialValues::Zeros());
}

Variable Activate(FeedForwardKind kind, const Variable& x) {
  switch (kind) {
    case FeedForwardKind::kRelu:
      return Relu(x);
    case FeedForwardKind::kGelu:
      return Gelu(x);
    case FeedForwardKind::kGeluTanh:
      return GeluTanh(x);
    case FeedForwardKind::kGatedGelu:
    case FeedForwardKind::kSwiGlu:
      break;
  }
  Fail(ErrorKind::kUsage, "feed-forward: ", Name(kind), " is not an activation without a gate");
}

Variable FeedForward::Hidden(const Variable& x) const {
  if (!gated()) return Activate(config_.kind, ApplyWeight(x, wi_, wi_bias_));
  const Variable gate = ApplyWeight(x, wi_gate_, wi_gate_bias_), inner = ApplyWeight(x, wi_, wi_bias_);
  return config_.kind == FeedForwardKind::kSwiGlu ? Mul(Mul(gate, Sigmoid(gate)), inner) : GatedGelu(gate, inner);
}

Variable FeedForward::Forward(const Variable& x, const ForwardContext& context) const {
  const Variable hidden = ApplyDropout(Hidden(x), config_.dropout_rate, path() + ".hidden_dropout", context);
  return ApplyWeight(AsOperand(hidden), wo_, wo_bias_);
}

Classifier::Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding,
                       const Initializer& init)
    : Classifier(kind, classes, embedding, ClassifierForm(), init) {}

Classifier::Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding,
                       const ClassifierForm& form, const Initializer& init)
    : Module(init), classes_(classes), scale_(1.0), table_(embedding->table()), bias_(form.bias) {
  const int64_t rows = table_.size(0), d = table_.size(1);
  CROSSTALK_CHECK(classes >= 1 && classes <= rows, "classifier: ", classes, " classes of a table of ", rows, " rows");
  CROSSTALK_CHECK(!bias_.defined() || bias_.shape() == Shape({classes}), "classifier: bias", bias_.shape(),
                  " must have an element for each of ", classes, " classes");
  const double root = 1.0 / std::sqrt(static_cast<double>(d));
  const bool tied = kind == ClassifierKind::kTied;
  if (form.scale == LogitScale::kAlways || (form.scale == LogitScale::kIfTied && tied)) scale_ = root;
  if (!tied) {
    table_ = AddWeight("table", {rows, d}, InitialValues::Normal(root));
  }
}

void Classifier::RoundWeights() {
  Module::RoundWeights();
  if (table_.dtype() == DType::kFloat32) rounded_table_ = Variable(Rounded(table_.value()));
}

Variable Classifier::Logits(const Variable& hidden) const {
  CROSSTALK_CHECK(hidden.rank() >= 1 && hidden.size(hidden.rank() - 1) == table_.size(1), "classifier: hidden",
                  hidden.shape(), " must end with d = ", table_.size(1));
  const ContextScope scope = InLayer("classifier");
  Shape shape = hidden.shape();
  const int64_t d = shape[shape.rank() - 1];
  const Variable rows = Reshape(hidden, {d == 0 ? 0 : hidden.value().num_elements() / d, d});
  const Variable table = Slice(weight(), 0, 0, classes_);  // the rows beyond are no classes
  const Variable logits = MatMul(Scale(rows, scale_), table, kernels::Transpose::kNo, kernels::Transpose::kYes);
  shape[shape.rank() - 1] = classes_;
  return Reshape(bias_.defined() ? Add(logits, bias_) : logits, shape);
}

CrossEntropyResult Classifier::Loss(const Variable& hidden, const Tensor& targets, CrossEntropyOptions options) const {
  const ContextScope scope = InLayer("classifier");
  const int64_t rows = targets.num_elements();
  options.num_classes = classes_;
  return LinearCrossEntropy(Reshape(hidden, {rows, table_.size(1)}), weight(), targets.Reshape({rows}), scale_, options,
                            bias_);
}

}  // namespace crosstalk
