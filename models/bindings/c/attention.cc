// Attention layers: made from JSON, computed on a host's tensors, forward, backward and step by step.
#include "crosstalk/nn/attention/attention.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/bindings/c/tensors.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/text.h"

extern "C" {

ct_status ct_describe(const void* handle, const char** json) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(json, "json");
    const auto object = FindObject(handle, "handle");
    const Use use(*object, Access::kShared);
    GiveText(object->Describe().Dump(), json);
  });
}

ct_status ct_parameters(const void* handle, ct_tensors** parameters) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(parameters, "parameters");
    const auto object = FindObject(handle, "handle");
    const Use use(*object, Access::kShared);
    GiveHandle(std::make_shared<TensorsObject>(crosstalk::ParameterTensors(object->module())), parameters);
  });
}

}  // extern "C"

namespace crosstalk::c {
namespace {

const NamedVariable& FindOutput(const PassObject& pass, const char* name) {
  CROSSTALK_CHECK(!pass.outputs.empty(), "the pass has given its gradients");
  std::vector<std::string> names;
  for (const NamedVariable& output : pass.outputs) {
    if (output.name == name) return output;
    names.push_back(output.name);
  }
  Fail(ErrorKind::kUsage, "there is no output ", Excerpt(name), "; there are ", Join(names, ", "));
}

Tensor SeedFor(const NamedVariable& output, const ct_tensor* seed) {
  const Tensor& value = output.value.value();
  if (seed == nullptr) {
    CROSSTALK_CHECK(value.num_elements() == 1, "seed is NULL, and ", output.name, value.shape(),
                    " is not one element: its gradient is needed");
    return Tensor();
  }
  const Tensor given = Find<TensorObject>(seed, "seed")->tensor;
  CROSSTALK_CHECK(given.shape() == value.shape() && given.dtype() == value.dtype(), "seed is ", given.dtype(),
                  given.shape(), ", and ", output.name, " is ", value.dtype(), value.shape());
  return given;
}

// A leaf's gradient, if there is one, which leaves it; memory of the host's is not kept in it.
void TakeGradient(const NamedVariable& leaf, std::vector<NamedTensor>* gradients, const Tensor& seed) {
  if (!leaf.value.requires_grad() || !leaf.value.grad().defined()) return;
  Tensor gradient = leaf.value.grad();
  leaf.value.ZeroGrad();
  if (seed.defined() && gradient.SharesStorageWith(seed)) gradient = gradient.Clone();
  gradients->push_back({leaf.name, gradient.Contiguous()});
}

}  // namespace

ForwardContext PassOptions::context() const {
  return {training ? ForwardContext::Phase::kTraining : ForwardContext::Phase::kEvaluation, seed,
          static_cast<uint32_t>(step)};
}

const FieldTable<PassOptions>& PassFields() {
  using P = PassOptions;
  static const FieldTable<P> table = {{"training", &P::training},
                                      {"seed", &P::seed, {.range = kSeedRange}},
                                      {"step", &P::step, {.range = {0, 4294967295.0}}}};
  return table;
}

void GivePass(std::vector<NamedVariable> outputs, std::shared_ptr<PassObject> made, ct_tensors** to, ct_pass** pass) {
  std::vector<NamedTensor> values;
  for (const NamedVariable& output : outputs) values.push_back({output.name, output.value.value()});
  NewHandle list(std::make_shared<TensorsObject>(values));
  if (pass != nullptr) {
    made->outputs = std::move(outputs);
    GiveHandle(std::move(made), pass);
  }
  *to = static_cast<ct_tensors*>(list.Take());
}

}  // namespace crosstalk::c

extern "C" ct_status ct_backward(ct_pass* pass, const char* output, const ct_tensor* seed, ct_tensors** gradients) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(output, "output");
    CheckGiven(gradients, "gradients");
    const auto object = Find<PassObject>(pass, "pass");
    const Use use(*object, Access::kAlone);
    const crosstalk::NamedVariable result = FindOutput(*object, output);
    const crosstalk::Tensor given = SeedFor(result, seed);
    const Use parameters_too(*object->owner, Access::kAlone);
    object->outputs.clear();
    const crosstalk::Module& module = object->owner->module();
    module.ZeroGrad();
    std::vector<crosstalk::NamedTensor> taken;
    crosstalk::Backward(result.value, given);
    for (const crosstalk::NamedVariable& input : object->inputs) TakeGradient(input, &taken, given);
    for (const crosstalk::NamedParameter& parameter : module.Parameters()) {
      TakeGradient({parameter.name, parameter.value}, &taken, given);
    }
    GiveHandle(std::make_shared<TensorsObject>(taken), gradients);
  });
}

