// What a training loop of the host's is made of: data sets, batches, optimizers; and saving its model.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/bindings/c/tensors.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {
namespace {

const std::vector<std::string> kDataKeys = {"data", "validation", "text_field", "corpus", "task", "task_data"};
const std::vector<std::string> kBatchKeys = {
    "batch",        "seed",          "eval_batches", "input_length",  "noise_density", "mean_span_length",
    "masking",      "sentence_task", "most_masked",  "target_length", "mixture_cap",   "window_stride",
    "query_length", "short_share",   "answer_length"};
const std::vector<std::string> kOptimizerKeys = {
    "optimizer",  "learning_rate",       "schedule",        "steps",        "warmup",
    "decay",      "final_learning_rate", "decay_power",     "weight_decay", "adam_beta1",
    "adam_beta2", "adam_epsilon",        "bias_correction", "clip"};

// The special ids of a model that has no tokenizer, for objectives, which ask for them alone.
class IdsAlone : public Tokenizer {
 public:
  explicit IdsAlone(const TrainingConfig& config)
      : Tokenizer(VocabularyOf(config, nullptr).tokens, static_cast<int>(config.data.vocabulary),
                  ObjectiveOf(config).tokenizer.sentinels) {}

  std::vector<int32_t> Encode(std::string_view) const override { Refuse(); }
  std::vector<TokenSpan> EncodeSpans(std::string_view) const override { Refuse(); }
  std::string Decode(std::span<const int32_t>) const override { Refuse(); }
  std::string kind() const override { return "none"; }
  std::string FileName() const override { Refuse(); }
  std::string FileContents() const override { Refuse(); }

 private:
  bool ContinuesWord(int32_t, int32_t) const override { Refuse(); }
  [[noreturn]] static void Refuse() { Fail(ErrorKind::kUsage, "the model has no tokenizer"); }
};

class DatasetObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kDataset;
  DatasetObject(std::shared_ptr<ModelObject> its_model, std::shared_ptr<const TrainingData> its_data)
      : Object(kKind), model(std::move(its_model)), data(std::move(its_data)) {}

  Json Describe() const override {
    return Json::MakeObject({{"description", data->description}, {"remarks", ToJson(data->remarks)}});
  }

  const std::shared_ptr<ModelObject> model;
  const std::shared_ptr<const TrainingData> data;
};

std::shared_ptr<const TrainingData> DataOfIds(const ModelObject& model, const ct_tensor* ids) {
  const TrainingConfig& config = model.RequireConfig();
  const ModelConfig& of_model = model.parts.model->config();
  Batch given;
  given.Add("ids", Find<TensorObject>(ids, "ids")->tensor);
  const std::vector<int32_t> all = InputIds(given, "ids", 1, {0, of_model.vocabulary - 1}).ToVector<int32_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    CROSSTALK_CHECK(all[i] != of_model.tokens.pad, "ids: ", all[i], " at place ", i,
                    " is padding, which a model never learns");
  }
  const auto data = std::make_shared<TrainingData>();
  data->corpus = MakeIdCorpus(all);
  data->description = data->corpus.description;
  data->tokenizer = model.parts.tokenizer;
  const auto unknown = std::count(all.begin(), all.end(), of_model.tokens.unknown);
  if (data->tokenizer != nullptr && unknown * 100 > std::ssize(all)) {
    data->remarks.push_back(StrCat(unknown * 100 / std::ssize(all), " % of the ids are the unknown token's"));
  }
  if (data->tokenizer == nullptr) data->tokenizer = std::make_shared<IdsAlone>(config);
  return data;
}

