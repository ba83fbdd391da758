#include "crosstalk/models/registry.h"

#include <utility>

#include "crosstalk/models/albert/build.h"
#include "crosstalk/models/bert/build.h"
#include "crosstalk/models/interop/published_albert.h"
#include "crosstalk/models/interop/published_bert.h"
#include "crosstalk/models/interop/published_t5.h"
#include "crosstalk/models/lm/build.h"
#include "crosstalk/models/t5/build.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/nn/stored_parameters.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/named.h"
#include "crosstalk/runtime/shapes_only.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

const std::vector<ModelType>& ModelTypes() {
  static const std::vector<const char*> kBertHeads = {"pooler",         "masked_lm",       "sentence",
                                                      "classification", "multiple_choice", "span"};
  static const std::vector<ModelType> types = {
      {.name = "t5",
       .objectives = {"span-corruption", "text-to-text"},
       .own_fields = {"encoder_self", "decoder_self", "encoder_decoder", "decoder_layers", "classifier"},
       .heads = {},
       .resolve = ResolveT5,
       .configure = ConfigureT5,
       .make = MakeT5,
       .read_text = ReadTextForT5,
       .published = &kPublishedT5},
      {.name = "lm",
       .objectives = {"next-token"},
       .own_fields = {"positions", "classifier"},
       .heads = {},
       .resolve = nullptr,
       .configure = ConfigureLm,
       .make = MakeLm,
       .read_text = ReadTextForLm},
      {.name = "bert",
       .objectives = {"masked-lm", "task-head"},
       .own_fields = {"positions", "max_positions", "classifier", "initial_stddev"},
       .heads = kBertHeads,
       .resolve = ResolveBert,
       .configure = ConfigureBert,
       .make = MakeBert,
       .read_text = ReadTextForBert,
       .published = &kPublishedBert},
      {.name = "albert",
       .objectives = {"masked-lm", "task-head"},
       .own_fields = {"positions", "max_positions", "classifier", "embedding_size", "layer_groups", "inner_layers",
                      "initial_stddev"},
       .heads = kBertHeads,
       .resolve = ResolveAlbert,
       .configure = ConfigureAlbert,
       .make = MakeBert,
       .read_text = ReadTextForBert,
       .published = &kPublishedAlbert},
  };
  return types;
}

std::vector<std::string> ModelNames() { return NamesIn(ModelTypes()); }

std::vector<std::string> ModelsThatOwn(std::string_view field) {
  std::vector<std::string> names;
  for (const ModelType& type : ModelTypes()) {
    for (const char* own : type.own_fields) {
      if (field == own) names.emplace_back(type.name);
    }
  }
  return names;
}

const ModelType& FindModel(std::string_view name) { return FindNamed("model", name, ModelTypes()); }

namespace {

std::unique_ptr<Model> MakeByName(const Json& config, const std::string& source, const Initializer& init) {
  const std::string& name = JsonReader(config, source).String("model");
  for (const ModelType& type : ModelTypes()) {
    if (name == type.name) return type.make(config, source, init);
  }
  Fail(ErrorKind::kData, source, ": model: ", Quoted(name), " is none of ", Join(ModelNames(), ", "));
}

}  // namespace

std::unique_ptr<Model> MakeModel(const Json& config, const std::string& source, uint64_t seed) {
  return MakeByName(config, source, Initializer(seed));
}

std::unique_ptr<Model> LoadModel(const Json& config, const std::string& source, TensorFile parameters, DType dtype) {
  for (NamedTensor& one : parameters.tensors) {
    if (one.tensor.dtype() == DType::kFloat32) one.tensor = one.tensor.To(dtype);
  }
  return LoadModel(config, source, std::make_shared<StoredParameters>(std::move(parameters), source), dtype, 0);
}

std::unique_ptr<Model> LoadModel(const Json& config, const std::string& source,
                                 const std::shared_ptr<StoredParameters>& stored, DType dtype, uint64_t seed) {
  try {
    std::unique_ptr<Model> model = MakeByName(config, source, Initializer(stored, dtype, seed));
    stored->CheckAllTaken();
    return model;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, source, ": ", error.what());  // sizes that no layer can have are the file's fault here
  }
}

ModelDescription DescribeModel(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  Json json = FindModel(config->model).configure(*config, vocabulary);
  const ShapesOnlyScope no_values;
  const std::unique_ptr<Model> model = MakeModel(json, "configuration", config->seed);
  return {std::move(json), model->Describe(), model->AttentionPlaces(), AttentionImplementationText(*model)};
}

}  // namespace crosstalk
