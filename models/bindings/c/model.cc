#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/bindings/c/tensors.h"
#include "crosstalk/models/decoding/embedding.h"
#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/sentence_folder.h"
#include "crosstalk/models/metrics.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/step_cost.h"
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
  return {{"dtype", &O::dtype, {.choices = {"float32", "float64"}}},
          {"precision", &O::precision},
          {"implementation", &O::implementation}};
}

struct ModelForwardOptions {
  PassOptions pass;
  std::string detail = "results";
};
FieldTable<ModelForwardOptions> ModelForwardFields() {
  using O = ModelForwardOptions;
  return Joined(FieldsOfPart(PassFields(), &O::pass), {{"detail", &O::detail, {.choices = {"results", "all"}}}});
}

std::shared_ptr<ModelObject> Open(const std::string& path, const OpenOptions& options) {
  Trained trained = crosstalk::Open(path, {.tokenizer = TokenizerUse::kWhereThere,
                                           .dtype = options.dtype == "float64" ? DType::kFloat64 : DType::kFloat32,
                                           .implementation = options.implementation});
  if (options.precision) trained.model->SetPrecision(*options.precision);
  ModelParts parts = {.model = std::move(trained.model),
                      .tokenizer = std::move(trained.tokenizer),
                      .source = trained.checkpoint,
                      .remarks = std::move(trained.remarks)};
  // A published model without its tokenizer says nothing of that.
  if (trained.imported == nullptr || parts.tokenizer != nullptr) {
    parts.config = std::move(trained.config);
    parts.config->optimization = {};  // a loop of the host's is not that run
  }
  return std::make_shared<ModelObject>(std::move(parts), std::make_shared<Lock>());
}

// A new one, by a training's configuration; its data is opened where its tokenizer comes from there, or may.
std::shared_ptr<ModelObject> Make(const Given& given) {
  TrainingConfig config = given.Over(TrainingFields());
  given.CheckAllRead();
  CROSSTALK_CHECK_FIELD(config.optimization.init_from.empty(), "init_from",
                        "is for a training; a model that has weights is opened");
  const bool reads_text = config.data.tokenizer != kNoTokenizer;
  CROSSTALK_CHECK_FIELD(reads_text || config.data.text.empty(), "data", "needs a ", FieldName{"tokenizer"},
                        " that reads it");
  MakePathsAbsolute(&config);
  if (!reads_text) config.data.tokenizer = kNoTokenizer;
  const ResolvedConfig resolved(config);
  ModelParts parts = {.config = config};
  if (reads_text) {
    parts.data = std::make_shared<TrainingData>(OpenTrainingData(*resolved));
    parts.tokenizer = parts.data->tokenizer;
    parts.remarks = parts.data->remarks;
  }
  const ModelConfig of_model = ConfigureModel(*resolved, VocabularyOf(*resolved, parts.tokenizer.get()));
  CheckMemory(resolved, of_model, 1);
  std::shared_ptr<Model> model = MakeModel(of_model, resolved->optimization.seed);
  PrepareModel(resolved->optimization, *model);
  parts.model = std::move(model);
  return std::make_shared<ModelObject>(std::move(parts), std::make_shared<Lock>());
}

std::vector<NamedVariable> Forward(const ModelObject& model, const ct_tensors* given, const char* text) {
  const ModelForwardOptions options = ReadGiven(ModelForwardFields(), text);
  Batch inputs;
  for (const NamedTensor& one : TensorsOf(given, "inputs")) inputs.Add(one.name, one.tensor);
  const OutputDetail detail = options.detail == "all" ? OutputDetail::kAll : OutputDetail::kResults;
  return model.parts.model->Outputs(inputs, detail, options.pass.context());
}