std::shared_ptr<const TrainingData> DataOf(const ModelObject& model, const ct_tensor* ids, const char* text) {
  const Given given = ParseGiven(text);
  TrainingConfig config = given.Over(TrainingFieldsNamed(kDataKeys), model.RequireConfig());
  given.CheckAllRead();
  const auto is_given = [&](const std::string& key) { return given.Has(key); };
  const bool is_named = std::any_of(kDataKeys.begin(), kDataKeys.end(), is_given);
  if (ids != nullptr) {
    CROSSTALK_CHECK(!is_named, "ids and options that name another text: give one of them");
    return DataOfIds(model, ids);
  }
  if (!is_named && model.parts.data != nullptr) return model.parts.data;
  model.RequireTokenizer();
  MakePathsAbsolute(&config);
  const auto data = std::make_shared<TrainingData>(OpenTrainingData(*ResolvedConfig(config), model.parts.tokenizer));
  if (data->corpus.training != nullptr) {
    const std::string warning = UnknownTokensWarning(*data->corpus.training, *data->tokenizer);
    if (!warning.empty()) data->remarks.push_back(warning);
  }
  return data;
}

class BatchesObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kBatches;
  BatchesObject() : Object(kKind) {}

  std::shared_ptr<DatasetObject> dataset;
  std::unique_ptr<BatchSource> training;  // one of the two
  std::unique_ptr<EvaluationBatches> held_out;
  int64_t size = 0;
  int64_t last = INT64_MAX;  // index
};

struct Part {
  std::string part = "training";
};

std::shared_ptr<BatchesObject> MakeBatches(const std::shared_ptr<DatasetObject>& dataset, const char* text) {
  const ModelObject& model = *dataset->model;
  const Given given = ParseGiven(text);
  const Part part = given.Over(FieldTable<Part>{{"part", &Part::part, {.choices = {"training", "held-out"}}}});
  TrainingConfig config = given.Over(TrainingFieldsNamed(kBatchKeys), model.RequireConfig());
  given.CheckAllRead();
  config.optimization.shards = 1;  // a batch is one part
  const ResolvedConfig resolved(config);
  const int64_t context = model.parts.model->config().context;
  CROSSTALK_CHECK_FIELD(resolved->objective.input_length <= context, "input_length", resolved->objective.input_length,
                        " tokens are more than the model's ", context);
  const auto batches = std::make_shared<BatchesObject>();
  batches->dataset = dataset;
  const TrainingData& data = *dataset->data;
  if (part.part == "training") {
    batches->training = crosstalk::MakeBatches(*resolved, data, {0});
    const int64_t examples = CountTrainingExamples(*resolved, data);
    batches->last = INT64_MAX / resolved->optimization.batch - 1;  // examples have numbers, too
    batches->size = examples == INT64_MAX ? 0 : CeilDivide(examples, resolved->optimization.batch);
    return batches;
  }
  CROSSTALK_CHECK_FIELD(data.tasks == nullptr, "part", "held-out rows of tasks are answered, and have no loss");
  batches->held_out = MakeEvaluation(*resolved, data.corpus.validation, data.tokenizer);
  batches->size = batches->held_out->num_batches();
  return batches;
}

class OptimizerObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kOptimizer;
  OptimizerObject(std::shared_ptr<Object> of, const ResolvedConfig& by)
      : Object(kKind),
        owner(std::move(of)),
        config(by),
        optimizer(MakeOptimizer(by->optimization, owner->module().Parameters())) {}

  Json Describe() const override {
    const FieldTable<TrainingConfig> fields = TrainingFieldsNamed(kOptimizerKeys);
    return Json::MakeObject({{"step", optimizer->step()}, {"configuration", FieldsToJson(fields, *config)}});
  }

  const std::shared_ptr<Object> owner;
  const ResolvedConfig config;
  const std::unique_ptr<Optimizer> optimizer;
};

struct StepOptions {
  std::optional<double> learning_rate;
};

