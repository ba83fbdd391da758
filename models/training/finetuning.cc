#include "crosstalk/models/training/finetuning.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

TrainingConfig ConfigToBegin(const Given& given) {
  return ConfigToBegin([&](TrainingConfig base) { return given.Over(TrainingFields(), std::move(base)); }, {});
}

TrainingConfig ConfigToBegin(const std::function<TrainingConfig(TrainingConfig)>& over,
                             const TrainingConfig& defaults) {
  TrainingConfig config = over(defaults);
  const std::string& init_from = config.optimization.init_from;
  if (init_from.empty()) return config;
  const TrainingConfig origin = LoadOrigin(init_from, TrainedParts::kConfig).config;
  TakeModelOf(origin, config);
  config = over(config);
  CROSSTALK_CHECK_FIELD(config.model.name == origin.model.name, "model", config.model.name,
                        " cannot begin with the weights of ", init_from, ", which are those of ", origin.model.name);
  return config;
}

TrainingConfig ConfigToResume(const Given& given, const ResumeOptions& resume, const std::string& folder) {
  const TrainingConfig run = resume.from == ResumeOptions::From::kPath
                                 ? OpenRun(resume.path, {.parts = TrainedParts::kConfig}).config
                                 : ReadRunConfig(RunFolder(folder));
  TrainingConfig config = given.Over(TrainingFields(), run);
  const int64_t before = run.optimization.steps, steps = config.optimization.steps;
  CROSSTALK_CHECK_FIELD(steps >= before, "steps", "the run has ", before,
                        "; it can be continued for more, and not made shorter to ", steps);
  if (steps > before && config.optimization.continued_at == run.optimization.continued_at) {
    config.optimization.steps = before;
    return Continued(config, steps);
  }
  return config;
}

std::string AbsolutePath(const char* field, const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    FailField(ErrorKind::kUsage, field, path,
              " is relative to the working folder, which cannot be told: ", error.message());
  }
  std::filesystem::path plain;
  for (const std::filesystem::path& part : absolute) {
    if (part != ".") plain /= part;
  }
  return plain.string();
}

void MakePathsAbsolute(TrainingConfig* config) {
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    const std::vector<std::string>& names = field.options.not_paths;
    if (!field.options.is_path) continue;
    const std::string value = field.get(*config).AsString();
    if (std::find(names.begin(), names.end(), value) == names.end()) {
      field.set(*config, AbsolutePath(field.key.c_str(), value));
    }
  }
}

namespace {

struct PublishedSettings {
  const char* model;
  const char* task;  // "": all others
  double learning_rate;
  int64_t batch;
  FinetuningLength length;
};

// T5: Raffel et al. 2019 (262,144 steps of 128, which only large machines take: three passes here). Language models:
// GPT's, Radford et al. 2018, section 4.1. BERT: Devlin et al. 2018, appendix A.3. ALBERT: Lan et al. 2019, appendix
// A.4.
constexpr PublishedSettings kPublished[] = {
    {"t5", "", 1e-3, 32, {.epochs = 3, .steps = 0, .warmup = 0}},
    {"lm", "", 6.25e-5, 32, {.epochs = 3, .steps = 0, .warmup = 0.002}},
    {"bert", "squad", 5e-5, 32, {.epochs = 3, .steps = 0, .warmup = 0.1}},
    {"bert", "squad-v2", 5e-5, 48, {.epochs = 2, .steps = 0, .warmup = 0.1}},
    {"bert", "", 3e-5, 32, {.epochs = 3, .steps = 0, .warmup = 0.1}},
    {"albert", "cola", 1e-5, 16, {.epochs = 0, .steps = 5336, .warmup = 320.0 / 5336}},
    {"albert", "sts-b", 2e-5, 16, {.epochs = 0, .steps = 3598, .warmup = 214.0 / 3598}},
    {"albert", "sst-2", 1e-5, 32, {.epochs = 0, .steps = 20935, .warmup = 1256.0 / 20935}},
    {"albert", "mnli-m", 3e-5, 128, {.epochs = 0, .steps = 10000, .warmup = 0.1}},
    {"albert", "mnli-mm", 3e-5, 128, {.epochs = 0, .steps = 10000, .warmup = 0.1}},
    {"albert", "qnli", 1e-5, 32, {.epochs = 0, .steps = 33112, .warmup = 1986.0 / 33112}},
    {"albert", "qqp", 5e-5, 128, {.epochs = 0, .steps = 14000, .warmup = 1000.0 / 14000}},
    {"albert", "rte", 3e-5, 32, {.epochs = 0, .steps = 800, .warmup = 0.25}},
    {"albert", "mrpc", 2e-5, 32, {.epochs = 0, .steps = 800, .warmup = 0.25}},
    {"albert", "wnli", 2e-5, 16, {.epochs = 0, .steps = 2000, .warmup = 0.125}},
    {"albert", "squad", 5e-5, 48, {.epochs = 0, .steps = 3649, .warmup = 365.0 / 3649}},
    {"albert", "squad-v2", 3e-5, 48, {.epochs = 0, .steps = 8144, .warmup = 814.0 / 8144}},
    {"albert", "race", 1e-5, 32, {.epochs = 0, .steps = 12000, .warmup = 1000.0 / 12000}},
    {"albert", "", 2e-5, 32, {.epochs = 3, .steps = 0, .warmup = 0.1}},
};

const PublishedSettings& SettingsOf(std::string_view model, std::string_view task) {
  const auto found = std::find_if(std::begin(kPublished), std::end(kPublished), [&](const PublishedSettings& one) {
    return model == one.model && (task == one.task || one.task[0] == '\0');
  });
  CROSSTALK_CHECK_FIELD(found != std::end(kPublished), "model", model, " has no published settings for tasks");
  return *found;
}

const char* TaskObjective(const ModelType& model) {
  for (const char* name : model.objectives) {
    if (FindObjective(name).learns_tasks()) return name;
  }
  FailField(ErrorKind::kUsage, "model", model.name,
            " learns no tasks: it has neither a head for them nor writes their answers");
}

// Whether a head answers, upon an encoder; else the answer is written, text to text.
bool AnswersByHead(const TrainingConfig& config) { return ObjectiveOf(config).heads != nullptr; }

// `model` is the origin's, or null where it has not been read.
int64_t InputLength(const TrainingConfig& config, const TaskType& task, const Model* model) {
  int64_t length = 128;
  if (!AnswersByHead(config) || task.form == TaskForm::kMultipleChoice) length = 512;
  if (AnswersByHead(config) && task.form == TaskForm::kSpan) length = 384;
  if (model != nullptr && ObjectiveOf(config).inputs_hold_targets) {
    constexpr int64_t kShortest = 4;  // the field's
    length = std::min(length, std::max(kShortest, model->config().context + 1 - config.objective.target_length));
  }
  return (model == nullptr ? config.model : model->config()).WithinPositions(length);
}

}  // namespace