namespace crosstalk::c {
namespace {

// The layer of a model of that width, by the options of training; and what is no field of the layer's.
struct LayerOptions {
  AttentionOptions attention;
  int64_t d_model = 0;
};
struct LayerStart {
  uint64_t seed = 1;
  std::string dtype = "float32";
};

FieldTable<LayerOptions> LayerFields() {
  return Joined(FieldsOfPart(AttentionFields(), &LayerOptions::attention),
                {{"d_model", &LayerOptions::d_model, {.range = {1, 16'777'216}}}});
}

FieldTable<LayerStart> StartFields() {
  return {{"seed", &LayerStart::seed, {.range = kSeedRange}},
          {"dtype", &LayerStart::dtype, {.choices = {"float32", "float64"}}}};
}

// What both forms say: the member of the layer, and the option that it follows from.
constexpr const char* kSaidTwice[][2] = {
    {"d_X", "d_model"},           {"h", "heads"},          {"h_k", "key_heads"},    {"h_v", "value_heads"},
    {"d_k", "key_size"},          {"d_v", "value_size"},   {"g_k", "kv_heads"},     {"g_v", "kv_heads"},
    {"mixing", "dynamic"},        {"c_ql", "convolution"}, {"c_kl", "convolution"}, {"c_qw", "convolution"},
    {"c_kw", "convolution"},      {"form", "attention"},   {"mixing", "attention"}, {"dynamic_form", "attention"},
    {"differential", "attention"}};

// A layer by its members; or in short as a model of the width d_model has it, whose options make the members, and then
// those members that are given beside them.
AttentionConfig ReadConfig(const Given& given, LayerStart* start) {
  *start = given.Over(StartFields(), *start);
  const LayerOptions options = given.Over(LayerFields());
  AttentionConfig config = given.Over(AttentionConfig::Fields());
  given.CheckAllRead();  // first: a misspelt key would otherwise be reported as a missing one
  for (const auto& [member, option] : kSaidTwice) {
    CROSSTALK_CHECK_FIELD(!given.Has(member) || !given.Has(option), member, "is there twice, also as ", option);
  }
  const bool in_short = given.Has("d_model");
  if (in_short) {
    CROSSTALK_CHECK_FIELD(given.Has("heads"), "heads", "is missing");
    return given.Over(AttentionConfig::Fields(), MakeAttentionConfig(options.attention, options.d_model));
  }
  for (const Field<LayerOptions>& field : LayerFields()) {
    const auto is_it = [&](const auto& member) { return member.key == field.key; };
    const bool of_both = std::any_of(AttentionConfig::Fields().begin(), AttentionConfig::Fields().end(), is_it);
    CROSSTALK_CHECK_FIELD(of_both || !given.Has(field.key), field.key,
                          "needs d_model, the width of the model whose layer it describes");
  }
  CROSSTALK_CHECK_FIELD(given.Has("d_X"), "d_X", "is missing; in short a layer has d_model and heads instead");
  return config;
}

DType DTypeOf(const LayerStart& start) { return start.dtype == "float64" ? DType::kFloat64 : DType::kFloat32; }

// With the implementation that computes it, which must be the one that was asked for.
AttentionConfig ReadLayer(const Given& given, LayerStart* start) {
  AttentionConfig config = ReadConfig(given, start);
  const AttentionImplementation used = ImplementationFor(config, DTypeOf(*start), AttentionOutputs::kOutputOnly);
  CROSSTALK_CHECK_FIELD(!given.Has("implementation") || used == config.implementation, "implementation",
                        Name(config.implementation), " does not compute this layer in ", start->dtype, "; ", Name(used),
                        " does");
  config.implementation = used;
  return config;
}

class AttentionObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kAttention;
  AttentionObject(const AttentionConfig& config, const LayerStart& start)
      : Object(kKind), layer(config, Initializer(start.seed, DTypeOf(start))) {}

  Json Describe() const override {
    return Json::MakeObject({{"description", ToString(layer.config())},
                             {"dtype", crosstalk::Name(layer.dtype())},
                             {"implementation", crosstalk::Name(layer.implementation())},
                             {"parameters", layer.NumParameters()},
                             {"configuration", ToJson(layer.config())}});
  }
  const Module& module() const override { return layer; }

