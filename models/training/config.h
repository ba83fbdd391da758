// TrainingConfig: everything that decides what a training run computes, and its table of fields, from which the command
// line, --config, run.json, checkpoints, the checks, the difference at resume and docs/options.md are made. A new
// option is a member here and a row in fields.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/kernels/precision.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/objectives/masked_lm.h"
#include "crosstalk/models/t5/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/feed_forward.h"
#include "crosstalk/nn/optim/adamw.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/nn/optim/schedule.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class Tokenizer;
struct ObjectiveType;
struct Vocabulary;

// Where the logits' factor 1/sqrt(d_k) is: in P_q's initial values, or applied to J.
enum class AttentionScale { kFolded, kExplicit };
enum class OptimizerKind { kAdafactor, kAdamW, kLamb };
// What a step's loss is divided by: the targets that are not padding, or all positions of the batch, padding too (which
// is what the published T5 runs do).
enum class LossDenominator { kTokens, kPositions };
// What a run that begins with another's weights does with the state of that run's optimizer.
enum class OptimizerStart { kFresh, kCarried };

template <>
struct EnumNames<AttentionScale> {
  static constexpr EnumName<AttentionScale> kTable[] = {{AttentionScale::kFolded, "folded"},
                                                        {AttentionScale::kExplicit, "explicit"}};
};
template <>
struct EnumNames<OptimizerKind> {
  static constexpr EnumName<OptimizerKind> kTable[] = {
      {OptimizerKind::kAdafactor, "adafactor"}, {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kLamb, "lamb"}};
};
template <>
struct EnumNames<OptimizerStart> {
  static constexpr EnumName<OptimizerStart> kTable[] = {{OptimizerStart::kFresh, "fresh"},
                                                        {OptimizerStart::kCarried, "carried"}};
};
template <>
struct EnumNames<LossDenominator> {
  static constexpr EnumName<LossDenominator> kTable[] = {{LossDenominator::kTokens, "tokens"},
                                                         {LossDenominator::kPositions, "positions"}};
};

// The defaults are the model that `crosstalk train` without options trains in a few minutes. What each field means
// stands in its row.
struct TrainingConfig {
  // Data.
  std::string data;
  std::string validation;
  std::string tokenizer = "sentencepiece";
  int64_t vocabulary = 1000;
  std::optional<std::string> objective;
  int64_t input_length = 128;
  double noise_density = 0.15;
  double mean_span_length = 3.0;
  std::optional<Masking> masking;
  std::optional<SentenceTask> sentence_task;
  std::optional<int64_t> most_masked;
  double short_share = 0.1;

  // Tasks.
  std::string task;
  std::string task_data;
  int64_t target_length = 64;
  std::optional<int64_t> mixture_cap;
  int64_t window_stride = 128;
  int64_t query_length = 64;
  int64_t answer_length = 30;

  // Model.
  std::string model = "t5";
  AttentionOptions attention = {.heads = 8};
  std::optional<AttentionKind> encoder_self_kind;
  std::optional<AttentionKind> decoder_self_kind;
  std::optional<AttentionKind> encoder_decoder_kind;
  std::optional<AttentionScale> attention_scale;
  MixingInit mixing_init = MixingInit::kRandom;
  KeyValueProjection keys_values = KeyValueProjection::kSeparate;
  AttentionImplementation implementation = AttentionImplementation::kFused;
  int64_t d_model = 128;
  int64_t d_ff = 512;
  int64_t layers = 2;
  std::optional<int64_t> decoder_layers;
  std::optional<int64_t> embedding_size;
  std::optional<int64_t> layer_groups;
  std::optional<int64_t> inner_layers;
  std::optional<double> initial_stddev;
  std::optional<FeedForwardKind> feed_forward;
  ClassifierKind classifier = ClassifierKind::kTied;
  PositionScheme positions = PositionScheme::kRelativeBias;
  std::optional<int64_t> max_positions;
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout = 0;

