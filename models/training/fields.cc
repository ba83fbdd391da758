// The rows of a training configuration: its command line, files, checks and documentation are loops over them.
#include <algorithm>
#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr AffectsResult kNoEffect = AffectsResult::kNo;
// Sizes whose products stay far from overflow: no machine holds more.
constexpr FieldRange kSize = {1, 16'777'216};
constexpr FieldRange kShare = {0, 1};
constexpr FieldRange kFactor = {0, 1e30};
constexpr int64_t kMostSteps = 2'147'483'647;

FieldReaders ByAdam() { return {"optimizer", {Name(OptimizerKind::kAdamW), Name(OptimizerKind::kLamb)}}; }
FieldReaders BySchedules(const std::vector<ScheduleKind>& kinds) {
  FieldReaders readers = {.key = "schedule"};
  for (const ScheduleKind kind : kinds) readers.choices.push_back(Name(kind));
  return readers;
}

FieldReaders ByTexts() {
  FieldReaders readers = {.key = "objective"};
  for (const ObjectiveType& type : ObjectiveTypes()) {
    if (!type.learns_tasks()) readers.choices.push_back(type.name);
  }
  return readers;
}

FieldTable<DataConfig> DataFields() {
  using Config = DataConfig;
  return Grouped<Config>(
      "Data",
      {MakeField("data", &Config::text, "PATH",
                 "Text to train on: a UTF-8 file, a .jsonl file of objects, or a folder of .txt and "
                 ".jsonl files, also in folders within it, all as .gz too; the built-in corpus by default.",
                 {.affects_result = kNoEffect,  // compared by content
                  .read_by = ByTexts(),
                  .is_path = true}),
       MakeField("validation", &Config::validation, "PATH", "Text to measure on; held out of the data by default.",
                 {.affects_result = kNoEffect, .read_by = ByTexts(), .is_path = true}),
       MakeField("text_field", &Config::text_field, "NAME", "Name of the string that is the text in a line of JSONL.",
                 {.read_by = ByTexts(), .may_be_missing = true}),
       MakeField("corpus", &Config::corpus, "",
                 "Which built-in corpus, where no text is given: stories, or puzzles, where a language "
                 "model learns only the answers.",
                 {.read_by = ByTexts(), .may_be_missing = true}),
       MakeField("tokenizer", &Config::tokenizer, "KIND",
                 "bytes; characters, sentencepiece or bpe (byte-level, as GPT-2's), made from the training part; or a "
                 "file: a vocab.txt, tokenizer.json, vocab.json or .model, or a folder that holds one.",
                 {.inherited = Inherited::kUnlessGiven, .is_path = true, .not_paths = NamedTokenizers()}),
       MakeField("vocabulary", &Config::vocabulary, "N",
                 "Most pieces or characters of a tokenizer trained here; little text gives fewer. Span "
                 "corruption's 100 sentinels come on top.",
                 {.range = {16, 1'000'000}, .inherited = Inherited::kUnlessGiven})});
}

