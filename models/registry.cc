#include "crosstalk/models/registry.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

template <typename M>
std::unique_ptr<Model> Make(const ModelConfig& config, const Initializer& init) {
  return std::make_unique<M>(config, init);
}

}  // namespace

const std::vector<ModelType>& ModelTypes() {
  using Options = ModelConfig;
  static const std::vector<const char*> kBertHeads = {"pooler",         "masked_lm",       "sentence",
                                                      "classification", "multiple_choice", "span"};
  static const std::vector<ModelType> types = {
      {.name = "t5",
       .objectives = {"span-corruption", "text-to-text"},
       .own = MembersOf(&Options::encoder_self_kind, &Options::decoder_self_kind, &Options::encoder_decoder_kind,
                        &Options::decoder_layers, &Options::layer_kinds, &Options::classifier),
       .heads = {},
       .recipe = {},
       .norm_epsilon = 1e-6,
       .resolve = ResolveT5,
       .make_layers = MakeT5Layers,
       .validate = ValidateT5,
       .fields = T5Fields,
       .make = Make<T5>},
      {.name = "lm",
       .objectives = {"next-token", "prompt-completion"},
       .own =
           MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                     &Options::classifier, &Options::projection_biases, &Options::feed_forward_biases, &Options::norm),
       .heads = {},
       .recipe = {},
       .norm_epsilon = 1e-6,
       .resolve = nullptr,
       .make_layers = MakeLmLayers,
       .validate = ValidateLm,
       .fields = LmFields,
       .make = Make<Lm>},
      {.name = "bert",
       .objectives = {"masked-lm", "task-head"},
       .own = MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                        &Options::max_positions, &Options::classifier, &Options::initial_stddev),
       .heads = kBertHeads,
       .recipe = kBertRecipe,
       .norm_epsilon = 1e-12,
       .resolve = ResolveBert,
       .make_layers = MakeBertLayers,
       .validate = ValidateBert,
       .fields = BertFields,
       .make = Make<Bert>},
      {.name = "albert",
       .objectives = {"masked-lm", "task-head"},
       .own = MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                        &Options::max_positions, &Options::classifier, &Options::embedding_size, &Options::layer_groups,
                        &Options::inner_layers, &Options::initial_stddev),
       .heads = kBertHeads,
       .recipe = kAlbertRecipe,
       .norm_epsilon = 1e-12,
       .resolve = ResolveAlbert,
       .make_layers = MakeBertLayers,
       .validate = ValidateBert,
       .fields = AlbertFields,
       .make = Make<Bert>},
  };
  return types;
}

std::vector<std::string> ModelNames() { return NamesIn(ModelTypes()); }

const ModelType& FindModel(std::string_view name) { return FindNamed("model", name, ModelTypes()); }

Json ModelConfig::ToJson() const {
  Json json = Json::MakeObject({{"model", name}});
  const Json fields = FieldsToJson(FindModel(name).fields(), *this);
  for (const auto& [key, value] : fields.AsObject()) json.Set(key, value);
  return json;
}

void ModelConfig::Validate() const { FindModel(name).validate(*this); }

std::unique_ptr<Model> ModelConfig::Make(const Initializer& init) const { return FindModel(name).make(*this, init); }

void Resolve(ModelConfig& config, int64_t input_length) {
  const ModelType& model = FindModel(config.name);
  if (model.resolve != nullptr) model.resolve(config, input_length);
  if (!config.attention_scale) config.attention_scale = AttentionScale::kFolded;
  if (!config.feed_forward) config.feed_forward = FeedForwardKind::kRelu;
}

ModelConfig ReadModelConfig(const Json& json, const std::string& source) {
  const std::string name = JsonReader(json, source).String("model");
  const auto is_it = [&](const ModelType& type) { return name == type.name; };
  if (std::none_of(ModelTypes().begin(), ModelTypes().end(), is_it)) {
    Fail(ErrorKind::kData, source, ": model: ", Quoted(name), " is none of ", Join(ModelNames(), ", "));
  }
  Json members = Json::MakeObject();
  for (const auto& [key, value] : json.AsObject()) {
    if (key != "model") members.Set(key, value);
  }
  auto config = FieldsFromJson(FindModel(name).fields(), members, source);
  config.name = name;
  try {
    config.Validate();
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  return config;
}

std::unique_ptr<Model> MakeModel(const ModelConfig& config, uint64_t seed) { return config.Make(Initializer(seed)); }

std::unique_ptr<Model> LoadModel(const ModelConfig& config, const std::string& source, TensorFile parameters,
                                 DType dtype) {
  for (NamedTensor& one : parameters.tensors) {
    if (one.tensor.dtype() == DType::kFloat32) one.tensor = one.tensor.To(dtype);
  }
  return LoadModel(config, source, std::make_shared<StoredParameters>(std::move(parameters), source), dtype, 0);
}

std::unique_ptr<Model> LoadModel(const ModelConfig& config, const std::string& source,
                                 const std::shared_ptr<StoredParameters>& stored, DType dtype, uint64_t seed) {
  try {
    std::unique_ptr<Model> model = config.Make(Initializer(stored, dtype, seed));
    stored->CheckAllTaken();
    return model;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, source, ": ", error.what());  // sizes that no layer can have are the file's fault here
  }
}

}  // namespace crosstalk
