#include "tools/training_options.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "tools/output.h"

namespace crosstalk {

namespace {

void AddDataOptions(OptionTable& options, TrainingConfig* config) {
  options.Group("Data");
  options.Add(
      "--data", &config->data, "PATH",
      "Text to train on: a UTF-8 file, a .jsonl file with a text field, or a folder of .txt and .jsonl files, also "
      "in folders within it; the built-in corpus by default.");
  options.Add("--validation", &config->validation, "PATH", "Text to measure on; held out of --data by default.");
  options.Add("--tokenizer", &config->tokenizer, "KIND",
              "bytes, sentencepiece (trained on the training part), or a SentencePiece FILE.model.");
  options.Add(
      "--vocabulary", &config->vocabulary, "N",
      "Pieces of a SentencePiece tokenizer that is trained here, at most: little text gives fewer. 100 sentinels "
      "come on top.");
  options.Add("--input-length", &config->input_length, "N", "Input tokens an example; targets follow (512: 114).");
}

void AddPlaceOptions(OptionTable& options, TrainingConfig* config) {
  options.Add("--encoder-self", &config->encoder_self_kind, "KIND", "Kind in the encoder; as --attention by default.");
  options.Add("--decoder-self", &config->decoder_self_kind, "KIND", "Kind in the decoder; as --attention by default.");
  options.Add("--encoder-decoder", &config->encoder_decoder_kind, "KIND",
              "Kind between decoder and encoder; as --attention by default.");
}

void AddModelOptions(OptionTable& options, TrainingConfig* config, TrainingOptionSet set) {
  options.Group("Model");
  if (set == TrainingOptionSet::kTrain) {
    AddAttentionOptions(options, &config->attention);
    AddPlaceOptions(options, config);
    options.AddChoice("--mixing-init", &config->mixing_init, {"random", "identity"}, "How P_l and P_w start.");
  } else {
    options.Add("--heads", &config->attention.heads, "N", "Heads: h_k = h = h_v.");
    options.Add("--key-size", &config->attention.key_size, "N", "Size of a key, d_k; d_model / heads by default.");
    options.Add("--value-size", &config->attention.value_size, "N",
                "Size of a value, d_v; d_model / heads by default.");
  }
  options.AddChoice("--attention-scale", &config->attention_scale, {"folded", "explicit"},
                    "Logits' factor 1/sqrt(d_k): folded into P_q's initial values, or explicit.");
  options.AddChoice("--keys-values", &config->keys_values, {"separate", "tied"}, "tied: V = K.");
  options.Add("--implementation", &config->implementation, "NAME",
              "fused: one kernel that keeps nothing of size n·m; composed: the paper's pseudocode in einsum.");
  options.Add("--d-model", &config->d_model, "N", "Width of the model.");
  options.Add("--d-ff", &config->d_ff, "N", "Width inside the feed-forward layers.");
  options.Add("--layers", &config->layers, "N", "Blocks of the encoder.");
  options.Add("--decoder-layers", &config->decoder_layers, "N", "Blocks of the decoder; as --layers by default.");
  options.AddChoice("--feed-forward", &config->feed_forward, {"relu", "gated-gelu"}, "Feed-forward layer.");
  options.AddChoice("--classifier", &config->classifier, {"tied", "untied"}, "tied: to the embedding.");
  options.Add("--dropout", &config->dropout, "RATE", "Share of activations dropped in training.");
}

void AddOptimisationOptions(OptionTable& options, TrainingConfig* config, TrainingOptionSet set) {
  options.Group("Optimisation");
  options.Add("--steps", &config->steps, "N", "Updates in the whole run.");
  options.Add("--batch", &config->batch, "N", "Examples a step.");
  options.Add("--accumulate", &config->accumulate, "N", "Parts that a step's batch is computed in, to save memory.");
  options.AddChoice("--optimizer", &config->optimizer, {"adafactor", "adamw"}, "Optimizer.");
  options.Add("--schedule", &config->schedule, "NAME",
              "inverse-square-root, linear or constant; the first for adafactor, the second for adamw by default.");
  options.Add("--learning-rate", &config->learning_rate, "X",
              "Scale of the schedule; by default 0.3 for adafactor, whose steps are relative (the paper: 1), and 0.001 "
              "for adamw.");
  options.Add(
      "--warmup", &config->warmup, "N",
      "Steps of warm-up; by default a fiftieth of the run, at least 30, at most half of it (the paper: 10000).");
  options.Add("--decay", &config->decay, "SHARE", "Last part of the run, in which inverse-square-root falls to 0.");
  options.Add("--weight-decay", &config->weight_decay, "X", "For adamw.");
  options.Add("--clip", &config->clip, "NORM", "Largest norm of all gradients together; 0: none.");
  options.Add("--z-loss", &config->z_loss, "X", "Factor of log²Z in the training loss.");
  options.AddChoice("--loss-denominator", &config->loss_denominator, {"tokens", "positions"},
                    "What the loss is averaged over: real target tokens, or padding too, as published.");
  options.AddChoice("--activations", &config->activations, {"keep", "recompute"},
                    "recompute: a third more work for much less memory; the same bits.");
  if (set == TrainingOptionSet::kTrain) {
    options.Add("--seed", &config->seed, "N", "Decides initial values, order of examples, corruption and dropout.");
  }
}

void AddScheduleOptions(OptionTable& options, TrainingConfig* config) {
  options.Group("Run");
  options.Add("--eval-every", &config->eval_every, "N",
              "Steps between held-out measures; an eighth of the run by default; 0: at the end only.");
  options.Add("--eval-batches", &config->eval_batches, "N", "Batches of a held-out measure, at most.");
  options.Add("--checkpoint-every", &config->checkpoint_every, "N",
              "Steps between checkpoints; as --eval-every by default; 0: at the end only.");
  options.Add("--keep", &config->keep, "N", "Newest checkpoints kept, beside the best one.");
  options.Add("--log-every", &config->log_every, "N", "Steps between lines of metrics.jsonl.");
}

// Time left, from the speed of the steps of this process so far.
class Pace {
 public:
  explicit Pace(int64_t steps) : steps_(steps) {}
  double SecondsLeft(int64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (first_step_ < 0) {
      first_step_ = step;
      first_time_ = now;
      return -1;
    }
    const double elapsed = std::chrono::duration<double>(now - first_time_).count();
    return elapsed / static_cast<double>(step - first_step_) * static_cast<double>(steps_ - step);
  }