// The loss that a training would minimise, and each measure, of a batch as an objective makes it.
std::vector<NamedVariable> Loss(const ModelObject& model, const ct_tensors* given, const char* text) {
  const TrainingConfig config = *ResolvedConfig(model.RequireConfig());
  CROSSTALK_CHECK_FIELD(config.optimization.loss_denominator == LossDenominator::kTokens, "loss_denominator",
                        Name(config.optimization.loss_denominator), " is not known of a batch of the host's");
  PassOptions options = {.training = true, .seed = config.optimization.seed};
  options = ReadGiven(PassFields(), text, options);
  Batch batch;
  for (const NamedTensor& one : TensorsOf(given, "batch")) {
    Batch ids;  // models read int32, and hosts have int64
    if (one.tensor.dtype() == DType::kInt64) ids.Add(one.name, one.tensor);
    const Tensor small = InputIds(ids, one.name.c_str(), one.tensor.rank(), {INT32_MIN, INT32_MAX});
    batch.Add(one.name, small.defined() ? small : one.tensor);
  }
  const LossResult loss = model.parts.model->Loss(batch, MakeLossOptions(config.optimization), options.context());
  CROSSTALK_CHECK(loss.sums[0].count > 0, "batch: has no targets");
  const LossScales scales = {1.0 / static_cast<double>(loss.sums[0].count), 1.0 / static_cast<double>(batch.rows())};
  std::vector<NamedVariable> named = {{"loss", loss.Scaled(scales)}};
  for (const Metric& metric : Means(loss.sums)) {
    named.push_back({metric.name, Variable(Tensor::Full({}, metric.value, DType::kFloat64))});
  }
  return named;
}

using Compute = std::vector<NamedVariable>(const ModelObject& model, const ct_tensors* given, const char* text);

// What `compute` makes of the tensors, and where `pass` is not null the pass.
ct_status Run(const ct_model* model, const ct_tensors* given, const char* text, Compute* compute, ct_tensors** outputs,
              ct_pass** pass) {
  return Call([&] {
    CheckGiven(outputs, "outputs");
    const auto object = Find<ModelObject>(model, "model");
    const Use use(*object, Access::kShared);
    const ContextScope recording(&OpContext::recording, pass != nullptr);
    const auto made = std::make_shared<PassObject>();
    made->owner = object;
    GivePass(compute(*object, given, text), made, outputs, pass);
  });
}

}  // namespace

FieldTable<TrainingConfig> TrainingFieldsNamed(const std::vector<std::string>& keys) {
  FieldTable<TrainingConfig> fields = TrainingFields();
  std::erase_if(fields,
                [&](const auto& field) { return std::find(keys.begin(), keys.end(), field.key) == keys.end(); });
  CROSSTALK_DCHECK(fields.size() == keys.size());
  return fields;
}

Json ModelObject::Describe() const {
  const auto& [model, tokenizer, source, config, data, remarks] = parts;
  return Json::MakeObject({{"description", model->Describe()},
                           {"source", source},
                           {"dtype", crosstalk::Name(model->dtype())},
                           {"precision", crosstalk::Name(model->precision())},
                           {"implementation", AttentionImplementationText(*model)},
                           {"parameters", model->NumParameters()},
                           {"tokenizer", tokenizer != nullptr ? Json(tokenizer->kind()) : Json()},
                           {"remarks", ToJson(remarks)},
                           {"configuration", model->config().ToJson()}});
}

const Tokenizer& ModelObject::RequireTokenizer() const {
  CROSSTALK_CHECK(parts.tokenizer != nullptr, parts.source.empty() ? "" : parts.source + ": ",
                  "the model has no tokenizer", parts.remarks.empty() ? "" : ": ", Join(parts.remarks, "; "));
  return *parts.tokenizer;
}

const TrainingConfig& ModelObject::RequireConfig() const {
  CROSSTALK_CHECK(parts.config.has_value(), parts.source,
                  ": nothing says how this model is trained, for its tokenizer is not ", "read: import it first");
  return *parts.config;
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

ct_status ct_model_create(const char* configuration, ct_model** model) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(model, "model");
    GiveHandle(Make(ParseGiven(configuration)), model);
  });
}

ct_status ct_model_loss(const ct_model* model, const ct_tensors* batch, const char* options, ct_tensors** outputs,
                        ct_pass** pass) {
  return crosstalk::c::Run(model, batch, options, crosstalk::c::Loss, outputs, pass);
}

ct_status ct_model_forward(const ct_model* model, const ct_tensors* inputs, const char* options, ct_tensors** outputs,
                           ct_pass** pass) {
  return crosstalk::c::Run(model, inputs, options, crosstalk::c::Forward, outputs, pass);
}

}  // extern "C"

namespace crosstalk::c {

// A model's texts: what it writes, and its tokenizer.
namespace {

// What a host says of a search, over what suits the input.
struct SearchSettings {
  std::optional<int64_t> max_length;
  std::optional<double> temperature;
  bool early_stopping = false;
  SearchOptions search;