  const AttentionModule layer;
};

class CacheObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kCache;
  CacheObject() : Object(kKind) {}

  std::shared_ptr<AttentionObject> attention;
  AttentionCache cache;
  bool of_memory = false;
  bool broken = false;
};

struct ForwardOptions {
  PassOptions pass;
  bool weights = false;
};
FieldTable<ForwardOptions> ForwardFields() {
  return Joined(FieldsOfPart(PassFields(), &ForwardOptions::pass), {{"weights", &ForwardOptions::weights}});
}

// The inputs of a call by name, each used once.
class Inputs {
 public:
  Inputs(const ct_tensors* tensors, DType dtype) : tensors_(TensorsOf(tensors, "inputs")), dtype_(dtype) {}

  // A number's tensor, with a gradient where the pass is to have one; undefined if there is none.
  Variable Take(const char* name, int rank, PassObject* pass) {
    const Tensor tensor = Find(name);
    if (!tensor.defined()) return Variable();
    const bool is_float = tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kFloat64;
    CROSSTALK_CHECK(tensor.dtype() == dtype_, name, ": is ", tensor.dtype(), ", and the layer computes in ", dtype_,
                    ": convert it", is_float ? StrCat(", or make the layer with dtype = ", tensor.dtype()) : "");
    Check(name, tensor, rank);
    Variable variable(tensor, pass != nullptr ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo);
    if (pass != nullptr) pass->inputs.push_back({name, variable});
    return variable;
  }
  Variable Require(const char* name, int rank, PassObject* pass) {
    Variable variable = Take(name, rank, pass);
    CROSSTALK_CHECK(variable.defined(), "inputs: there is no ", name);
    return variable;
  }
  AttentionCallOptions TakeOptions(PassObject* pass) {
    AttentionCallOptions options;
    options.key_padding_mask = TakeMask("key_padding_mask", 2);
    options.attention_mask = TakeMask("attention_mask", 3);
    const Variable bias = Take("bias", 3, pass);
    if (bias.defined()) options.bias = bias;
    return options;
  }
  void CheckAllTaken() const {
    for (const NamedTensor& one : tensors_) {
      CROSSTALK_CHECK(std::find(taken_.begin(), taken_.end(), one.name) != taken_.end(), "inputs: ", Excerpt(one.name),
                      " is not known here; there may be ", Join(taken_, ", "));
    }
  }

 private:
  Tensor Find(const char* name) {
    taken_.emplace_back(name);
    for (const NamedTensor& one : tensors_) {
      if (one.name == name) return one.tensor;
    }
    return Tensor();
  }
  Tensor TakeMask(const char* name, int rank) {
    Tensor tensor = Find(name);
    if (!tensor.defined()) return tensor;
    CROSSTALK_CHECK(tensor.dtype() == DType::kBool, name, ": is ", tensor.dtype(), ", and must be bool");
    Check(name, tensor, rank);
    return tensor;
  }
  static void Check(const char* name, const Tensor& tensor, int rank) {
    CROSSTALK_CHECK(tensor.rank() == rank, name, ": has shape ", tensor.shape(), ", and must have ", rank,
                    " dimensions");
    CROSSTALK_CHECK(tensor.num_elements() > 0, name, ": has shape ", tensor.shape(), ", and holds nothing");
  }

  std::vector<NamedTensor> tensors_;
  std::vector<std::string> taken_;
  DType dtype_;
};

// X[b, n, d_X]
void CheckWidth(const Variable& X, const AttentionModule& layer) {
  const int64_t d_X = layer.config().d_X;
  CROSSTALK_CHECK(X.size(2) == d_X, "X: has shape ", X.shape(), ", and the layer's d_X is ", d_X);
}

