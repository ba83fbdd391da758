#include "crosstalk/models/training/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/bpe_training.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

struct OptimizerDefaults {
  ScheduleKind schedule;
  double learning_rate;
};

OptimizerDefaults DefaultsOf(const OptimizationConfig& config) {
  switch (*config.optimizer) {
    case OptimizerKind::kAdafactor:
      // The rate of new weights would undo what an origin's have learned; this is T5's finetuning.
      if (!config.init_from.empty()) return {ScheduleKind::kConstant, 1e-3};
      return {ScheduleKind::kInverseSquareRoot, 0.3};
    case OptimizerKind::kAdamW:
      return {ScheduleKind::kLinear, 1e-3};
    case OptimizerKind::kLamb:
      break;
  }
  return {ScheduleKind::kPolynomial, 1e-2};
}

// The steps that the run is at an end at: those of continued_at, then `steps`. Error(kUsage) unless they ascend.
std::vector<int64_t> Stages(const OptimizationConfig& config) {
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

// Training settings that the configuration leaves open.
void TakeRecipe(const Recipe& recipe, TrainingConfig& config) {
  OptimizationConfig& optimization = config.optimization;
  if (!optimization.optimizer) optimization.optimizer = recipe.optimizer;
  // Adafactor has none to leave out.
  if (!optimization.bias_correction && optimization.optimizer != OptimizerKind::kAdafactor) {
    optimization.bias_correction = recipe.bias_correction;
  }
  if (!optimization.clip) optimization.clip = recipe.clip;
  if (!optimization.z_loss) optimization.z_loss = recipe.z_loss;
  if (ObjectiveOf(config).learns_tasks()) return;
  if (!config.objective.masking) config.objective.masking = recipe.masking;
  if (!config.objective.sentence_task) config.objective.sentence_task = recipe.sentence_task;
}

}  // namespace

ResolvedConfig::ResolvedConfig(const TrainingConfig& config) : config_(config) {
  TrainingConfig& c = config_;
  CheckFields(TrainingFields(), c);
  const ModelType& model = FindModel(c.model.name);
  if (!c.objective.name) c.objective.name = model.objectives[0];
  const auto& objectives = model.objectives;
  CROSSTALK_CHECK_FIELD(std::find(objectives.begin(), objectives.end(), *c.objective.name) != objectives.end(),
                        "objective", "model ", c.model.name, " cannot be trained on ", *c.objective.name,
                        "; it can on ", Join({objectives.begin(), objectives.end()}, ", "));
  CheckFieldsAreRead(TrainingFields(), c);  // before defaults are filled in, and once more with them
  CROSSTALK_CHECK_FIELD(c.data.tokenizer != "sentencepiece" || c.data.vocabulary >= kSmallestSentencePieceVocabulary,
                        "vocabulary", c.data.vocabulary, " is less than ", kSmallestSentencePieceVocabulary,
                        ", which a SentencePiece tokenizer that is trained needs at least");
  CROSSTALK_CHECK_FIELD(c.data.tokenizer != "bpe" || c.data.vocabulary >= kSmallestBpeVocabulary, "vocabulary",
                        c.data.vocabulary, " is less than ", kSmallestBpeVocabulary,
                        ", which a byte-pair encoding that is trained needs at least");
  Resolve(c.model, c.objective.input_length);
  TakeRecipe(model.recipe, c);
  OptimizationConfig& o = c.optimization;
  CROSSTALK_CHECK_FIELD(o.shards <= o.batch, "shards", "a batch of ", o.batch, " cannot be cut into ", o.shards,
                        " parts");
  const OptimizerDefaults defaults = DefaultsOf(o);
  if (!o.schedule) o.schedule = defaults.schedule;
  if (!o.learning_rate) o.learning_rate = defaults.learning_rate;
  const int64_t planned = Stages(o)[0];  // what a run is continued for changes none of its defaults
  if (!o.warmup) o.warmup = std::min(std::max<int64_t>(30, planned / 50), planned / 2);
  if (!c.run.eval_every) c.run.eval_every = std::max<int64_t>(1, planned / 8);
  if (!c.run.checkpoint_every) c.run.checkpoint_every = c.run.eval_every;
  CheckFieldsAreRead(TrainingFields(), c);
  MakeSchedule(o).Validate();
  ConfigureModel(c, VocabularyOf(c, nullptr));
}

