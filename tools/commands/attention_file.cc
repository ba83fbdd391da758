#include "tools/commands/attention_file.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

std::vector<std::string> KnownNames() {
  std::vector<std::string> names = {"X", "M"};
  for (const AttentionProjection& projection : kAttentionProjections) names.emplace_back(projection.name());
  names.insert(names.end(), {"mask", "bias", "dY"});
  return names;
}

bool IsKnown(const std::string& name) {
  const std::vector<std::string> names = KnownNames();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// P_q, P_k, P_v, P_o (or P, Q): what a file of that form must have, as it has no way to say V = K.
bool IsRequired(const AttentionProjection& projection) {
  return projection.condition == ProjectionCondition::kAlways || projection.condition == ProjectionCondition::kUntied;
}

bool IsBias(const AttentionProjection& projection) {
  return projection.condition == ProjectionCondition::kBiases ||
         projection.condition == ProjectionCondition::kBiasesUntied;
}

void CheckTensors(const TensorFile& file) {
  for (const NamedTensor& entry : file.tensors) {
    const Tensor& tensor = entry.tensor;
    const auto fail = [&](const auto&... why) {
      Fail(ErrorKind::kData, file.path, ": tensor '", entry.name, "' (", tensor.dtype(), tensor.shape(), ") ", why...);
    };
    if (!IsKnown(entry.name)) fail("is not part of an attention layer; known are ", Join(KnownNames(), ", "));
    if (entry.name == "mask") {
      if (tensor.dtype() != DType::kBool) fail("must be BOOL, true where a query may attend");
    } else if (!IsFloating(tensor.dtype())) {
      fail("must be F32 or F64");
    }
    if (tensor.num_elements() == 0) fail("has an empty dimension");
  }
}

// The layer's configuration from the file's tensors: the kind, then every size.
class FileLayout {
 public:
  // Lays out a layer as `given`, except as the tensors say.
  FileLayout(const TensorFile& file, const AttentionConfig& given) : config(given), file_(file), dims_("attention") {
    ChooseForm();
    ChooseOptions();
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (projection.mixing != nullptr) config.mixing.*projection.mixing = Has(projection.name());
      if (IsBias(projection)) config.projection_biases |= Has(projection.name());
    }
    if (config.projection_biases) config.output_bias = Has("b_o");
    RequireBiases();
    try {
      BindSizes();
      config.Validate();
    } catch (const Error& error) {
      Fail(ErrorKind::kData, file.path, ": ", error.what());
    }
  }

  AttentionConfig config;

 private:
  bool Has(std::string_view name) const { return file_.Find(name) != nullptr; }

  void Require(std::string_view name, std::string_view bracket, std::string_view why) const {
    if (!Has(name)) Fail(ErrorKind::kData, file_.path, ": there is no tensor '", name, "' (", bracket, "): ", why);
  }

  bool HasAnyOf(AttentionForm form) const {
    return std::any_of(kAttentionProjections.begin(), kAttentionProjections.end(), [&](const auto& projection) {
      return projection.form == form && IsRequired(projection) && Has(projection.name());
    });
  }

  void RequireAllOf(AttentionForm form, std::string_view why) const {
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (projection.form == form && IsRequired(projection)) Require(projection.name(), projection.paper, why);
    }
  }

  // Error where a projection of another form is there.
  void RefuseOthers(std::string_view why) const {
    for (const AttentionProjection& projection : kAttentionProjections) {
      const Tensor* const tensor = file_.Find(projection.name());
      if (projection.form == config.form || tensor == nullptr) continue;
      Fail(ErrorKind::kData, file_.path, ": tensor '", projection.name(), "' (", tensor->dtype(), tensor->shape(), ") ",
           why);
    }
  }

  void ChooseForm() {
    Require("X", "X[b, n, d_X]", "it holds the queries");
    if (HasAnyOf(AttentionForm::kBilinear)) {
      config.form = AttentionForm::kBilinear;
      RequireAllOf(config.form, "a bilinear layer has both P and Q");
      RefuseOthers("cannot stand beside P and Q, which make a bilinear layer");
    } else if (HasAnyOf(AttentionForm::kProjected)) {
      config.form = AttentionForm::kProjected;
      RequireAllOf(config.form, "a layer with projections has all of P_q, P_k, P_v and P_o");
    } else {
      config.form = AttentionForm::kDotProduct;
      RefuseOthers("needs P_q, P_k, P_v and P_o beside it");
    }
  }

  // The defaults for tensors without options.
  void ChooseOptions() {
    if (Has("dw1")) config.dynamic_form = DynamicForm::kLowRank;
    if (Has("lambda_q1")) config.differential = Differential::kV1;
    if (Has("P_lambda")) config.differential = Differential::kV2;
    if (Has("norm_gain")) config.head_norm = HeadNorm::kRmsGain;
    config.query_key_norm = Has("q_norm");
    if (Has("gate")) {
      const Tensor& gate = file_.At("gate");
      config.head_gate = gate.rank() == 2 && gate.size(1) == 1 ? HeadGate::kScalar : HeadGate::kElement;
    }
    for (const char* filter : {"conv_l", "conv_w"}) {
      if (!Has(filter)) continue;
      const Tensor& values = file_.At(filter);
      if (values.rank() != 3) {
        Fail(ErrorKind::kData, file_.path, ": tensor '", filter, "' (", values.dtype(), values.shape(),
             ") must be [queries, keys, heads]");
      }
      const bool logits = filter == std::string_view("conv_l");
      (logits ? config.c_ql : config.c_qw) = values.size(0);
      (logits ? config.c_kl : config.c_kw) = values.size(1);
    }
  }

  void RequireBiases() const {
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (IsBias(projection) && config.projection_biases && (projection.name() != "b_o" || config.output_bias)) {
        Require(projection.name(), projection.paper, "a layer with biases has all of b_q, b_k and b_v");
      }
    }
  }

  void Bind(std::string_view bracket) {
    const Tensor* tensor = file_.Find(ParseBracket(bracket).tensor);
    if (tensor != nullptr) dims_.Bind(bracket, tensor->shape());
  }

  std::string ShapeOf(std::string_view bracket) const {
    return StrCat(bracket, " = ", file_.At(ParseBracket(bracket).tensor).shape());
  }

  void BindSizes() {
    Bind("X[b, n, d_X]");
    if (Has("M")) {
      Bind("M[b, m, d_M]");
    } else {
      dims_.Bind("X[b, m, d_M]", file_.At("X").shape());
    }
    switch (config.form) {
      case AttentionForm::kDotProduct: {
        const std::string_view without = " where nothing projects X and M";
        dims_.Set("d_M", dims_["d_X"], StrCat(ShapeOf("X[b, n, d_M]"), without));
        dims_.Set("d_Y", dims_["d_X"], StrCat(ShapeOf("X[b, n, d_Y]"), without));
        dims_.Set("h", 1, "attention without projections");
        break;
      }
      case AttentionForm::kBilinear:
        BindAll(HeadsBetween::kNone);
        break;
      case AttentionForm::kProjected:
        BindProjections();
        break;
    }
    Bind("mask[b, n, m]");
    Bind("bias[h, n, m]");
    Bind("dY[b, n, d_Y]");

    for (const AttentionDim& dim : kAttentionDims) {
      if (dims_.Has(dim.name)) config.*dim.size = dims_[dim.name];
    }
    for (const OptionalAttentionDim& dim : kOptionalAttentionDims) {
      if (dim.set != nullptr && dims_.Has(dim.name)) config.*dim.set = dims_[dim.name];
    }
    RequireShared("P_k[d_M, d_k, g_k]", config.g_k, "h_k", config.h_k);
    RequireShared("P_v[d_M, d_v, g_v]", config.g_v, "h_v", config.h_v);
    if (config.g_k == config.h_k) config.g_k = 0;
    if (config.g_v == config.h_v) config.g_v = 0;
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (IsPresent(projection, config)) Require(projection.name(), projection.paper, "others beside it ask for it");
    }
  }

  // That so many heads can share those of a projection.
  void RequireShared(std::string_view bracket, int64_t shared, const char* heads_name, int64_t heads) const {
    if (shared == 0 || heads % shared == 0) return;
    Fail(ErrorKind::kUsage, "attention: ", ShapeOf(bracket), " has ", shared, " heads, which ", heads_name, "=", heads,
         " cannot share: they must divide it");
  }

  void BindAll(HeadsBetween between) {
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (projection.between == between) Bind(projection.paper);
    }
  }

  // Where no head projection stands between them, one number of heads is the other.
  void BindProjections() {
    Bind("P_q[d_X, d_k, h_k]");
    if (!config.MixesLogits()) {
      dims_.Set("h", dims_["h_k"],
                StrCat(ShapeOf("P_q[d_X, d_k, h]"), " without ", NamesBetween(HeadsBetween::kLogits)));
    }
    BindAll(HeadsBetween::kLogits);
    if (!config.MixesWeights()) {
      dims_.Set("h_v", dims_["h"],
                StrCat("the softmax heads h=", dims_["h"], " without ", NamesBetween(HeadsBetween::kWeights)));
    }
    BindAll(HeadsBetween::kWeights);
    BindAll(HeadsBetween::kNone);
  }

  const TensorFile& file_;
  Dims dims_;
};