FieldTable<OptimizationConfig> OptimizationFields() {
  using Config = OptimizationConfig;
  return Grouped<Config>(
      "Optimisation",
      {MakeField("init_from", &Config::init_from, "PATH",
                 "Begin with the weights of another run (its newest good checkpoint) or of a checkpoint. Its "
                 "model, tokenizer, objective and lengths are inherited; data, optimizer, schedule and steps "
                 "are this run's own.",
                 {.affects_result = kNoEffect,  // compared by the weights
                  .may_be_missing = true,
                  .is_path = true}),
       MakeField("optimizer_start", &Config::optimizer_start, "",
                 "Optimizer state at the start: fresh: zero; carried: that run's, which needs the same "
                 "optimizer and the same parameters. finetune carries a "
                 "T5's over where it can.",
                 {.may_be_missing = true}),
       MakeField("frozen", &Config::frozen, "NAMES",
                 "Parameters that are not trained, by paths separated by commas; * matches any characters: "
                 "embedding,encoder.block_0,*.P_l. none: train what finetune would freeze.",
                 {.may_be_missing = true}),
       MakeField("steps", &Config::steps, "N", "Updates in the whole run.", {.range = {1, kMostSteps}}),
       MakeField("continued_at", &Config::continued_at, "LIST",
                 "Former ends of a continued run: up to each, the schedule is that of a run of that many steps.",
                 {.may_be_missing = true}),
       MakeField("batch", &Config::batch, "N", "Examples a step.", {.range = kSize}),
       MakeField("shards", &Config::shards, "N",
                 "Parts of a step's batch: to save memory, to give each thread a part of a small model's step, "
                 "or to divide among the ranks of mpirun, at most one rank per part. The result depends on "
                 "the number of parts, not of threads or ranks.",
                 {.range = kSize, .former_key = "accumulate"}),
       MakeField("optimizer", &Config::optimizer, "NAME",
                 "Optimizer; by default adafactor for t5 and lm, adamw for bert, lamb for albert."),
       MakeField("schedule", &Config::schedule, "NAME",
                 "Course of the learning rate; by default inverse-square-root for adafactor, or constant from "
                 "another run's weights; linear for adamw; polynomial for lamb."),
       MakeField("learning_rate", &Config::learning_rate, "X",
                 "Scale of the schedule; by default 0.3 for adafactor (the paper: 1), or 0.001 from another run's "
                 "weights; 0.001 for adamw; 0.01 for lamb (ALBERT: 0.00176). Steps of adafactor and lamb are relative.",
                 {.range = kFactor}),
       MakeField("warmup", &Config::warmup, "N",
                 "Steps of warm-up; by default a fiftieth of the run, at least 30, at most half of it (the "
                 "paper: 10000).",
                 {.range = AtLeast(0)}),
       MakeField("decay", &Config::decay, "SHARE", "Share of the run, at its end, in which the schedule falls to 0.",
                 {.range = kShare, .read_by = BySchedules({ScheduleKind::kInverseSquareRoot})}),
       MakeField("final_learning_rate", &Config::final_learning_rate, "X", "Final value of the schedule.",
                 {.range = kFactor,
                  .read_by = BySchedules({ScheduleKind::kCosine, ScheduleKind::kPolynomial}),
                  .may_be_missing = true}),
       MakeField("decay_power", &Config::decay_power, "X",
                 "Power of the remaining share of the decay; 1 is a straight line.",
                 {.range = {0.001, 1000}, .read_by = BySchedules({ScheduleKind::kPolynomial}), .may_be_missing = true}),
       MakeField("weight_decay", &Config::weight_decay, "X", "Decay of each matrix per step, times the learning rate.",
                 {.range = {0, 1e6}, .read_by = ByAdam()}),
       MakeField("adam_beta1", &Config::adam_beta1, "X", "Decay per step of the running mean of gradients.",
                 {.range = {0, 0.999999}, .read_by = ByAdam(), .may_be_missing = true}),
       MakeField("adam_beta2", &Config::adam_beta2, "X", "Decay per step of the running mean of their squares.",
                 {.range = {0, 0.999999}, .read_by = ByAdam(), .may_be_missing = true}),
       MakeField("adam_epsilon", &Config::adam_epsilon, "X", "Added to the root of that mean.",
                 {.range = {1e-18, 1}, .read_by = ByAdam(), .may_be_missing = true}),
       MakeField("bias_correction", &Config::bias_correction, "",
                 "Whether both means are corrected for their start at 0; as published by default: yes except "
                 "for bert and albert.",
                 {.read_by = ByAdam(), .may_be_missing = true}),
       MakeField("clip", &Config::clip, "NORM",
                 "Largest norm of all gradients together; 0: none. By default 1 for bert and albert, 0 for "
                 "others.",
                 {.range = kFactor}),
       MakeField("z_loss", &Config::z_loss, "X",
                 "Factor of log²Z in the training loss; by default 0 for bert and albert, 1e-04 for others.",
                 {.range = {0, 1e6}}),
       MakeField("loss_denominator", &Config::loss_denominator, "",
                 "Denominator of the loss: real target tokens, or all positions, padding too, as published."),
       MakeField("activations", &Config::activations, "",
                 "recompute: a third more work for much less memory; the same bits.", {.affects_result = kNoEffect}),
       MakeField("precision", &Config::precision, "",
                 "Operands of matrix products: float, or rounded to bfloat16; sums, parameters, the "
                 "optimizer's state and everything else stay in float.",
                 {.may_be_missing = true}),
       MakeField("seed", &Config::seed, "N", "Seed of initial values, examples and their order, and dropout.",
                 {.range = kSeedRange})});
}