Json ToJson(const TrainingConfig& config) { return FieldsToJson(TrainingFields(), config); }

// A run's file may hold values of fields that its optimizer, schedule or objective does not read. They have no effect.
void ResetUnusedFields(TrainingConfig& config) {
  const TrainingConfig defaults;
  TrainingConfig named = config;
  named.objective.name = ObjectiveOf(config).name;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    // Such a value is a fault of the file.
    const bool of_a_model = std::string_view(field.options.read_by.key) == "model";
    if (!of_a_model && !IsRead(TrainingFields(), named, field)) field.set(config, field.get(defaults));
  }
}

TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source) {
  TrainingConfig config = FieldsFromJson(TrainingFields(), json, source);
  try {
    ResetUnusedFields(config);
    return *ResolvedConfig(config);
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
}

std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there) {
  TrainingConfig continued = there;
  const std::vector<int64_t> now = Stages(here.optimization), before = Stages(there.optimization);
  if (now.size() > before.size() && std::equal(before.begin(), before.end(), now.begin())) {
    continued.optimization.steps = here.optimization.steps;
    continued.optimization.continued_at = here.optimization.continued_at;
  }
  std::vector<std::string> texts;
  for (const Message& one : FieldDifferences(TrainingFields(), here, continued)) texts.push_back(one.text());
  return texts;
}

TrainingConfig Continued(TrainingConfig run, int64_t steps) {
  run.optimization.continued_at += StrCat(run.optimization.continued_at.empty() ? "" : ",", run.optimization.steps);
  run.optimization.steps = steps;
  return run;
}

int64_t EndOfStage(const OptimizationConfig& config, int64_t step) {
  const std::vector<int64_t> stages = Stages(config);
  const auto end = std::lower_bound(stages.begin(), stages.end(), step);
  return end == stages.end() ? config.steps : *end;
}

int64_t RowsAtATime(const OptimizationConfig& config) { return MostRowsOfPart(config.batch, config.shards); }

std::vector<std::string> FrozenNames(const OptimizationConfig& config) {
  if (config.frozen.empty() || config.frozen == "none") return {};
  return Split(config.frozen, ',');
}

