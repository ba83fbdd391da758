// The rows of a training configuration: its command line, files, checks and documentation are loops over them.
#include <utility>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
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

FieldReaders ByAdam() { return {"optimizer", {Name(OptimizerKind::kAdamW), Name(OptimizerKind::kLamb)}}; }
FieldReaders BySchedules(const std::vector<ScheduleKind>& kinds) {
  FieldReaders readers = {.key = "schedule"};
  for (const ScheduleKind kind : kinds) readers.choices.push_back(Name(kind));
  return readers;
}

// The models that list the field as their own, if not all do, or the objectives.
FieldReaders ReadersOf(const std::string& field) {
  const std::vector<std::string> models = ModelsThatOwn(field), objectives = ObjectivesThatOwn(field);
  if (!models.empty() && models.size() < ModelTypes().size()) return {"model", models};
  if (!objectives.empty() && objectives.size() < ObjectiveTypes().size()) return {"objective", objectives};
  return {};
}

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
                  .help = "bytes; characters or sentencepiece, made from the training part; or a file: a "
                          "vocab.txt, tokenizer.json or .model, or a folder that holds one."}),
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
                 {.placeholder = "SHARE", .help = "Part of the tokens that is hidden.", .range = {0.001, 0.999}}),
       MakeField(
           "mean_span_length", &Config::mean_span_length,
           {.placeholder = "X", .help = "Mean length of what is hidden at a time, in tokens.", .range = {1, 1000}}),
       MakeField("masking", &Config::masking,
                 {.placeholder = "KIND",
                  .help = "What is hidden: tokens one by one, or ngrams of one to three whole words; the model's own "
                          "by default.",
                  .may_be_missing = true}),
       MakeField("sentence_task", &Config::sentence_task,
                 {.placeholder = "TASK",
                  .help = "What is asked of the two segments of an example: whether the second follows the first "
                          "(next-sentence), whether they are in order (sentence-order), or nothing, and then there is "
                          "one (none); the model's own by default.",
                  .may_be_missing = true}),
       MakeField("most_masked", &Config::most_masked,
                 {.placeholder = "N",
                  .help = "Tokens hidden in an example, at most; noise_density of input_length by default, rounded up.",
                  .range = {1, 16'777'216},
                  .may_be_missing = true}),
       MakeField("short_share", &Config::short_share,
                 {.placeholder = "SHARE",
                  .help = "Part of the examples that is made shorter, to a length drawn at random.",
                  .range = kShare,
                  .may_be_missing = true})});
}

