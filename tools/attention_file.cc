#include "tools/attention_file.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/autograd/scopes.h"
#include "crosstalk/autograd/tape.h"

namespace crosstalk {
namespace {

// Every tensor that may be given, and the order in which storage holds the paper's dimensions (AttentionParameters).
struct KnownTensor {
  std::string_view name;
  std::vector<int> storage_order;
  Variable AttentionParameters::*parameter;
};

const std::vector<KnownTensor>& ProjectionTensors() {
  using P = AttentionParameters;
  static const std::vector<KnownTensor> tensors = {
      {"P_q", {0, 2, 1}, &P::P_q},   {"P_k", {0, 2, 1}, &P::P_k},   {"P_v", {0, 2, 1}, &P::P_v},
      {"P_o", {2, 1, 0}, &P::P_o},   {"P_l", {0, 1}, &P::P_l},      {"P_w", {0, 1}, &P::P_w},
      {"P_Xl", {0, 1, 2}, &P::P_Xl}, {"P_Ml", {0, 1, 2}, &P::P_Ml}, {"P_Xw", {0, 1, 2}, &P::P_Xw},
      {"P_Mw", {0, 1, 2}, &P::P_Mw}, {"P", {0, 2, 1}, &P::P},       {"Q", {2, 0, 1}, &P::Q}};
  return tensors;
}

constexpr std::string_view kKnownNames =
    "X, M, P_q, P_k, P_v, P_o, P_l, P_w, P_Xl, P_Ml, P_Xw, P_Mw, P, Q, mask, bias, dY";

bool IsKnown(std::string_view name) {
  for (const std::string_view other : {"X", "M", "mask", "bias", "dY"}) {
    if (name == other) return true;
  }
  for (const KnownTensor& tensor : ProjectionTensors()) {
    if (name == tensor.name) return true;
  }
  return false;
}

void CheckTensors(const TensorFile& file) {
  for (const NamedTensor& entry : file.tensors) {
    const Tensor& tensor = entry.tensor;
    const auto fail = [&](const auto&... why) {
      Fail(ErrorKind::kData, file.path, ": tensor '", entry.name, "' (", tensor.dtype(), tensor.shape(), ") ", why...);
    };
    if (!IsKnown(entry.name)) fail("is not part of an attention layer; known are ", kKnownNames);
    if (entry.name == "mask") {
      if (tensor.dtype() != DType::kBool) fail("must be BOOL, true where a query may attend");
    } else if (!IsFloating(tensor.dtype())) {
      fail("must be F32 or F64");
    }
    if (tensor.num_elements() == 0) fail("has an empty dimension");
  }
}

// What the file's tensors make of the layer: the kind, then every size.
class Layout {
 public:
  explicit Layout(const TensorFile& file) : file_(file), dims_("attention") {
    ChooseForm();
    config.mixing = {.P_l = Has("P_l"),
                     .P_w = Has("P_w"),
                     .P_Xl = Has("P_Xl"),
                     .P_Ml = Has("P_Ml"),
                     .P_Xw = Has("P_Xw"),
                     .P_Mw = Has("P_Mw")};
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

  // Error where one of `names` is there.
  void Refuse(std::initializer_list<std::string_view> names, std::string_view why) const {
    for (const std::string_view name : names) {
      if (const Tensor* tensor = file_.Find(name)) {
        Fail(ErrorKind::kData, file_.path, ": tensor '", name, "' (", tensor->dtype(), tensor->shape(), ") ", why);
      }
    }
  }

  void ChooseForm() {
    Require("X", "X[b, n, d_X]", "it holds the queries");
    constexpr std::string_view kAllFour = "a layer with projections has all of P_q, P_k, P_v and P_o";
    if (Has("P") || Has("Q")) {
      config.form = AttentionForm::kBilinear;
      Require("P", "P[d_X, d_M, h]", "a bilinear layer has both P and Q");
      Require("Q", "Q[d_M, d_Y, h]", "a bilinear layer has both P and Q");
      Refuse({"P_q", "P_k", "P_v", "P_o", "P_l", "P_w", "P_Xl", "P_Ml", "P_Xw", "P_Mw"},
             "cannot stand beside P and Q, which make a bilinear layer");
    } else if (Has("P_q") || Has("P_k") || Has("P_v") || Has("P_o")) {
      config.form = AttentionForm::kProjected;
      Require("P_q", "P_q[d_X, d_k, h_k]", kAllFour);
      Require("P_k", "P_k[d_M, d_k, h_k]", kAllFour);
      Require("P_v", "P_v[d_M, d_v, h_v]", kAllFour);
      Require("P_o", "P_o[d_Y, d_v, h_v]", kAllFour);
    } else {
      config.form = AttentionForm::kDotProduct;
      Refuse({"P_l", "P_w", "P_Xl", "P_Ml", "P_Xw", "P_Mw"}, "needs P_q, P_k, P_v and P_o beside it");
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
        Bind("P[d_X, d_M, h]");
        Bind("Q[d_M, d_Y, h]");
        break;
      case AttentionForm::kProjected:
        BindProjections();
        break;
    }
    Bind("mask[b, n, m]");
    Bind("bias[h, n, m]");
    Bind("dY[b, n, d_Y]");

    config.d_X = dims_["d_X"];
    config.d_M = dims_["d_M"];
    config.d_Y = dims_["d_Y"];
    config.h = dims_["h"];
    if (config.form != AttentionForm::kProjected) return;
    config.h_k = dims_["h_k"];
    config.h_v = dims_["h_v"];
    config.d_k = dims_["d_k"];
    config.d_v = dims_["d_v"];
  }

  // Where no head projection stands between them, one number of heads is the other.
  void BindProjections() {
    Bind("P_q[d_X, d_k, h_k]");
    Bind("P_k[d_M, d_k, h_k]");
    if (!config.mixing.MixesLogits()) {
      dims_.Set("h", dims_["h_k"], ShapeOf("P_q[d_X, d_k, h]") + " without P_l, P_Xl or P_Ml");
    }
    Bind("P_l[h_k, h]");
    Bind("P_Xl[d_X, h_k, h]");
    Bind("P_Ml[d_M, h_k, h]");
    if (!config.mixing.MixesWeights()) {
      dims_.Set("h_v", dims_["h"], StrCat("the softmax heads h=", dims_["h"], " without P_w, P_Xw or P_Mw"));
    }
    Bind("P_w[h, h_v]");
    Bind("P_Xw[d_X, h, h_v]");
    Bind("P_Mw[d_M, h, h_v]");
    Bind("P_v[d_M, d_v, h_v]");
    Bind("P_o[d_Y, d_v, h_v]");
  }

  const TensorFile& file_;
  Dims dims_;
};

}  // namespace

AttentionImplementation ImplementationFor(const AttentionTensorsOptions& options) {
  const bool in_float = options.precision == DType::kFloat32;
  if (!options.implementation.has_value()) {
    return in_float ? AttentionImplementation::kFused : AttentionImplementation::kComposed;
  }
  CROSSTALK_CHECK(*options.implementation == AttentionImplementation::kComposed || in_float,
                  "the fused implementation computes in float; ask for the composed one in double");
  return *options.implementation;
}

std::vector<NamedTensor> EvaluateAttention(const TensorFile& file, const AttentionTensorsOptions& options) {
  CheckTensors(file);
  AttentionConfig config = Layout(file).config;
  config.scale = options.scale;
  config.implementation = ImplementationFor(options);

  const Tensor* const dY = file.Find("dY");
  const auto requires_grad = dY != nullptr ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo;
  std::vector<std::pair<std::string, Variable>> leaves;
  const auto leaf = [&](std::string_view name) {
    const Tensor* const tensor = file.Find(name);
    if (tensor == nullptr) return Variable();
    leaves.emplace_back(name, Variable(tensor->To(options.precision), requires_grad));
    return leaves.back().second;
  };

  const Variable X = leaf("X");
  const Variable M = file.Find("M") != nullptr ? leaf("M") : X;
  AttentionParameters parameters;
  for (const KnownTensor& tensor : ProjectionTensors()) {
    const Variable value = leaf(tensor.name);
    if (value.defined()) parameters.*tensor.parameter = Permute(value, tensor.storage_order);
  }
  AttentionExtras extras;
  extras.bias = leaf("bias");
  if (const Tensor* const mask = file.Find("mask")) extras.mask.pairs = *mask;

  const bool fused = config.implementation == AttentionImplementation::kFused;
  const auto compute = [&](AttentionOutputs wanted) {
    AttentionExtras call = extras;
    call.outputs = wanted;
    return ComputeAttention(config, parameters, X, M, call);
  };
  const AttentionResult result = compute(fused ? AttentionOutputs::kOutputOnly : options.outputs);
  std::vector<NamedTensor> outputs = {{"Y", result.Y.value()}};
  if (options.outputs == AttentionOutputs::kWithWeights) {
    const NoGradScope no_grad;  // the fused kernel never holds W: the composed path computes it beside Y
    outputs.push_back({"W", fused ? compute(AttentionOutputs::kWithWeights).W.value() : result.W.value()});
  }
  if (dY != nullptr) {
    Backward(result.Y, dY->To(options.precision));
    for (const auto& [name, variable] : leaves) {
      const Tensor& gradient = variable.grad();
      outputs.push_back(
          {"d" + name, gradient.defined() ? gradient : Tensor::Zeros(variable.shape(), variable.dtype())});
    }
  }
  return outputs;
}

}  // namespace crosstalk