void PrepareModel(const OptimizationConfig& config, Model& model) {
  model.SetPrecision(config.precision);
  model.SetActivations(config.activations);
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

namespace {

kernels::AdamWOptions MakeAdamConfig(const OptimizationConfig& config) {
  return {.beta1 = config.adam_beta1,
          .beta2 = config.adam_beta2,
          .epsilon = config.adam_epsilon,
          .weight_decay = config.weight_decay,
          .bias_correction = config.bias_correction.value_or(kernels::AdamWOptions::BiasCorrection::kYes)};
}

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizationConfig& config, std::vector<NamedParameter> parameters) {
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

LossOptions MakeLossOptions(const OptimizationConfig& config) { return {.z_loss = config.z_loss.value_or(0)}; }

const ObjectiveType& ObjectiveOf(const TrainingConfig& config) {
  return FindObjective(config.objective.name ? *config.objective.name : FindModel(config.model.name).objectives[0]);
}

Vocabulary VocabularyOf(const TrainingConfig& config, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return {.size = tokenizer->vocab_size(), .tokens = tokenizer->special_tokens()};
  const TokenizerNeeds& needs = ObjectiveOf(config).tokenizer;
  Vocabulary vocabulary = {.size = config.data.vocabulary + needs.sentinels, .tokens = {}};
  if (needs.mask_tokens == MaskTokens::kYes) vocabulary.tokens = WithMaskTokens({}, kSpecialIds);
  return vocabulary;
}

namespace {

// The heads that its objective trains.
EncoderHeads HeadsOf(const TrainingConfig& config) {
  const ObjectiveType& objective = ObjectiveOf(config);
  return objective.heads == nullptr ? EncoderHeads() : objective.heads(config.objective);
}

// Tokens of a row that a language model reads, at most.
int64_t RowLength(const TrainingConfig& config) {
  const ObjectiveConfig& objective = config.objective;
  return objective.input_length + (ObjectiveOf(config).inputs_hold_targets ? objective.target_length - 1 : 0);
}

// With all that follows from the other members.
ModelConfig Completed(const TrainingConfig& config, ModelConfig model) {
  const int64_t input_length = config.objective.input_length;
  Resolve(model, input_length);
  const int64_t before = model.first_position;  // positions of no text
  CROSSTALK_CHECK_FIELD(model.WithinPositions(input_length) == input_length, "input_length", input_length,
                        " tokens are more than ", FieldName{"max_positions"}, " = ", *model.max_positions,
                        before == 0 ? "" : StrCat(" less the ", before, " before a text's first"));
  model.context = std::max(model.context, RowLength(config));
  model.answers = ObjectiveOf(config).inputs_hold_targets;
  if (model.answers) {
    CROSSTALK_CHECK_FIELD(model.tokens.end != kNoToken, "objective", ObjectiveOf(config).name,
                          " teaches the end of an answer, and the model has no token that ends a text (eos_token_id)");
    model.ends_texts = true;
  }
  FindModel(model.name).make_layers(model);
  model.Validate();
  return model;
}

}  // namespace

ModelConfig ConfigureModel(const TrainingConfig& config, const Vocabulary& vocabulary) {
  ModelConfig model = config.model;
  model.vocabulary = vocabulary.size;
  model.tokens = vocabulary.tokens;
  model.heads = HeadsOf(config);
  model.norm_epsilon = FindModel(model.name).norm_epsilon;
  return Completed(config, std::move(model));
}

ModelConfig ConfigureModel(const TrainingConfig& config, const ModelConfig& origin, const TrainingConfig& before) {
  ModelConfig model = config.model;
  model.vocabulary = origin.vocabulary;
  model.tokens = origin.tokens;
  model.more_ends = origin.more_ends;
  model.segments = origin.segments;
  model.first_position = origin.first_position;
  model.norm_epsilon = origin.norm_epsilon;
  model.logit_scale = origin.logit_scale;
  model.bias_tables = origin.bias_tables;
  model.learns_padding = origin.learns_padding;
  model.ends_texts = origin.ends_texts;
  model.context = origin.context;
  const int64_t of_answer = RowLength(config) - config.objective.input_length;
  CROSSTALK_CHECK_FIELD(
      model.name != "lm" || model.positions != PositionScheme::kLearned || RowLength(config) <= origin.context,
      "input_length", config.objective.input_length, " tokens",
      of_answer == 0 ? "" : StrCat(" of a prompt and ", of_answer, " of its answer"), " are more than the ",
      origin.context, " that the model has learned positions of");
  const SentenceTask sentences = config.objective.sentence_task.value_or(SentenceTask::kNone);
  CROSSTALK_CHECK_FIELD(origin.segments > 1 || sentences == SentenceTask::kNone, "sentence_task", Name(sentences),
                        " needs a second kind of segment, which the model lacks");
  model.initial_stddev = origin.initial_stddev;
  const EncoderHeads heads = HeadsOf(config);
  model.heads = heads == HeadsOf(before) ? origin.heads : heads;
  const bool drops_as_before = config.model.dropout_rate == before.model.dropout_rate;
  if (drops_as_before) model.dropout_rate = origin.dropout_rate;
  model = Completed(config, std::move(model));
  const auto lists = {&ModelConfig::encoder_self_layers, &ModelConfig::decoder_self_layers,
                      &ModelConfig::encoder_decoder_layers};
  if (std::any_of(lists.begin(), lists.end(), [&](const auto of) { return !(origin.*of).empty(); })) {
    // Options say of layers of several kinds only what is alike in all of them.
    model.encoder_self = origin.encoder_self;
    model.decoder_self = origin.decoder_self;
    model.encoder_decoder = origin.encoder_decoder;
    for (const auto of : lists) model.*of = origin.*of;
    model.SetImplementation(config.model.implementation);
    if (!drops_as_before) model.SetDropout(config.model.dropout_rate);
    return model;
  }
  ModelConfig there = origin;
  const std::vector<AttentionConfig*> layers = model.AttentionLayers(), theirs = there.AttentionLayers();
  for (size_t i = 0; i < layers.size() && layers.size() == theirs.size(); ++i) {
    layers[i]->projection_stddev = theirs[i]->projection_stddev;
    layers[i]->rotary_frequencies = theirs[i]->rotary_frequencies;
    if (drops_as_before) layers[i]->dropout_rate = theirs[i]->dropout_rate;
  }
  return model;
}

ScheduleConfig MakeSchedule(const OptimizationConfig& config) {
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
