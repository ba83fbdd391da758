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
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

using Config = TrainingConfig;
constexpr AffectsResult kNoEffect = AffectsResult::kNo;
// Sizes whose products stay far from overflow: no machine holds more.
constexpr FieldRange kSize = {1, 16'777'216};
constexpr FieldRange kShare = {0, 1};
constexpr FieldRange kFactor = {0, 1e30};
constexpr int64_t kMostSteps = 2'147'483'647;

FieldTable<Config> Grouped(const char* group, FieldTable<Config> rows) {
  for (Field<Config>& row : rows) row.group = group;
  return rows;
}

FieldTable<Config> DataFields() {
  return Grouped(
      "Data",
      {MakeField("data", &Config::data,
                 {.placeholder = "PATH",
                  .help = "Text to train on: a UTF-8 file, a .jsonl file with a text field, or a folder of .txt and "
                          ".jsonl files, also in folders within it; the built-in corpus by default.",
                  .affects_result = kNoEffect}),  // compared by content
       MakeField("validation", &Config::validation,
                 {.placeholder = "PATH",
                  .help = "Text to measure on; held out of the data by default.",
                  .affects_result = kNoEffect}),
       MakeField("tokenizer", &Config::tokenizer,
                 {.placeholder = "KIND",
                  .help = "bytes; characters or sentencepiece, made from the training part; or a SentencePiece "
                          "FILE.model."}),
       MakeField("vocabulary", &Config::vocabulary,
                 {.placeholder = "N",
                  .help = "Pieces or characters of a tokenizer that is made here, at most: little text gives fewer. "
                          "Span corruption's 100 sentinels come on top.",
                  .range = {16, 1'000'000}}),
       MakeField(
           "objective", &Config::objective,
           {.placeholder = "NAME", .help = "What is learnt; the model's own by default.", .choices = ObjectiveNames()}),
       MakeField("input_length", &Config::input_length,
                 {.placeholder = "N",
                  .help = "Input tokens an example; the targets' length follows from the objective.",
                  .range = {4, 16'777'216}}),
       MakeField("noise_density", &Config::noise_density,
                 {.placeholder = "SHARE",
                  .help = "Of span corruption: part of the tokens that is hidden.",
                  .range = {0.001, 0.999}}),
       MakeField("mean_span_length", &Config::mean_span_length,
                 {.placeholder = "X",
                  .help = "Of span corruption: mean length of what is hidden at a time, in tokens.",
                  .range = {1, 1000}})});
}

FieldTable<Config> ModelFields() {
  FieldTable<Config> rows = {MakeField("model", &Config::model, {.help = "Kind of model.", .choices = ModelNames()})};
  for (Field<Config>& row : FieldsOfPart(AttentionFields(), &Config::attention)) rows.push_back(std::move(row));
  const FieldTable<Config> more = {
      MakeField("encoder_self", &Config::encoder_self_kind,
                {.placeholder = "KIND", .help = "Kind in the encoder; as attention by default."}),
      MakeField("decoder_self", &Config::decoder_self_kind,
                {.placeholder = "KIND", .help = "Kind in the decoder; as attention by default."}),
      MakeField("encoder_decoder", &Config::encoder_decoder_kind,
                {.placeholder = "KIND", .help = "Kind between decoder and encoder; as attention by default."}),
      MakeField("mixing_init", &Config::mixing_init, {.help = "How P_l and P_w start."}),
      MakeField("attention_scale", &Config::attention_scale,
                {.help = "Logits' factor 1/sqrt(d_k): folded into P_q's initial values, or explicit."}),
      MakeField("keys_values", &Config::keys_values, {.help = "tied: V = K."}),
      MakeField("implementation", &Config::implementation,
                {.help = "fused: one kernel that keeps nothing of size n·m; composed: the paper's pseudocode in "
                         "einsum."}),
      MakeField("d_model", &Config::d_model, {.placeholder = "N", .help = "Width of the model.", .range = kSize}),
      MakeField("d_ff", &Config::d_ff,
                {.placeholder = "N", .help = "Width inside the feed-forward layers.", .range = kSize}),
      MakeField("layers", &Config::layers,
                {.placeholder = "N", .help = "Blocks; of the encoder, where there is one.", .range = {1, kMostLayers}}),
      MakeField(
          "decoder_layers", &Config::decoder_layers,
          {.placeholder = "N", .help = "Blocks of the decoder; as layers by default.", .range = {1, kMostLayers}}),
      MakeField("feed_forward", &Config::feed_forward, {.help = "Feed-forward layer."}),
      MakeField("classifier", &Config::classifier, {.help = "tied: to the embedding."}),
      MakeField("positions", &Config::positions,
                {.help = "How positions are known: a relative bias, learned vectors added to the embedding, or not "
                         "but by what each can see.",
                 .may_be_missing = true}),
      MakeField("relative_buckets", &Config::relative_buckets,
                {.placeholder = "N", .help = "Buckets of the relative position bias.", .range = {4, 512}}),
      MakeField("relative_attention_max_distance", &Config::relative_attention_max_distance,
                {.placeholder = "N",
                 .help = "Distance from which on all positions share the last bucket.",
                 .range = {1, 1'000'000}}),
      MakeField("dropout", &Config::dropout,
                {.placeholder = "RATE", .help = "Share of activations dropped in training.", .range = {0, 0.99}})};
  rows.insert(rows.end(), more.begin(), more.end());
  return Grouped("Model", std::move(rows));
}