// Gives parameters their gradients while it lives.
class Gradients {
 public:
  Gradients(const Module& module, const std::vector<NamedTensor>& given) : parameters_(module.Parameters()) {
    std::vector<std::string> names;
    for (const NamedParameter& parameter : parameters_) names.push_back(parameter.name);
    std::vector<const Variable*> values;  // of which they are
    for (const NamedTensor& gradient : given) {
      const auto at = std::find(names.begin(), names.end(), gradient.name);
      CROSSTALK_CHECK(at != names.end(), "gradients: there is no parameter ", Excerpt(gradient.name),
                      DidYouMean(gradient.name, names));
      const NamedParameter& parameter = parameters_[static_cast<size_t>(at - names.begin())];
      const Tensor& value = parameter.value.value();
      CROSSTALK_CHECK(parameter.trainable, "gradients: ", gradient.name, " is frozen");
      CROSSTALK_CHECK(gradient.tensor.shape() == value.shape() && gradient.tensor.dtype() == value.dtype(),
                      "gradients: ", gradient.name, " is ", gradient.tensor.dtype(), gradient.tensor.shape(),
                      ", and the parameter ", value.dtype(), value.shape());
      values.push_back(&parameter.value);
    }
    module.ZeroGrad();
    for (size_t i = 0; i < given.size(); ++i) values[i]->SetGrad(given[i].tensor.Contiguous());
  }
  ~Gradients() {
    for (const NamedParameter& parameter : parameters_) {
      if (parameter.trainable) parameter.value.ZeroGrad();
    }
  }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  const std::vector<NamedParameter>& parameters() const { return parameters_; }

 private:
  std::vector<NamedParameter> parameters_;
};

Json Step(OptimizerObject& object, std::vector<NamedTensor> given, const char* text) {
  const TrainingConfig& config = *object.config;
  const FieldTable<StepOptions> fields = {{"learning_rate", &StepOptions::learning_rate, {.range = {0, 1e30}}}};
  const StepOptions options = ReadGiven(fields, text);
  const double rate =
      options.learning_rate.value_or(LearningRate(MakeSchedule(config.optimization), object.optimizer->step()));
  if (object.owner->kind() == Kind::kAttention) {
    std::erase_if(given,
                  [](const NamedTensor& one) { return one.name == "X" || one.name == "M" || one.name == "bias"; });
  }
  const Gradients gradients(object.owner->module(), given);
  const double norm = GradientNorm(gradients.parameters());
  const double scale = ClipScale(norm, config.optimization.clip.value_or(0));
  if (!std::isfinite(scale)) {
    const std::string where = DescribeNonFiniteGradient(gradients.parameters());
    Fail(ErrorKind::kNumerical, "step ", object.optimizer->step() + 1,
         ": no update was made: ", where.empty() ? "the sum of the gradients' squares overflows" : where);
  }
  object.optimizer->Step(rate, scale);
  return Json::MakeObject({{"step", object.optimizer->step()}, {"learning_rate", rate}, {"gradient_norm", norm}});
}

void Save(const ModelObject& model, const std::string& folder, const OptimizerObject* optimizer) {
  TrainingConfig config = model.RequireConfig();
  if (optimizer != nullptr) {
    CROSSTALK_CHECK(optimizer->owner.get() == &model, "optimizer is of another model");
    config.optimization = optimizer->config->optimization;
  }
  config.optimization.precision = model.parts.model->precision();
  SaveModel(folder, *model.parts.model, ResolvedConfig(config), model.parts.tokenizer.get(),
            optimizer == nullptr ? nullptr : optimizer->optimizer.get());
}

}  // namespace
}  // namespace crosstalk::c

extern "C" {

ct_status ct_dataset_create(const ct_model* model, const ct_tensor* ids, const char* options, ct_dataset** dataset) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(dataset, "dataset");
    const auto object = Find<ModelObject>(model, "model");
    const Use use(*object, Access::kShared);
    GiveHandle(std::make_shared<DatasetObject>(object, DataOf(*object, ids, options)), dataset);
  });
}