  SearchOptions Over(const SearchOptions& defaults) const {
    SearchOptions options = search;
    options.max_length = max_length.value_or(defaults.max_length);
    options.sampling.temperature = temperature.value_or(options.beams > 1 ? 0 : defaults.sampling.temperature);
    options.early_stopping = early_stopping ? EarlyStopping::kYes : EarlyStopping::kNo;
    options.Validate();
    return options;
  }
};

template <typename Member>
auto OfSampling(Member SamplingOptions::*member) {
  return [member](SearchSettings& settings) -> Member& { return settings.search.sampling.*member; };
}

FieldTable<SearchSettings> TextFields() {
  using S = SearchSettings;
  using O = SearchOptions;
  return {{"max_length", &S::max_length},
          {"temperature", &S::temperature},
          {"top_k", OfSampling(&SamplingOptions::top_k)},
          {"top_p", OfSampling(&SamplingOptions::top_p)},
          {"seed", Within(&S::search, &O::seed), {.range = kSeedRange}},
          {"beams", Within(&S::search, &O::beams)},
          {"length_penalty", Within(&S::search, &O::length_penalty)},
          {"length_normalisation", Within(&S::search, &O::normalisation)},
          {"early_stopping", &S::early_stopping}};
}

FieldTable<SearchSettings> RowFields() {
  using S = SearchSettings;
  using O = SearchOptions;
  return Joined(TextFields(), {{"answers", Within(&S::search, &O::answers)}, {"batch", Within(&S::search, &O::batch)}});
}

FieldTable<EmbedOptions> EmbedFields() {
  using O = EmbedOptions;
  return {{"pooling", &O::pooling}, {"normalize", &O::normalize}, {"max_length", &O::max_length}, {"batch", &O::batch}};
}

std::string TextFrom(const char* text, size_t length, const char* argument) {
  CROSSTALK_CHECK(text != nullptr || length == 0, argument, " is NULL, of ", length, " bytes");
  std::string copy(text == nullptr ? "" : text, length);
  const size_t invalid = FindInvalidUtf8(copy);
  CROSSTALK_CHECK(invalid == std::string::npos, argument, " is no UTF-8 text: byte ", invalid);
  return copy;
}

struct Listener {
  ct_on_text on_text = nullptr;
  void* context = nullptr;
};

// What was written; *stopped where the listener asked for it.
std::string Write(const Model& model, const TextWriter& writer, const std::string& prompt, const char* text,
                  const Listener& listener, bool* stopped) {
  SearchOptions options = ReadGiven(TextFields(), text).Over(writer.Defaults(prompt));
  std::string whole;
  const auto emit = [&](std::string_view piece, Author author) {
    if (*stopped) return;
    whole += piece;
    if (listener.on_text == nullptr) return;
    const int by_the_model = author == Author::kModel;
    *stopped = listener.on_text(listener.context, std::string(piece).c_str(), piece.size(), by_the_model) != 0;
  };
  if (options.beams == 1) {
    options.stop = [stopped] { return *stopped; };
    WriteText(model, writer, prompt, options, emit);
  } else {
    const auto answers = Search(model, {writer.Read(prompt, options.max_length)}, options);
    if (!answers[0].empty()) emit(TextOf(writer, prompt, answers[0][0]), Author::kModel);
  }
  return whole;
}

// Rows of ids as a search takes them, each with its mask if it has one.
std::vector<SearchInput> RowsOf(const std::vector<NamedTensor>& tensors, int64_t vocabulary) {
  Batch batch;
  for (const NamedTensor& one : tensors) batch.Add(one.name, one.tensor);
  CheckInputNames(batch, {"input_ids", "attention_mask"});
  const Tensor ids = RequiredInputIds(batch, 2, vocabulary);
  const Tensor mask = InputMask(batch, "attention_mask", ids.shape());
  const std::vector<int32_t> all = ids.ToVector<int32_t>();
  const std::vector<uint8_t> read = mask.defined() ? mask.ToVector<uint8_t>() : std::vector<uint8_t>();
  std::vector<SearchInput> rows;
  const int64_t n = ids.size(1);
  for (int64_t row = 0; row < ids.size(0); ++row) {
    SearchInput input = {.ids = {all.begin() + row * n, all.begin() + (row + 1) * n}};
    if (!read.empty()) input.mask.assign(read.begin() + row * n, read.begin() + (row + 1) * n);
    rows.push_back(std::move(input));
  }
  return rows;
}

std::vector<int32_t> IdsOf(const Tensor& tensor) {
  Batch batch;
  batch.Add("ids", tensor);
  CROSSTALK_CHECK(tensor.rank() == 1, "ids: have shape ", tensor.shape(), ", and must have one dimension");
  if (tensor.num_elements() == 0) return {};
  return InputIds(batch, "ids", 1, {0, INT32_MAX}).ToVector<int32_t>();
}

}  // namespace
}  // namespace crosstalk::c