FieldTable<Config> OptimisationFields() {
  return Grouped(
      "Optimisation",
      {MakeField(
           "init_from", &Config::init_from,
           {.placeholder = "PATH",
            .help = "Begin with the weights of another run (its newest good checkpoint) or of one checkpoint. Its "
                    "model, tokenizer, objective and lengths are taken over; data, optimizer, schedule and steps "
                    "are this run's own.",
            .affects_result = kNoEffect,  // compared by the weights
            .may_be_missing = true}),
       MakeField("frozen", &Config::frozen,
                 {.placeholder = "NAMES",
                  .help = "Parameters that stay as they begin, by paths that commas separate; * stands for any "
                          "characters: embedding,encoder.block_0,*.P_l.",
                  .may_be_missing = true}),
       MakeField("steps", &Config::steps,
                 {.placeholder = "N", .help = "Updates in the whole run.", .range = {1, kMostSteps}}),
       MakeField(
           "continued_at", &Config::continued_at,
           {.placeholder = "LIST",
            .help = "Steps at which the run was at its end before it went on: up to each, the schedule is that of "
                    "a run of so many steps.",
            .may_be_missing = true}),
       MakeField("batch", &Config::batch, {.placeholder = "N", .help = "Examples a step.", .range = kSize}),
       MakeField(
           "accumulate", &Config::accumulate,
           {.placeholder = "N", .help = "Parts that a step's batch is computed in, to save memory.", .range = kSize}),
       MakeField("optimizer", &Config::optimizer, {.help = "Optimizer."}),
       MakeField("schedule", &Config::schedule,
                 {.placeholder = "NAME",
                  .help = "Course of the learning rate; inverse-square-root for adafactor, linear for adamw by "
                          "default."}),
       MakeField("learning_rate", &Config::learning_rate,
                 {.placeholder = "X",
                  .help = "Scale of the schedule; by default 0.3 for adafactor, whose steps are relative (the paper: "
                          "1), and 0.001 for adamw.",
                  .range = kFactor}),
       MakeField("warmup", &Config::warmup,
                 {.placeholder = "N",
                  .help = "Steps of warm-up; by default a fiftieth of the run, at least 30, at most half of it (the "
                          "paper: 10000).",
                  .range = AtLeast(1)}),
       MakeField("decay", &Config::decay,
                 {.placeholder = "SHARE",
                  .help = "Last part of the run, in which inverse-square-root falls to 0.",
                  .range = kShare}),
       MakeField("final_learning_rate", &Config::final_learning_rate,
                 {.placeholder = "X",
                  .help = "What the schedule cosine falls to.",
                  .range = kFactor,
                  .may_be_missing = true}),
       MakeField("weight_decay", &Config::weight_decay, {.placeholder = "X", .help = "For adamw.", .range = {0, 1e6}}),
       MakeField("adam_beta1", &Config::adam_beta1,
                 {.placeholder = "X",
                  .help = "Of adamw: what the mean of gradients keeps of itself at a step.",
                  .range = {0, 0.999999},
                  .may_be_missing = true}),
       MakeField("adam_beta2", &Config::adam_beta2,
                 {.placeholder = "X",
                  .help = "Of adamw: the same of the mean of their squares.",
                  .range = {0, 0.999999},
                  .may_be_missing = true}),
       MakeField("adam_epsilon", &Config::adam_epsilon,
                 {.placeholder = "X",
                  .help = "Of adamw: added to the root of that mean.",
                  .range = {1e-18, 1},
                  .may_be_missing = true}),
       MakeField("clip", &Config::clip,
                 {.placeholder = "NORM", .help = "Largest norm of all gradients together; 0: none.", .range = kFactor}),
       MakeField("z_loss", &Config::z_loss,
                 {.placeholder = "X", .help = "Factor of log²Z in the training loss.", .range = {0, 1e6}}),
       MakeField("loss_denominator", &Config::loss_denominator,
                 {.help = "What the loss is averaged over: real target tokens, or padding too, as published."}),
       MakeField(
           "activations", &Config::activations,
           {.help = "recompute: a third more work for much less memory; the same bits.", .affects_result = kNoEffect}),
       MakeField("seed", &Config::seed,
                 {.placeholder = "N",
                  .help = "Decides initial values, the order and making of examples, and dropout.",
                  .range = {0, 9.2e18}})});
}