FieldTable<Config> TaskFields() {
  return Grouped(
      "Tasks",
      {MakeField("task", &Config::task,
                 {.placeholder = "NAMES",
                  .help = "What is learnt and measured, by names that commas separate; docs/tasks.md lists them. A T5 "
                          "learns several as one mixture, an encoder several that share a head.",
                  .may_be_missing = true}),
       MakeField("task_data", &Config::task_data,
                 {.placeholder = "FOLDER",
                  .help = "Folder with the tasks' files as they are published, or one task's own.",
                  .affects_result = kNoEffect,  // compared by content
                  .may_be_missing = true}),
       MakeField("target_length", &Config::target_length,
                 {.placeholder = "N",
                  .help = "Tokens of an answer, the end token counted: longer ones are cut.",
                  .range = {2, 16'777'216},
                  .may_be_missing = true}),
       MakeField("mixture_cap", &Config::mixture_cap,
                 {.placeholder = "N",
                  .help = "Tasks are mixed in proportion to their rows, each counted up to so many; all by default.",
                  .range = AtLeast(1),
                  .may_be_missing = true}),
       MakeField("window_stride", &Config::window_stride,
                 {.placeholder = "N",
                  .help = "Tokens from one window over a long passage to the next.",
                  .range = {1, 16'777'216},
                  .may_be_missing = true}),
       MakeField("query_length", &Config::query_length,
                 {.placeholder = "N",
                  .help = "Tokens of the question beside a passage, at most.",
                  .range = {1, 16'777'216},
                  .may_be_missing = true}),
       MakeField("answer_length", &Config::answer_length,
                 {.placeholder = "N",
                  .help = "Tokens of an answer that is found in a passage, at most.",
                  .range = {1, 16'777'216},
                  .may_be_missing = true})});
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
                {.placeholder = "NAME",
                 .help = "Logits' factor 1/sqrt(d_k): folded into P_q's initial values (t5 and lm by default), or "
                         "explicit (bert and albert)."}),
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
      MakeField("feed_forward", &Config::feed_forward,
                {.placeholder = "NAME",
                 .help = "Feed-forward layer; by default relu for t5 and lm, gelu for bert, gelu-tanh for albert."}),
      MakeField("classifier", &Config::classifier, {.help = "tied: to the embedding."}),
      MakeField("positions", &Config::positions,
                {.help = "How positions are known: a relative bias, learned vectors added to the embedding, or not "
                         "but by what each can see.",
                 .may_be_missing = true}),
      MakeField("max_positions", &Config::max_positions,
                {.placeholder = "N",
                 .help = "Learned positions, the longest text a model can read; input_length by default.",
                 .range = kSize,
                 .may_be_missing = true}),
      MakeField("embedding_size", &Config::embedding_size,
                {.placeholder = "N",
                 .help = "Width of the embeddings, which a dense layer takes to d_model; d_model by default.",
                 .range = kSize,
                 .may_be_missing = true}),
      MakeField("layer_groups", &Config::layer_groups,
                {.placeholder = "N",
                 .help = "Groups of layers that share their parameters; 1 by default: all layers share one block's.",
                 .range = {1, kMostLayers},
                 .may_be_missing = true}),
      MakeField("inner_layers", &Config::inner_layers,
                {.placeholder = "N",
                 .help = "Blocks of a group, one behind the other; 1 by default.",
                 .range = {1, kMostLayers},
                 .may_be_missing = true}),
      MakeField(
          "initial_stddev", &Config::initial_stddev,
          {.placeholder = "X",
           .help = "Standard deviation of the initial weights; by default 0.02 at d_model 768 and more, and at less "
                   "0.02·sqrt(768/d_model), so that layers begin as large beside what they are added to.",
           .range = {1e-6, 100},
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
       MakeField(
           "optimizer_start", &Config::optimizer_start,
           {.help = "What becomes of the state of that run's optimizer: fresh: this run's begins anew; carried: "
                    "it goes on from it, which needs the same optimizer and the same parameters. finetune carries a "
                    "T5's over where it can.",
            .may_be_missing = true}),
       MakeField(
           "frozen", &Config::frozen,
           {.placeholder = "NAMES",
            .help =
                "Parameters that stay as they begin, by paths that commas separate; * stands for any "
                "characters: embedding,encoder.block_0,*.P_l. none, where finetune would freeze something: nothing.",
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
       MakeField("optimizer", &Config::optimizer,
                 {.placeholder = "NAME",
                  .help = "Optimizer; by default adafactor for t5 and lm, adamw for bert, lamb for albert."}),
       MakeField(
           "schedule", &Config::schedule,
           {.placeholder = "NAME",
            .help = "Course of the learning rate; by default inverse-square-root for adafactor, linear for adamw, "
                    "polynomial for lamb."}),
       MakeField("learning_rate", &Config::learning_rate,
                 {.placeholder = "X",
                  .help = "Scale of the schedule; by default 0.3 for adafactor, whose steps are relative (the paper: "
                          "1), 0.001 for adamw, and 0.01 for lamb, whose steps are relative too (ALBERT: 0.00176).",
                  .range = kFactor}),
       MakeField("warmup", &Config::warmup,
                 {.placeholder = "N",
                  .help = "Steps of warm-up; by default a fiftieth of the run, at least 30, at most half of it (the "
                          "paper: 10000).",
                  .range = AtLeast(0)}),
       MakeField("decay", &Config::decay,
                 {.placeholder = "SHARE",
                  .help = "Last part of the run, in which the schedule falls to 0.",
                  .range = kShare,
                  .read_by = BySchedules({ScheduleKind::kInverseSquareRoot})}),
       MakeField("final_learning_rate", &Config::final_learning_rate,
                 {.placeholder = "X",
                  .help = "What the schedule falls to.",
                  .range = kFactor,
                  .read_by = BySchedules({ScheduleKind::kCosine, ScheduleKind::kPolynomial}),
                  .may_be_missing = true}),
       MakeField("decay_power", &Config::decay_power,
                 {.placeholder = "X",
                  .help = "Power of the part of the decay that is left; 1 is a straight line.",
                  .range = {0.001, 1000},
                  .read_by = BySchedules({ScheduleKind::kPolynomial}),
                  .may_be_missing = true}),
       MakeField("weight_decay", &Config::weight_decay,
                 {.placeholder = "X",
                  .help = "Share of each matrix that is taken off in a step, times the learning rate.",
                  .range = {0, 1e6},
                  .read_by = ByAdam()}),
       MakeField("adam_beta1", &Config::adam_beta1,
                 {.placeholder = "X",
                  .help = "What the mean of gradients keeps of itself at a step.",
                  .range = {0, 0.999999},
                  .read_by = ByAdam(),
                  .may_be_missing = true}),
       MakeField("adam_beta2", &Config::adam_beta2,
                 {.placeholder = "X",
                  .help = "The same of the mean of their squares.",
                  .range = {0, 0.999999},
                  .read_by = ByAdam(),
                  .may_be_missing = true}),
       MakeField("adam_epsilon", &Config::adam_epsilon,
                 {.placeholder = "X",
                  .help = "Added to the root of that mean.",
                  .range = {1e-18, 1},
                  .read_by = ByAdam(),
                  .may_be_missing = true}),
       MakeField("bias_correction", &Config::bias_correction,
                 {.help = "Whether both means, which begin as 0, are divided by what they have seen; as the model was "
                          "published by default, which is yes but for bert and albert.",
                  .read_by = ByAdam(),
                  .may_be_missing = true}),
       MakeField("clip", &Config::clip,
                 {.placeholder = "NORM",
                  .help = "Largest norm of all gradients together; 0: none. By default 1 for bert and albert, 0 for "
                          "others.",
                  .range = kFactor}),
       MakeField("z_loss", &Config::z_loss,
                 {.placeholder = "X",
                  .help = "Factor of log²Z in the training loss; by default 0 for bert and albert, 1e-04 for others.",
                  .range = {0, 1e6}}),
       MakeField("loss_denominator", &Config::loss_denominator,
                 {.help = "What the loss is averaged over: real target tokens, or padding too, as published."}),
       MakeField(
           "activations", &Config::activations,
           {.help = "recompute: a third more work for much less memory; the same bits.", .affects_result = kNoEffect}),
       MakeField("precision", &Config::precision,
                 {.help = "Operands of matrix products: float, or rounded to bfloat16; sums, parameters, the "
                          "optimizer's state and everything else stay in float.",
                  .may_be_missing = true}),
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
                  .affects_result = kNoEffect}),
       MakeField("tensorboard", &Config::tensorboard,
                 {.help = "Write TensorBoard's event files beside metrics.jsonl: its numbers, and at evaluations "
                          "pictures of P_l and P_w.",
                  .affects_result = kNoEffect,
                  .may_be_missing = true})});
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
    for (FieldTable<Config>& part :
         std::vector{DataFields(), TaskFields(), ModelFields(), OptimisationFields(), RunFields()}) {
      for (Field<Config>& row : part) all.push_back(std::move(row));
    }
    for (Field<Config>& row : all) {
      FieldReaders& readers = row.options.read_by;
      if (readers.choices.empty()) readers = ReadersOf(row.key);
      if (!readers.choices.empty()) row.options.help += " (" + Join(readers.choices, ", ") + ")";
    }
    return all;
  }();
  return table;
}

}  // namespace crosstalk
