#include "crosstalk/models/model.h"

#include <algorithm>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

Variable LossResult::Scaled(const LossScales& scales) const {
  const Variable targets = Scale(sum, scales.targets);
  return example_sum.defined() ? Add(targets, Scale(example_sum, scales.examples)) : targets;
}

double LossResult::ScaledValue(const LossScales& scales) const {
  const double examples = example_sum.defined() ? example_sum.value().Item() * scales.examples : 0;
  return sum.value().Item() * scales.targets + examples;
}

LossResult Model::Loss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  const ContextScope products = InPrecision();
  return ComputeLoss(batch, options, context);
}

std::vector<NamedVariable> Model::Outputs(const Batch& inputs, OutputDetail detail,
                                          const ForwardContext& context) const {
  const ContextScope products = InPrecision();
  return ComputeOutputs(inputs, detail, context);
}

std::vector<NamedVariable> Model::ComputeOutputs(const Batch&, OutputDetail, const ForwardContext&) const {
  Fail(ErrorKind::kUsage, Describe(), " has no outputs with published names");
}

Batch Model::TextInputs(const std::shared_ptr<const Tokenizer>&, const InspectedText&) const {
  Fail(ErrorKind::kUsage, Describe(), ", has no way to read a text to look into");
}

HeadLogits Model::AnswerByHeads(const Tensor&, const Tensor&) const { return {}; }

void CheckModelAttention(const char* place, const AttentionConfig& attention, int64_t d_model, Causality causality) {
  try {
    attention.Validate();
  } catch (const Error& error) {
    FailField(ErrorKind::kUsage, place, error.what());
  }
  CROSSTALK_CHECK_FIELD(attention.d_X == d_model && attention.d_M == d_model && attention.d_Y == d_model, place,
                        "has d_X = ", attention.d_X, ", d_M = ", attention.d_M, ", d_Y = ", attention.d_Y,
                        ", but all must be ", FieldName{"d_model"}, " = ", d_model);
  CROSSTALK_CHECK_FIELD(attention.causality == causality, place, "must ", causality == Causality::kCausal ? "" : "not ",
                        "be causal");
}

void CheckLayerAttention(const char* place, const std::vector<AttentionConfig>& attention, int64_t layers,
                         int64_t d_model, Causality causality) {
  CROSSTALK_CHECK_FIELD(attention.empty() || std::ssize(attention) == layers, place, attention.size(),
                        " are not one for each of the ", layers, " layers");
  for (const AttentionConfig& layer : attention) CheckModelAttention(place, layer, d_model, causality);
}

std::vector<AttentionPlace> PlacesOf(const char* place, const AttentionConfig& of_all,
                                     const std::vector<AttentionConfig>& of_each) {
  if (of_each.empty()) return {{place, of_all}};
  std::vector<AttentionPlace> places;
  for (size_t i = 0; i < of_each.size(); ++i) places.push_back({StrCat(place, " of layer ", i), of_each[i]});
  return places;
}

void Model::SetPrecision(Precision precision) {
  CROSSTALK_CHECK_FIELD(precision == Precision::kFloat32 || dtype() == DType::kFloat32, "precision", Name(precision),
                        " rounds the operands of float32, and the model computes in ", dtype());
  precision_ = precision;
}

std::string AttentionText(const Model& model) {
  const std::vector<AttentionPlace> places = model.AttentionPlaces();
  const std::string first = ToString(places[0].config);
  const auto others = std::count_if(places.begin(), places.end(),
                                    [&](const AttentionPlace& place) { return ToString(place.config) != first; });
  return others == 0 ? first : StrCat(first, " (another in ", others, " of ", places.size(), " places)");
}

std::string AttentionImplementationText(const Model& model) {
  bool fused = false, composed = false;
  for (const AttentionPlace& place : model.AttentionPlaces()) {
    const AttentionImplementation implementation =
        ImplementationFor(place.config, model.dtype(), AttentionOutputs::kOutputOnly);
    (implementation == AttentionImplementation::kFused ? fused : composed) = true;
  }
  if (fused && composed) return "fused and composed";
  return composed ? "composed" : "fused";
}

}  // namespace crosstalk