FieldTable<Config> RunFields() {
  return Grouped(
      "Run",
      {MakeField("eval_every", &Config::eval_every,
                 {.placeholder = "N",
                  .help = "Steps between held-out measures; an eighth of the run by default; 0: at the end only.",
                  .range = AtLeast(0),
                  .affects_result = kNoEffect}),
       MakeField("eval_batches", &Config::eval_batches,
                 {.placeholder = "N",
                  .help = "Batches of a held-out measure, at most.",
                  .range = AtLeast(1),
                  .affects_result = kNoEffect}),
       MakeField("checkpoint_every", &Config::checkpoint_every,
                 {.placeholder = "N",
                  .help = "Steps between checkpoints; as eval_every by default; 0: at the end only.",
                  .range = AtLeast(0),
                  .affects_result = kNoEffect}),
       MakeField("keep", &Config::keep,
                 {.placeholder = "N",
                  .help = "Newest checkpoints kept, beside the best one.",
                  .range = {1, 1'000'000},
                  .affects_result = kNoEffect}),
       MakeField("log_every", &Config::log_every,
                 {.placeholder = "N",
                  .help = "Steps between lines of metrics.jsonl.",
                  .range = AtLeast(1),
                  .affects_result = kNoEffect})});
}

// A field that the model does not read and that somebody has set would be dropped without a word.
void CheckFieldsAreRead(const TrainingConfig& config) {
  const TrainingConfig defaults;
  for (const Field<Config>& field : TrainingFields()) {
    const std::vector<std::string> owners = ModelsThatOwn(field.key);
    if (owners.empty() || std::find(owners.begin(), owners.end(), config.model) != owners.end()) continue;
    CROSSTALK_CHECK_FIELD(field.get(config) == field.get(defaults), field.key, "model ", config.model,
                          " has no use for it; it is for ", Join(owners, ", "));
  }
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

const FieldTable<AttentionOptions>& AttentionFields() {
  using Options = AttentionOptions;
  static const FieldTable<Options> table = {
      MakeField("attention", &Options::kind, {.placeholder = "KIND", .help = "Kind of attention."}),
      MakeField("heads", &Options::heads, {.placeholder = "N", .help = "Softmax heads, h.", .range = kSize}),
      MakeField("key_heads", &Options::key_heads,
                {.placeholder = "N", .help = "Key heads, h_k; as heads by default.", .range = kSize}),
      MakeField("value_heads", &Options::value_heads,
                {.placeholder = "N", .help = "Value heads, h_v; as heads by default.", .range = kSize}),
      MakeField("key_size", &Options::key_size,
                {.placeholder = "N", .help = "Size of a key, d_k; d_model / h_k by default.", .range = kSize}),
      MakeField("value_size", &Options::value_size,
                {.placeholder = "N", .help = "Size of a value, d_v; d_model / h_v by default.", .range = kSize}),
      MakeField(
          "dynamic", &Options::dynamic,
          {.placeholder = "LIST", .help = "Dynamic projections beside the kind's own: some of Xl,Ml,Xw,Mw, or none."})};
  return table;
}

const FieldTable<TrainingConfig>& TrainingFields() {
  static const FieldTable<Config> table = [] {
    FieldTable<Config> all;
    for (FieldTable<Config>& part : std::vector{DataFields(), ModelFields(), OptimisationFields(), RunFields()}) {
      for (Field<Config>& row : part) all.push_back(std::move(row));
    }
    for (Field<Config>& row : all) {
      const std::vector<std::string> owners = ModelsThatOwn(row.key);
      if (!owners.empty() && owners.size() < ModelTypes().size()) row.options.help += " (" + Join(owners, ", ") + ")";
    }
    return all;
  }();
  return table;
}

ResolvedConfig::ResolvedConfig(const TrainingConfig& config) : config_(config) {
  TrainingConfig& c = config_;
  CheckFields(TrainingFields(), c);
  CheckFieldsAreRead(c);
  const ModelType& model = FindModel(c.model);
  if (!c.objective) c.objective = model.objectives[0];
  const auto& objectives = model.objectives;
  CROSSTALK_CHECK_FIELD(std::find(objectives.begin(), objectives.end(), *c.objective) != objectives.end(), "objective",
                        "model ", c.model, " cannot be trained on ", *c.objective, "; it can on ",
                        Join({objectives.begin(), objectives.end()}, ", "));
  CROSSTALK_CHECK_FIELD(c.tokenizer != "sentencepiece" || c.vocabulary >= kSmallestSentencePieceVocabulary,
                        "vocabulary", c.vocabulary, " is less than ", kSmallestSentencePieceVocabulary,
                        ", which a SentencePiece tokenizer that is trained needs at least");
  if (model.resolve != nullptr) model.resolve(c);
  CROSSTALK_CHECK_FIELD(c.batch % c.accumulate == 0, "accumulate", c.accumulate, " does not cut the batch of ", c.batch,
                        " into equal parts");
  const bool adafactor = c.optimizer == OptimizerKind::kAdafactor;
  if (!c.schedule) c.schedule = adafactor ? ScheduleKind::kInverseSquareRoot : ScheduleKind::kLinear;
  if (!c.learning_rate) c.learning_rate = adafactor ? 0.3 : 1e-3;
  const int64_t planned = Stages(c)[0];  // what a run is continued for changes none of its defaults
  if (!c.warmup) c.warmup = std::min(std::max<int64_t>(30, planned / 50), std::max<int64_t>(1, planned / 2));
  if (!c.eval_every) c.eval_every = std::max<int64_t>(1, planned / 8);
  if (!c.checkpoint_every) c.checkpoint_every = *c.eval_every;
  MakeSchedule(c).Validate();
  model.configure(c, VocabularyOf(c, nullptr));
}

Json ToJson(const TrainingConfig& config) { return FieldsToJson(TrainingFields(), config); }

TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source) {
  const TrainingConfig config = FieldsFromJson(TrainingFields(), json, source);
  try {
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

void Freeze(const TrainingConfig& config, Module& model) {
  if (config.frozen.empty()) return;
  for (const std::string& name : Split(config.frozen, ',')) {
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

std::unique_ptr<Optimizer> MakeOptimizer(const TrainingConfig& config, std::vector<NamedParameter> parameters) {
  switch (config.optimizer) {
    case OptimizerKind::kAdafactor:
      return std::make_unique<Adafactor>(std::move(parameters));
    case OptimizerKind::kAdamW:
      break;
  }
  AdamWConfig adamw;
  adamw.beta1 = config.adam_beta1;
  adamw.beta2 = config.adam_beta2;
  adamw.epsilon = config.adam_epsilon;
  adamw.weight_decay = config.weight_decay;
  return std::make_unique<AdamW>(std::move(parameters), adamw);
}

LossOptions MakeLossOptions(const TrainingConfig& config) { return {.z_loss = config.z_loss}; }

const ObjectiveType& ObjectiveOf(const TrainingConfig& config) {
  return FindObjective(config.objective ? *config.objective : FindModel(config.model).objectives[0]);
}

Vocabulary VocabularyOf(const TrainingConfig& config, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return {.size = tokenizer->vocab_size(), .tokens = tokenizer->special_tokens()};
  return {.size = config.vocabulary + ObjectiveOf(config).tokenizer.sentinels, .tokens = {}};
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
  return schedule;
}

}  // namespace crosstalk
