#include "crosstalk/models/registry.h"

#include <utility>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

const std::vector<ModelType>& ModelTypes() {
  using Options = ModelOptions;
  static const std::vector<const char*> kBertHeads = {"pooler",         "masked_lm",       "sentence",
                                                      "classification", "multiple_choice", "span"};
  static const std::vector<ModelType> types = {
      {.name = "t5",
       .objectives = {"span-corruption", "text-to-text"},
       .own = MembersOf(&Options::encoder_self_kind, &Options::decoder_self_kind, &Options::encoder_decoder_kind,
                        &Options::decoder_layers, &Options::layer_kinds, &Options::classifier),
       .heads = {},
       .recipe = {},
       .resolve = ResolveT5,
       .configure = ConfigureT5,
       .read = ReadT5Config},
      {.name = "lm",
       .objectives = {"next-token"},
       .own = MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                        &Options::classifier),
       .heads = {},
       .recipe = {},
       .resolve = nullptr,
       .configure = ConfigureLm,
       .read = ReadLmConfig},
      {.name = "bert",
       .objectives = {"masked-lm", "task-head"},
       .own = MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                        &Options::max_positions, &Options::classifier, &Options::initial_stddev),
       .heads = kBertHeads,
       .recipe = kBertRecipe,
       .resolve = ResolveBert,
       .configure = ConfigureBert,
       .read = ReadBertConfig},
      {.name = "albert",
       .objectives = {"masked-lm", "task-head"},
       .own = MembersOf(&Options::positions, &Options::rotary, &Options::rotary_base, &Options::layer_kinds,
                        &Options::max_positions, &Options::classifier, &Options::embedding_size, &Options::layer_groups,
                        &Options::inner_layers, &Options::initial_stddev),
       .heads = kBertHeads,
       .recipe = kAlbertRecipe,
       .resolve = ResolveAlbert,
       .configure = ConfigureAlbert,
       .read = ReadBertConfig},
  };
  return types;
}

std::vector<std::string> ModelNames() { return NamesIn(ModelTypes()); }

const ModelType& FindModel(std::string_view name) { return FindNamed("model", name, ModelTypes()); }

std::unique_ptr<ModelConfig> ReadModelConfig(const Json& json, const std::string& source) {
  const std::string& name = JsonReader(json, source).String("model");
  for (const ModelType& type : ModelTypes()) {
    if (name == type.name) return type.read(json, source);
  }
  Fail(ErrorKind::kData, source, ": model: ", Quoted(name), " is none of ", Join(ModelNames(), ", "));
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