 private:
  int64_t steps_;
  int64_t first_step_ = -1;
  std::chrono::steady_clock::time_point first_time_;
};

std::string Absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

void AddTrainingOptions(OptionTable& options, TrainingConfig* config, TrainingOptionSet set) {
  AddDataOptions(options, config);
  AddModelOptions(options, config, set);
  AddOptimisationOptions(options, config, set);
  AddScheduleOptions(options, config);
}

void MakePathsAbsolute(TrainingConfig* config) {
  config->data = Absolute(config->data);
  config->validation = Absolute(config->validation);
  if (config->tokenizer != "bytes" && config->tokenizer != "sentencepiece") {
    config->tokenizer = Absolute(config->tokenizer);
  }
}

TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps) {
  TrainingObserver observer;
  observer.message = [](const std::string& message) { PrintMessage(message); };
  observer.step = [&progress, steps, pace = std::make_shared<Pace>(steps)](const StepResult& step) {
    const double left = pace->SecondsLeft(step.step);
    const std::string rate = CountText(static_cast<int64_t>(static_cast<double>(step.tokens) / step.seconds));
    progress.Update(StrCat("step ", step.step, "/", steps, "  loss ", FixedText(step.loss, 3), "  ln(PPL) ",
                           FixedText(step.ln_ppl, 3), "  ", rate, " tokens/s",
                           left < 0 ? "" : "  " + DurationText(left) + " left"));
  };
  observer.evaluation = [&progress, steps](const RunEvaluation& evaluation) {
    progress.Last(StrCat("step ", evaluation.step, "/", steps, "  ", Bold(EvaluationText(evaluation))));
  };
  observer.stop = [&signals] { return signals.Received() != 0; };
  return observer;
}

std::string EvaluationText(const RunEvaluation& evaluation) {
  return StrCat("held-out ln(PPL) ", FixedText(evaluation.result.ln_ppl, 4), " over ",
                CountText(evaluation.result.tokens), " tokens",
                evaluation.floor ? ", entropy floor " + FixedText(*evaluation.floor, 3) : "");
}

Json EvaluationResultJson(const RunEvaluation& evaluation) {
  return Json::MakeObject({{"step", evaluation.step},
                           {"ln_ppl", evaluation.result.ln_ppl},
                           {"floor", evaluation.floor ? Json(*evaluation.floor) : Json()},
                           {"tokens", evaluation.result.tokens},
                           {"examples", evaluation.result.examples}});
}

}  // namespace crosstalk