TrainingConfig FinetuningConfig(const Trained& origin, const std::string& tasks, FinetuningLength* length) {
  TrainingConfig config;
  TakeModelOf(origin.config, config);
  config.objective.name = TaskObjective(FindModel(config.model.name));
  ResetUnusedFields(config);
  const std::vector<const TaskType*> types = ParseTasks(tasks);
  const PublishedSettings& published = SettingsOf(config.model.name, types[0]->name);
  *length = published.length;
  config.objective.tasks = tasks;
  config.optimization.batch = published.batch;
  config.optimization.learning_rate = published.learning_rate;
  // A language model's own is its publishers': GPT-2's 0.1, Llama's 0.
  if (config.model.name != "lm") config.model.dropout_rate = 0.1;
  if (config.model.name != "t5") {
    config.optimization.optimizer = OptimizerKind::kAdamW;
    config.optimization.schedule = ScheduleKind::kLinear;
  } else {
    config.optimization.optimizer = OptimizerKind::kAdafactor;
    config.optimization.schedule = ScheduleKind::kConstant;
    config.optimization.frozen = "embedding";
    const bool carries =
        origin.has_optimizer_state && origin.config.optimization.optimizer == OptimizerKind::kAdafactor;
    if (carries) config.optimization.optimizer_start = OptimizerStart::kCarried;
  }
  config.objective.input_length = InputLength(config, *types[0], origin.model.get());
  return config;
}

std::vector<std::string> FieldsOfTheOrigin() {
  std::vector<std::string> keys = {"tokenizer", "vocabulary"};
  for (const Field<TrainingConfig>& field : FixedFields()) keys.push_back(field.key);
  return keys;
}

void SetSteps(const FinetuningLength& length, const std::function<int64_t()>& count_examples, TrainingConfig* config) {
  if (config->optimization.steps == 0) config->optimization.steps = length.steps;
  if (config->optimization.steps == 0) {
    const double passed = length.epochs * static_cast<double>(count_examples());
    const double steps = std::ceil(passed / static_cast<double>(config->optimization.batch));
    config->optimization.steps = std::max<int64_t>(2, static_cast<int64_t>(steps));  // a warm-up and one more
  }
  if (!config->optimization.warmup) {
    const int64_t share = std::llround(length.warmup * static_cast<double>(config->optimization.steps));
    config->optimization.warmup = std::min(std::max<int64_t>(1, share), config->optimization.steps - 1);
  }
}

}  // namespace crosstalk
