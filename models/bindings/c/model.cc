#include "crosstalk/models/bindings/c/model.h"

#include <algorithm>
#include <optional>

#include "crosstalk/models/bindings/c/call.h"
#include "crosstalk/models/bindings/c/given.h"
#include "crosstalk/models/bindings/c/parameters.h"
#include "crosstalk/models/bindings/c/pass.h"
#include "crosstalk/models/bindings/c/tensors.h"
#include "crosstalk/models/interop/any_model.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {
namespace {

struct OpenOptions {
  std::string dtype = "float32";
  std::optional<Precision> precision;
  std::optional<AttentionImplementation> implementation;
};
FieldTable<OpenOptions> OpenFields() {
  using O = OpenOptions;
  return {MakeField("dtype", &O::dtype, {.choices = {"float32", "float64"}}), MakeField("precision", &O::precision, {}),
          MakeField("implementation", &O::implementation, {})};
}

struct ModelForwardOptions {
  PassOptions pass;
  std::string detail = "results";
};
FieldTable<ModelForwardOptions> ModelForwardFields() {
  using O = ModelForwardOptions;
  return Joined(FieldsOfPart(PassFields(), &O::pass),
                {MakeField("detail", &O::detail, {.choices = {"results", "all"}})});
}

std::shared_ptr<ModelObject> Open(const std::string& path, const OpenOptions& options) {
  AnyModel any = LoadAnyModel(path, {.dtype = options.dtype == "float64" ? DType::kFloat64 : DType::kFloat32,
                                     .implementation = options.implementation});
  std::vector<std::string> remarks;
  std::shared_ptr<const Tokenizer> tokenizer = TokenizerOf(any, path, &remarks);
  if (options.precision) any.model->SetPrecision(*options.precision);
  return std::make_shared<ModelObject>(std::move(any.model), std::move(tokenizer), any.source, std::make_shared<Lock>(),
                                       std::move(remarks));
}

void Forward(const std::shared_ptr<ModelObject>& object, const ct_tensors* given, const char* text,
             ct_tensors** outputs, ct_pass** pass) {
  const ModelForwardOptions options = ReadGiven(ModelForwardFields(), text);
  const ContextScope recording(&OpContext::recording, pass != nullptr);
  Batch inputs;
  for (const NamedTensor& one : TensorsOf(given, "inputs")) inputs.Add(one.name, one.tensor);
  const OutputDetail detail = options.detail == "all" ? OutputDetail::kAll : OutputDetail::kResults;
  const auto made = std::make_shared<PassObject>();
  made->owner = object;
  made->module = object->model.get();
  GivePass(object->model->Outputs(inputs, detail, options.pass.context()), made, outputs, pass);
}

}  // namespace

Json ModelObject::Describe() const {
  Json said = Json::MakeArray();
  for (const std::string& remark : remarks) said.Append(remark);
  return Json::MakeObject({{"description", model->Describe()},
                           {"source", source},
                           {"dtype", crosstalk::Name(model->dtype())},
                           {"precision", crosstalk::Name(model->precision())},
                           {"implementation", AttentionImplementationText(*model)},
                           {"parameters", model->NumParameters()},
                           {"tokenizer", tokenizer != nullptr ? Json(tokenizer->kind()) : Json()},
                           {"remarks", std::move(said)},
                           {"configuration", model->config().ToJson()}});
}

std::vector<NamedTensor> ModelObject::Parameters() const { return ParametersOf(*model); }

const Tokenizer& ModelObject::RequireTokenizer() const {
  CROSSTALK_CHECK(tokenizer != nullptr, source, ": the model has no tokenizer", remarks.empty() ? "" : ": ",
                  Join(remarks, "; "));
  return *tokenizer;
}

}  // namespace crosstalk::c

extern "C" {

ct_status ct_model_open(const char* path, const char* options, ct_model** model) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(path, "path");
    CheckGiven(model, "model");
    GiveHandle(Open(path, ReadGiven(OpenFields(), options)), model);
  });
}

ct_status ct_model_forward(const ct_model* model, const ct_tensors* inputs, const char* options, ct_tensors** outputs,
                           ct_pass** pass) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(outputs, "outputs");
    const auto object = Find<ModelObject>(model, "model");
    const Use use(*object, Access::kShared);
    Forward(object, inputs, options, outputs, pass);
  });
}

}  // extern "C"