extern "C" {

ct_status ct_model_generate(const ct_model* model, const char* prompt, size_t length, const char* options,
                            ct_on_text on_text, void* context, const char** text, size_t* text_length) {
  using namespace crosstalk::c;
  return Call([&] {
    const auto object = Find<ModelObject>(model, "model");
    const std::string given = TextFrom(prompt, length, "prompt");
    const Use use(*object, Access::kShared);
    object->RequireTokenizer();
    const std::unique_ptr<crosstalk::TextWriter> writer = object->parts.model->MakeWriter(object->parts.tokenizer);
    CROSSTALK_CHECK(writer != nullptr, object->parts.model->Describe(), ", writes no text");
    bool stopped = false;
    std::string written = Write(*object->parts.model, *writer, given, options, {on_text, context}, &stopped);
    if (text != nullptr || text_length != nullptr) GiveText(std::move(written), text, text_length);
    if (stopped) throw crosstalk::Interrupted();
  });
}

ct_status ct_model_search(const ct_model* model, const ct_tensors* inputs, const char* options, const char** json) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(json, "json");
    const auto object = Find<ModelObject>(model, "model");
    const Use use(*object, Access::kShared);
    const std::unique_ptr<crosstalk::Decoder> decoder = object->parts.model->MakeDecoder({});
    CROSSTALK_CHECK(decoder != nullptr, object->parts.model->Describe(), ", writes no tokens");
    const crosstalk::SearchOptions search = ReadGiven(RowFields(), options).Over({});
    const auto rows = RowsOf(TensorsOf(inputs, "inputs"), decoder->config().vocabulary);
    GiveText(ToJson(crosstalk::Search(*object->parts.model, rows, search)).Dump(), json);
  });
}

ct_status ct_model_embed(const ct_model* model, const char* const* texts, const size_t* lengths, size_t count,
                         const char* options, ct_tensor** vectors) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(vectors, "vectors");
    const auto object = Find<ModelObject>(model, "model");
    const Use use(*object, Access::kShared);
    const auto& [of_model, tokenizer, source, config, data, remarks] = object->parts;
    std::vector<std::string> given;
    for (size_t i = 0; i < count; ++i) {
      CheckGiven(texts, "texts");
      CheckGiven(texts[i], "texts");
      given.push_back(TextFrom(texts[i], lengths != nullptr ? lengths[i] : std::strlen(texts[i]), "texts"));
    }
    CROSSTALK_CHECK(count > 0, "texts: there is none");
    std::vector<std::string> unheard;
    const crosstalk::EmbedOptions of_folder = crosstalk::SentenceOptions(source, of_model->config(), &unheard);
    const crosstalk::EmbedOptions embed = ReadGiven(EmbedFields(), options, of_folder);
    GiveHandle(
        std::make_shared<TensorObject>(crosstalk::Embed(*of_model, object->RequireTokenizer(), given, embed).vectors),
        vectors);
  });
}

ct_status ct_model_encode(const ct_model* model, const char* text, size_t length, ct_tensor** ids) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(ids, "ids");
    const auto object = Find<ModelObject>(model, "model");
    const std::string given = TextFrom(text, length, "text");
    const std::vector<int32_t> found = object->RequireTokenizer().Encode(given);
    GiveHandle(std::make_shared<TensorObject>(
                   crosstalk::Tensor::FromValues<int32_t>({static_cast<int64_t>(found.size())}, found)),
               ids);
  });
}

ct_status ct_model_decode(const ct_model* model, const ct_tensor* ids, const char** text, size_t* length) {
  using namespace crosstalk::c;
  return Call([&] {
    const auto object = Find<ModelObject>(model, "model");
    const auto given = Find<TensorObject>(ids, "ids");
    GiveText(object->RequireTokenizer().Decode(IdsOf(given->tensor)), text, length);
  });
}

}  // extern "C"