  // Optimisation.
  std::string init_from;
  OptimizerStart optimizer_start = OptimizerStart::kFresh;
  std::string frozen;
  int64_t steps = 2000;
  std::string continued_at;
  int64_t batch = 16;
  int64_t accumulate = 1;
  std::optional<OptimizerKind> optimizer;
  std::optional<ScheduleKind> schedule;
  std::optional<double> learning_rate;
  std::optional<int64_t> warmup;
  double decay = 0.1;
  double final_learning_rate = 0;
  double decay_power = 1;
  double weight_decay = 0.01;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-6;
  // None: kYes. A model whose published form is another fills it in, where the optimizer reads it.
  std::optional<AdamWConfig::BiasCorrection> bias_correction;
  std::optional<double> clip;
  std::optional<double> z_loss;
  LossDenominator loss_denominator = LossDenominator::kTokens;
  Activations activations = Activations::kKeep;
  Precision precision = Precision::kFloat32;
  uint64_t seed = 1;

  // What is written and when.
  std::optional<int64_t> eval_every;
  int64_t eval_batches = 32;
  std::optional<int64_t> checkpoint_every;
  int64_t keep = 2;
  int64_t log_every = 1;
  bool tensorboard = false;
};

const FieldTable<TrainingConfig>& TrainingFields();
// The fields of an attention layer, which other commands take too.
const FieldTable<AttentionOptions>& AttentionFields();

// A configuration whose defaults are filled in and whose fields have been checked, each alone and against the others:
// what a run computes with. Everything but the data is known to fit. Error(kUsage) that names the field.
class ResolvedConfig {
 public:
  explicit ResolvedConfig(const TrainingConfig& config);
  const TrainingConfig& operator*() const { return config_; }
  const TrainingConfig* operator->() const { return &config_; }

 private:
  TrainingConfig config_;
};

// Keys are the table's, so that the result can be given to --config.
Json ToJson(const TrainingConfig& config);
// Error(kData) with `source` and the key for what is missing, unknown, of another type, out of range, or does not fit
// the rest.
TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source);

// Sets what neither its model, optimizer, schedule nor objective reads to its default.
void ForgetWhatIsNotRead(TrainingConfig& config);

// "d_model: 128 here, 256 there" for each field that decides a bit and differs; empty if a run of `there` can be
// continued with `here`, for more steps too. `data`, `validation` and `init_from` are compared by content elsewhere.
std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there);

// The configuration of a run that goes on to `steps` when its own are done: those are added to continued_at.
TrainingConfig Continued(TrainingConfig run, int64_t steps);
// The end of the stage that `step` belongs to, steps done: of continued_at and steps the first that is not below it.
int64_t EndOfStage(const TrainingConfig& config, int64_t step);

// The names of `frozen`; none where it is empty or "none".
std::vector<std::string> FrozenNames(const TrainingConfig& config);
// Makes the parameters that `frozen` names untrainable. Error(kUsage) of the field where a name is none of the model's,
// or nothing is left to train.
void Freeze(const TrainingConfig& config, Module& model);

// An attention layer of a model: the fields' one, but for the kind where a place has its own.
AttentionConfig MakeAttentionLayer(const TrainingConfig& config, std::optional<AttentionKind> kind = std::nullopt);
std::unique_ptr<Optimizer> MakeOptimizer(const TrainingConfig& config, std::vector<NamedParameter> parameters);
LossOptions MakeLossOptions(const TrainingConfig& config);
ScheduleConfig MakeSchedule(const TrainingConfig& config);
// The one that it names, or its model's first.
const ObjectiveType& ObjectiveOf(const TrainingConfig& config);
// What its model is told of the tokenizer; of one that does not exist yet (null), what it is asked for.
Vocabulary VocabularyOf(const TrainingConfig& config, const Tokenizer* tokenizer);

}  // namespace crosstalk
