// TrainingConfig: everything that decides what a training run computes, in the form that the command line, run.json and
// checkpoints share; and the parts of a run that are made from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/t5/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/nn/optim/schedule.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// Choices are held by the name that the command line gives them; Validate checks them all. The defaults are the model
// that `crosstalk train` without options trains in a few minutes.
struct TrainingConfig {
  // Data.
  std::string data;                         // file or folder; empty: the built-in corpus
  std::string validation;                   // file or folder; empty: held out of `data`
  std::string tokenizer = "sentencepiece";  // bytes, sentencepiece (trained on the training part), or a FILE.model
  int64_t vocabulary = 1000;                // of a SentencePiece tokenizer to be trained; sentinels come on top
  int64_t input_length = 128;               // tokens; targets have the length that follows from it

  // Model.
  AttentionOptions attention = {.heads = 8};     // of all three places, but for the kinds named next
  std::optional<std::string> encoder_self_kind;  // else attention.kind
  std::optional<std::string> decoder_self_kind;
  std::optional<std::string> encoder_decoder_kind;
  std::string attention_scale = "folded";  // folded (into P_q's initial values) or explicit (1/sqrt(d_k))
  std::string mixing_init = "random";      // random or identity: how P_l and P_w start
  std::string keys_values = "separate";    // separate or tied (V = K)
  std::string implementation = "fused";    // fused (one kernel) or composed (the pseudocode in einsum)
  int64_t d_model = 128;
  int64_t d_ff = 512;
  int64_t layers = 2;                     // of the encoder
  std::optional<int64_t> decoder_layers;  // else `layers`
  std::string feed_forward = "relu";      // relu or gated-gelu
  std::string classifier = "tied";        // tied (to the embedding) or untied
  double dropout = 0;

  // Optimisation.
  int64_t steps = 2000;
  int64_t batch = 16;                   // examples a step
  int64_t accumulate = 1;               // parts that a step's batch is computed in
  std::string optimizer = "adafactor";  // adafactor or adamw
  std::optional<std::string> schedule;  // else inverse-square-root for adafactor, linear for adamw
  std::optional<double> learning_rate;  // else 0.3 for adafactor (its steps are relative), 0.001 for adamw
  std::optional<int64_t>
      warmup;                  // steps; else a fiftieth of the run, at least 30, at most half of it (the paper: 10,000)
  double decay = 0.1;          // part of the run, at its end, in which inverse-square-root falls to 0
  double weight_decay = 0.01;  // adamw only
  double clip = 0;             // largest norm of all gradients together; 0: none
  double z_loss = 1e-4;
  std::string loss_denominator = "tokens";  // tokens (that are not padding) or positions (as published)
  std::string activations = "keep";         // keep or recompute
  uint64_t seed = 1;

  // What is written and when: no bit of the model depends on these.
  std::optional<int64_t> eval_every;  // steps; else an eighth of the run; 0: at the end only
  int64_t eval_batches = 32;
  std::optional<int64_t> checkpoint_every;  // steps; else as eval_every; 0: at the end only
  int64_t keep = 2;                         // newest checkpoints that stay, beside the best
  int64_t log_every = 1;                    // steps between lines of metrics.jsonl

  // Fills in what is "else" above, then checks everything that does not need the data. Throws a usage error that names
  // the option.
  void Resolve();
};

// Keys are the options' names with underscores, so that the result can be given to --config.
Json ToJson(const TrainingConfig& config);
// Error(kData) with `source` and the key for what is missing, unknown or of another type.
TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source);

// "d_model: 128 here, 256 there" for each field that decides a bit and differs; empty if a run of one can be continued
// with the other. `data` and `validation` are compared by content elsewhere.
std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there);

// Of a resolved config, with a vocabulary counting sentinels.
T5Config MakeT5Config(const TrainingConfig& config, int64_t vocabulary);
std::unique_ptr<Optimizer> MakeOptimizer(const TrainingConfig& config, std::vector<NamedParameter> parameters);
ScheduleConfig MakeSchedule(const TrainingConfig& config);

}  // namespace crosstalk