FieldTable<RunConfig> RunFields() {
  using Config = RunConfig;
  return Grouped<Config>(
      "Run", {MakeField("eval_every", &Config::eval_every, "N",
                        "Steps between held-out measures; an eighth of the run by default; 0: at the end only.",
                        {.range = AtLeast(0), .affects_result = kNoEffect}),
              MakeField("eval_batches", &Config::eval_batches, "N", "Most batches of a held-out measure.",
                        {.range = AtLeast(1), .affects_result = kNoEffect}),
              MakeField("checkpoint_every", &Config::checkpoint_every, "N",
                        "Steps between checkpoints; as eval_every by default; 0: at the end only.",
                        {.range = AtLeast(0), .affects_result = kNoEffect}),
              MakeField("keep", &Config::keep, "N", "Newest checkpoints kept, besides the best one.",
                        {.range = {1, 1'000'000}, .affects_result = kNoEffect}),
              MakeField("log_every", &Config::log_every, "N", "Steps between lines of metrics.jsonl.",
                        {.range = AtLeast(1), .affects_result = kNoEffect}),
              MakeField("tensorboard", &Config::tensorboard, "",
                        "Write TensorBoard's event files beside metrics.jsonl: its numbers, and pictures of P_l and "
                        "P_w at evaluations.",
                        {.affects_result = kNoEffect, .may_be_missing = true})});
}

// The rows, each read by those of the types that have it among the members that are their own; by all, if none has.
template <typename Type, typename Config>
FieldTable<Config> ReadByOwners(const char* key, const std::vector<Type>& types, FieldTable<Config> rows) {
  for (Field<Config>& row : rows) {
    FieldReaders readers = {.key = key};
    for (const Type& type : types) {
      if (std::count(type.own.begin(), type.own.end(), row.member) > 0) readers.choices.push_back(type.name);
    }
    if (!readers.choices.empty() && readers.choices.size() < types.size()) row.options.read_by = readers;
  }
  return rows;
}

}  // namespace

const FieldTable<TrainingConfig>& TrainingFields() {
  using Config = TrainingConfig;
  static const FieldTable<Config> table = [] {
    FieldTable<Config> all;
    const auto add = [&all](FieldTable<Config> rows) { all = Joined(std::move(all), std::move(rows)); };
    add(FieldsOfPart(DataFields(), &Config::data));
    FieldTable<ObjectiveConfig> objective = ReadByOwners("objective", ObjectiveTypes(), ObjectiveFields());
    for (auto& row : objective) row.options.inherited = Inherited::kUnlessGiven;  // what the model learned
    add(FieldsOfPart(objective, &Config::objective));
    FieldTable<ModelConfig> model = ReadByOwners("model", ModelTypes(), ModelFields());
    FieldOptions of_name = model[0].options;
    of_name.choices = ModelNames();
    model[0] = Grouped<ModelConfig>(model[0].group.c_str(), {{model[0].key, &ModelConfig::name, of_name}})[0];
    add(FieldsOfPart(model, &Config::model));
    add(FieldsOfPart(OptimizationFields(), &Config::optimization));
    add(FieldsOfPart(RunFields(), &Config::run));
    for (Field<Config>& row : all) {
      const FieldReaders& readers = row.options.read_by;
      if (!readers.choices.empty()) row.options.help += " (" + Join(readers.choices, ", ") + ")";
    }
    return all;
  }();
  return table;
}

}  // namespace crosstalk
