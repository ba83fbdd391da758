#include "crosstalk/models/training/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adamw.h"
#include "crosstalk/nn/optim/lamb.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

struct OptimizerDefaults {
  ScheduleKind schedule;
  double learning_rate;
};

OptimizerDefaults DefaultsOf(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdafactor:
      return {ScheduleKind::kInverseSquareRoot, 0.3};
    case OptimizerKind::kAdamW:
      return {ScheduleKind::kLinear, 1e-3};
    case OptimizerKind::kLamb:
      break;
  }
  return {ScheduleKind::kPolynomial, 1e-2};
}

// The steps that the run is at an end at: those of continued_at, then `steps`. Error(kUsage) unless they ascend.
std::vector<int64_t> Stages(const TrainingConfig& config) {
  std::vector<int64_t> stages;
  if (!config.continued_at.empty()) {
    for (const std::string& text : Split(config.continued_at, ',')) {
      int64_t step = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
      CROSSTALK_CHECK_FIELD(error == std::errc() && end == text.data() + text.size() && step >= 1, "continued_at",
                            Quoted(config.continued_at), " is not a list of steps such as 2000,3000");
      stages.push_back(step);
    }
  }
  stages.push_back(config.steps);
  for (size_t i = 1; i < stages.size(); ++i) {
    CROSSTALK_CHECK_FIELD(stages[i - 1] < stages[i], "continued_at", Quoted(config.continued_at),
                          " does not ascend to steps = ", config.steps);
  }
  return stages;
}

}  // namespace

ResolvedConfig::ResolvedConfig(const TrainingConfig& config) : config_(config) {
  TrainingConfig& c = config_;
  CheckFields(TrainingFields(), c);
  const ModelType& model = FindModel(c.model);
  if (!c.objective) c.objective = model.objectives[0];
  const auto& objectives = model.objectives;
  CROSSTALK_CHECK_FIELD(std::find(objectives.begin(), objectives.end(), *c.objective) != objectives.end(), "objective",
                        "model ", c.model, " cannot be trained on ", *c.objective, "; it can on ",
                        Join({objectives.begin(), objectives.end()}, ", "));
  CheckFieldsAreRead(TrainingFields(), c);  // before defaults are filled in, and once more with them
  CROSSTALK_CHECK_FIELD(c.tokenizer != "sentencepiece" || c.vocabulary >= kSmallestSentencePieceVocabulary,
                        "vocabulary", c.vocabulary, " is less than ", kSmallestSentencePieceVocabulary,
                        ", which a SentencePiece tokenizer that is trained needs at least");
  if (model.resolve != nullptr) model.resolve(c);
  CROSSTALK_CHECK_FIELD(c.batch % c.accumulate == 0, "accumulate", c.accumulate, " does not cut the batch of ", c.batch,
                        " into equal parts");
  // What the model has no default of its own for.
  if (!c.attention_scale) c.attention_scale = AttentionScale::kFolded;
  if (!c.feed_forward) c.feed_forward = FeedForwardKind::kRelu;
  if (!c.optimizer) c.optimizer = OptimizerKind::kAdafactor;
  if (!c.clip) c.clip = 0;
  if (!c.z_loss) c.z_loss = 1e-4;
  const OptimizerDefaults defaults = DefaultsOf(*c.optimizer);
  if (!c.schedule) c.schedule = defaults.schedule;
  if (!c.learning_rate) c.learning_rate = defaults.learning_rate;
  const int64_t planned = Stages(c)[0];  // what a run is continued for changes none of its defaults
  if (!c.warmup) c.warmup = std::min(std::max<int64_t>(30, planned / 50), planned / 2);
  if (!c.eval_every) c.eval_every = std::max<int64_t>(1, planned / 8);
  if (!c.checkpoint_every) c.checkpoint_every = *c.eval_every;
  CheckFieldsAreRead(TrainingFields(), c);
  MakeSchedule(c).Validate();
  model.configure(c, VocabularyOf(c, nullptr));
}

Json ToJson(const TrainingConfig& config) { return FieldsToJson(TrainingFields(), config); }

// A run's file may hold values of fields that its optimizer, schedule or objective does not read. They decide nothing.
void ForgetWhatIsNotRead(TrainingConfig& config) {
  const TrainingConfig defaults;
  TrainingConfig named = config;
  named.objective = ObjectiveOf(config).name;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    const bool of_a_model =
        std::string_view(field.options.read_by.key) == "model";  // such a value is a fault of the file
    if (!of_a_model && !IsRead(TrainingFields(), named, field)) field.set(config, field.get(defaults));
  }
}

TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source) {
  TrainingConfig config = FieldsFromJson(TrainingFields(), json, source);
  try {
    ForgetWhatIsNotRead(config);
    const ResolvedConfig valid(config);
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  return config;
}

std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there) {
  TrainingConfig continued = there;
  const std::vector<int64_t> now = Stages(here), before = Stages(there);
  if (now.size() > before.size() && std::equal(before.begin(), before.end(), now.begin())) {
    continued.steps = here.steps;
    continued.continued_at = here.continued_at;
  }
  return FieldDifferences(TrainingFields(), here, continued);
}