// "tensor 'X' has nan at [0, 1] of [2, 3]"; empty where all is finite.
std::string NonFiniteText(const char* what, const std::string& name, const Tensor& tensor) {
  const auto minus_infinity = name == "bias" ? MinusInfinity::kAccept : MinusInfinity::kReject;
  const std::optional<NonFiniteElement> found = FindNonFinite(tensor, minus_infinity);
  if (!found) return "";
  return StrCat(what, " '", name, "' has ", found->value, " at ", found->index, " of ", tensor.shape());
}

constexpr const char* kAllowing = "; --allow-non-finite computes and writes all the same";

// Error(kNumerical) for an input that holds a NaN or an infinity, as it is or in the arithmetic's type.
void CheckInputsAreFinite(const TensorFile& file, DType dtype) {
  for (const NamedTensor& entry : file.tensors) {
    if (!IsFloating(entry.tensor.dtype())) continue;
    std::string text = NonFiniteText("tensor", entry.name, entry.tensor);
    if (text.empty()) {
      text = NonFiniteText("tensor", entry.name, entry.tensor.To(dtype));
      if (!text.empty()) text += " as a float; --precision double holds it";
    }
    if (!text.empty()) Fail(ErrorKind::kNumerical, file.path, ": ", text, kAllowing);
  }
}