ct_status ct_batches_create(const ct_dataset* dataset, const char* options, ct_batches** batches) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(batches, "batches");
    GiveHandle(MakeBatches(Find<DatasetObject>(dataset, "dataset"), options), batches);
  });
}

ct_status ct_batches_size(const ct_batches* batches, int64_t* size) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(size, "size");
    *size = Find<BatchesObject>(batches, "batches")->size;
  });
}

ct_status ct_batches_at(ct_batches* batches, int64_t index, ct_tensors** batch) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(batch, "batch");
    const auto object = Find<BatchesObject>(batches, "batches");
    CROSSTALK_CHECK(index >= 0 && index <= object->last, "index: ", index, " is not between 0 and ", object->last);
    const Use use(*object, Access::kAlone);
    const crosstalk::Batch made =
        object->training != nullptr ? object->training->Get(index, 0) : object->held_out->Get(index);
    GiveHandle(std::make_shared<TensorsObject>(made.tensors()), batch);
  });
}

ct_status ct_optimizer_create(const void* handle, const char* options, ct_optimizer** optimizer) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(optimizer, "optimizer");
    const auto owner = FindObject(handle, "handle");
    const Use use(*owner, Access::kShared);
    crosstalk::TrainingConfig config;
    if (owner->kind() == Kind::kModel) config = std::static_pointer_cast<ModelObject>(owner)->RequireConfig();
    const crosstalk::Given given = ParseGiven(options);
    config = given.Over(TrainingFieldsNamed(kOptimizerKeys), config);
    given.CheckAllRead();
    GiveHandle(std::make_shared<OptimizerObject>(owner, crosstalk::ResolvedConfig(config)), optimizer);
  });
}

ct_status ct_optimizer_step(ct_optimizer* optimizer, const ct_tensors* gradients, const char* options,
                            const char** json) {
  using namespace crosstalk::c;
  return Call([&] {
    const auto object = Find<OptimizerObject>(optimizer, "optimizer");
    std::vector<crosstalk::NamedTensor> given = TensorsOf(gradients, "gradients");
    const Use use(*object, Access::kAlone);
    const Use parameters_too(*object->owner, Access::kAlone);
    GiveText(Step(*object, std::move(given), options).Dump(), json);
  });
}

ct_status ct_optimizer_state(const ct_optimizer* optimizer, ct_tensors** state) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(state, "state");
    const auto object = Find<OptimizerObject>(optimizer, "optimizer");
    const Use use(*object, Access::kShared);
    GiveHandle(std::make_shared<TensorsObject>(object->optimizer->State()), state);
  });
}

ct_status ct_optimizer_load(ct_optimizer* optimizer, const ct_tensors* state) {
  using namespace crosstalk::c;
  return Call([&] {
    const auto object = Find<OptimizerObject>(optimizer, "optimizer");
    const std::vector<crosstalk::NamedTensor> given = TensorsOf(state, "state");
    for (const crosstalk::NamedTensor& one : given) {
      const auto bad = crosstalk::FindNonFinite(one.tensor, crosstalk::MinusInfinity::kReject);
      if (bad) Fail(crosstalk::ErrorKind::kNumerical, "state: ", one.name, bad->index, " is ", bad->value);
    }
    const Use use(*object, Access::kAlone);
    object->optimizer->LoadState(given);
  });
}

ct_status ct_model_save(const ct_model* model, const char* folder, const ct_optimizer* optimizer) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(folder, "folder");
    CROSSTALK_CHECK(*folder != '\0', "folder is empty");
    const auto object = Find<ModelObject>(model, "model");
    const auto with = optimizer == nullptr ? nullptr : Find<OptimizerObject>(optimizer, "optimizer");
    std::optional<Use> first;  // of an optimizer and its model, everywhere
    if (with != nullptr) first.emplace(*with, Access::kShared);
    const Use use(*object, Access::kShared);
    Save(*object, folder, with.get());
  });
}

}  // extern "C"