TrainingConfig Continued(TrainingConfig run, int64_t steps) {
  run.continued_at += StrCat(run.continued_at.empty() ? "" : ",", run.steps);
  run.steps = steps;
  return run;
}

int64_t EndOfStage(const TrainingConfig& config, int64_t step) {
  const std::vector<int64_t> stages = Stages(config);
  const auto end = std::lower_bound(stages.begin(), stages.end(), step);
  return end == stages.end() ? config.steps : *end;
}

std::vector<std::string> FrozenNames(const TrainingConfig& config) {
  if (config.frozen.empty() || config.frozen == "none") return {};
  return Split(config.frozen, ',');
}

void Freeze(const TrainingConfig& config, Module& model) {
  const std::vector<std::string> names = FrozenNames(config);
  if (names.empty()) return;
  for (const std::string& name : names) {
    CROSSTALK_CHECK_FIELD(!name.empty(), "frozen", Quoted(config.frozen), " has an empty name");
    try {
      model.SetTrainable(name, Module::Trainable::kNo);
    } catch (const Error& error) {
      FailField(error.kind(), "frozen", error.what());
    }
  }
  const std::vector<NamedParameter> parameters = model.Parameters();
  CROSSTALK_CHECK_FIELD(
      std::any_of(parameters.begin(), parameters.end(), [](const auto& one) { return one.trainable; }), "frozen",
      Quoted(config.frozen), " names all parameters, which leaves nothing to train");
}

AttentionConfig MakeAttentionLayer(const TrainingConfig& config, std::optional<AttentionKind> kind) {
  AttentionOptions options = config.attention;
  if (kind) options.kind = *kind;
  AttentionConfig layer = MakeAttentionConfig(options, config.d_model);
  if (config.attention_scale == AttentionScale::kExplicit && layer.d_k > 0) {
    layer.scale = 1.0 / std::sqrt(static_cast<double>(layer.d_k));
  }
  layer.key_value = config.keys_values;
  // Only a layer that has P_l or P_w can start with the identity.
  if (layer.mixing.P_l || layer.mixing.P_w) layer.mixing_init = config.mixing_init;
  layer.dropout_rate = config.dropout;
  layer.implementation = config.implementation;
  layer.Validate();
  return layer;
}

namespace {

AdamWConfig MakeAdamConfig(const TrainingConfig& config) {
  return {.beta1 = config.adam_beta1,
          .beta2 = config.adam_beta2,
          .epsilon = config.adam_epsilon,
          .weight_decay = config.weight_decay,
          .bias_correction = config.bias_correction.value_or(AdamWConfig::BiasCorrection::kYes)};
}

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const TrainingConfig& config, std::vector<NamedParameter> parameters) {
  switch (config.optimizer.value_or(OptimizerKind::kAdafactor)) {
    case OptimizerKind::kAdafactor:
      return std::make_unique<Adafactor>(std::move(parameters));
    case OptimizerKind::kAdamW:
      return std::make_unique<AdamW>(std::move(parameters), MakeAdamConfig(config));
    case OptimizerKind::kLamb:
      break;
  }
  return std::make_unique<Lamb>(std::move(parameters), MakeAdamConfig(config));
}

LossOptions MakeLossOptions(const TrainingConfig& config) { return {.z_loss = config.z_loss.value_or(0)}; }

const ObjectiveType& ObjectiveOf(const TrainingConfig& config) {
  return FindObjective(config.objective ? *config.objective : FindModel(config.model).objectives[0]);
}

Vocabulary VocabularyOf(const TrainingConfig& config, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return {.size = tokenizer->vocab_size(), .tokens = tokenizer->special_tokens()};
  const TokenizerNeeds& needs = ObjectiveOf(config).tokenizer;
  Vocabulary vocabulary = {.size = config.vocabulary + needs.sentinels, .tokens = {}};
  if (needs.mask_tokens == MaskTokens::kYes) vocabulary.tokens = WithMaskTokens({}, kSpecialIds);
  return vocabulary;
}

ScheduleConfig MakeSchedule(const TrainingConfig& config) {
  ScheduleConfig schedule;
  schedule.kind = config.schedule.value_or(ScheduleKind::kInverseSquareRoot);
  schedule.scale = config.learning_rate.value_or(1.0);
  schedule.warmup_steps = config.warmup.value_or(1);
  schedule.total_steps = config.steps;
  schedule.earlier_totals = Stages(config);
  schedule.earlier_totals.pop_back();
  schedule.decay_fraction = config.decay;
  schedule.final_rate = config.final_learning_rate;
  schedule.power = config.decay_power;
  return schedule;
}

}  // namespace crosstalk