AttentionImplementation Requested(const AttentionTensorsOptions& options) {
  const bool in_float = options.dtype == DType::kFloat32;
  const auto implementation =
      options.implementation.value_or(in_float ? AttentionImplementation::kFused : AttentionImplementation::kComposed);
  CROSSTALK_CHECK_FIELD(implementation == AttentionImplementation::kComposed || in_float, "implementation",
                        "the fused one computes in float; ask for the composed one in double");
  return implementation;
}

}  // namespace

AttentionEvaluation EvaluateAttention(const TensorFile& file, const AttentionTensorsOptions& options) {
  CheckTensors(file);
  if (options.non_finite == NonFinite::kRefuse) CheckInputsAreFinite(file, options.dtype);
  AttentionConfig config = FileLayout(file, options.layer).config;
  config.implementation = Requested(options);

  const Tensor* const dY = file.Find("dY");
  const auto requires_grad = dY != nullptr ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo;
  std::vector<std::pair<std::string, Variable>> leaves;
  const auto leaf = [&](std::string_view name) {
    const Tensor* const tensor = file.Find(name);
    if (tensor == nullptr) return Variable();
    leaves.emplace_back(name, Variable(tensor->To(options.dtype), requires_grad));
    return leaves.back().second;
  };

  const Variable X = leaf("X");
  const Variable M = file.Find("M") != nullptr ? leaf("M") : X;
  AttentionParameters parameters;
  for (const AttentionProjection& projection : kAttentionProjections) {
    const Variable value = leaf(projection.name());
    if (value.defined()) parameters.*projection.parameter = Permute(value, PaperToStorage(projection));
  }
  AttentionCallOptions call;
  call.bias = leaf("bias");
  if (const Tensor* const mask = file.Find("mask")) call.attention_mask = *mask;

  // The fused kernel never holds W: the composed path computes it beside Y.
  const bool fused =
      ImplementationFor(config, options.dtype, AttentionOutputs::kOutputOnly) == AttentionImplementation::kFused;
  const auto compute = [&](AttentionOutputs wanted) {
    call.outputs = wanted;
    return ComputeAttention(config, parameters, X, M, call);
  };
  const AttentionResult result = compute(fused ? AttentionOutputs::kOutputOnly : options.outputs);
  AttentionEvaluation evaluation = {.tensors = {{"Y", result.Y.value()}}, .implementation = result.implementation};
  std::vector<NamedTensor>& outputs = evaluation.tensors;
  if (options.outputs == AttentionOutputs::kWithWeights) {
    const ContextScope no_grad = NoGrad();
    outputs.push_back({"W", fused ? compute(AttentionOutputs::kWithWeights).W.value() : result.W.value()});
  }
  if (dY != nullptr) {
    Backward(result.Y, dY->To(options.dtype));
    for (const auto& [name, variable] : leaves) {
      const Tensor& gradient = variable.grad();
      outputs.push_back(
          {"d" + name, gradient.defined() ? gradient : Tensor::Zeros(variable.shape(), variable.dtype())});
    }
  }
  for (const NamedTensor& output : outputs) {
    const std::string text = NonFiniteText("result", output.name, output.tensor);
    if (text.empty()) continue;
    if (options.non_finite == NonFinite::kRefuse) {
      Fail(ErrorKind::kNumerical, file.path, ": ", text, ", though every input is finite: ", options.dtype,
           " overflows on the way", kAllowing);
    }
    evaluation.non_finite.push_back(text);
  }
  return evaluation;
}

}  // namespace crosstalk