void Forward(const AttentionObject& attention, const ct_tensors* given, const char* text, ct_tensors** outputs,
             ct_pass** pass, const std::shared_ptr<Object>& owner) {
  const ForwardOptions options = ReadGiven(ForwardFields(), text);
  const ContextScope recording(&OpContext::recording, pass != nullptr);
  const auto made = std::make_shared<PassObject>();
  PassObject* const recorded = pass != nullptr ? made.get() : nullptr;
  Inputs inputs(given, attention.layer.dtype());
  const Variable X = inputs.Require("X", 3, recorded);
  CheckWidth(X, attention.layer);
  const Variable M = inputs.Take("M", 3, recorded);
  AttentionCallOptions call = inputs.TakeOptions(recorded);
  inputs.CheckAllTaken();
  if (options.weights) call.outputs = AttentionOutputs::kWithWeights;
  const AttentionResult result = attention.layer.Forward(X, M.defined() ? M : X, call, options.pass.context());
  std::vector<NamedVariable> named = {{"Y", result.Y}};
  if (options.weights) named.push_back({"W", result.W});
  made->owner = owner;
  GivePass(std::move(named), made, outputs, pass);
}

void Step(CacheObject& state, const ct_tensors* given, ct_tensors** outputs) {
  CROSSTALK_CHECK(!state.broken, "cache: an earlier step failed within it; begin another");
  const ContextScope no_grad = NoGrad();
  const AttentionModule& layer = state.attention->layer;
  Inputs inputs(given, layer.dtype());
  const Variable X = inputs.Require("X", 3, nullptr);
  const AttentionCallOptions call = inputs.TakeOptions(nullptr);
  inputs.CheckAllTaken();
  CheckWidth(X, layer);
  const bool begun = state.cache.length() > 0;
  CROSSTALK_CHECK(!begun || X.size(0) == state.cache.rows(), "X: has ", X.size(0), " rows, and the cache ",
                  state.cache.rows());
  CROSSTALK_CHECK(state.of_memory || !begun || X.size(1) == 1, "X: has shape ", X.shape(),
                  "; after the first call there is one position at a time");
  state.broken = !state.of_memory;
  const AttentionResult result =
      state.of_memory ? layer.Attend(X, state.cache, call) : layer.Step(X, state.cache, call);
  state.broken = false;
  GiveHandle(std::make_shared<TensorsObject>(std::vector<NamedTensor>{{"Y", result.Y.value()}}), outputs);
}

}  // namespace
}  // namespace crosstalk::c

extern "C" {

ct_status ct_attention_create(const char* configuration, ct_attention** attention) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(attention, "attention");
    const crosstalk::Given given = ParseGiven(configuration);
    LayerStart start;
    const crosstalk::AttentionConfig config = ReadLayer(given, &start);
    GiveHandle(std::make_shared<AttentionObject>(config, start), attention);
  });
}

ct_status ct_attention_forward(const ct_attention* attention, const ct_tensors* inputs, const char* options,
                               ct_tensors** outputs, ct_pass** pass) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(outputs, "outputs");
    const auto object = Find<AttentionObject>(attention, "attention");
    const Use use(*object, Access::kShared);
    Forward(*object, inputs, options, outputs, pass, object);
  });
}

ct_status ct_attention_begin(const ct_attention* attention, const ct_tensor* memory, ct_cache** cache) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(cache, "cache");
    const auto made = std::make_shared<CacheObject>();
    made->attention = Find<AttentionObject>(attention, "attention");
    const Use use(*made->attention, Access::kShared);
    const crosstalk::AttentionModule& layer = made->attention->layer;
    if (memory != nullptr) {
      const crosstalk::Tensor M = Find<TensorObject>(memory, "memory")->tensor;
      CROSSTALK_CHECK(
          M.dtype() == layer.dtype() && M.rank() == 3 && M.num_elements() > 0 && M.size(2) == layer.config().d_M,
          "memory: is ", M.dtype(), M.shape(), ", and must be ", layer.dtype(), "[b, m, ", layer.config().d_M, "]");
      const crosstalk::ContextScope no_grad = crosstalk::NoGrad();
      made->cache = layer.Precompute(crosstalk::Variable(M));
      made->of_memory = true;
    }
    GiveHandle(made, cache);
  });
}

ct_status ct_attention_step(const ct_attention* attention, ct_cache* cache, const ct_tensors* inputs,
                            ct_tensors** outputs) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(outputs, "outputs");
    const auto layer = Find<AttentionObject>(attention, "attention");
    const auto state = Find<CacheObject>(cache, "cache");
    CROSSTALK_CHECK(state->attention == layer, "cache is of another layer");
    const Use use(*layer, Access::kShared);
    const Use state_use(*state, state->of_memory ? Access::kShared : Access::kAlone);
    Step(*state, inputs, outputs);
  });
}

}  // extern "C"
