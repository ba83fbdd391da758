// `crosstalk train`: trains a T5, or goes on with one.
#include <errno.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "crosstalk/models/t5/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/signals.h"
#include "tools/training_options.h"

namespace crosstalk {

namespace {

struct TrainSettings {
  TrainingConfig config;
  std::string out;
  std::string resume = "none";
  bool dry_run = false;
  bool json = false;
};

ResumeOptions MakeResumeOptions(TrainSettings& settings) {
  ResumeOptions resume;
  if (settings.resume == "none") return resume;
  if (settings.resume == "auto") {
    CROSSTALK_CHECK(!settings.out.empty(), "--resume auto needs --out RUN: the run to go on with");
    resume.from = ResumeOptions::From::kNewest;
    return resume;
  }
  if (RunFolder(settings.resume).HoldsRun()) {  // a run folder: the same as --out RUN --resume auto
    if (settings.out.empty()) settings.out = settings.resume;
    CROSSTALK_CHECK(std::filesystem::equivalent(settings.out, settings.resume), "--resume ", settings.resume,
                    " is a run folder: to go on in another --out, name one of its checkpoints");
    resume.from = ResumeOptions::From::kNewest;
    return resume;
  }
  CROSSTALK_CHECK(!settings.out.empty(), "--resume CHECKPOINT needs --out RUN: where to go on");
  resume.from = ResumeOptions::From::kPath;
  resume.path = settings.resume;
  return resume;
}

// The options that are not given are those of the run that is resumed.
void TakeOverConfiguration(const OptionTable& options, const ResumeOptions& resume, TrainSettings& settings) {
  if (resume.from == ResumeOptions::From::kPath) {
    settings.config = ReadCheckpointTraining(VerifyCheckpoint(resume.path));
  } else if (RunFolder(settings.out).HoldsRun()) {
    settings.config = ReadRunConfig(RunFolder(settings.out));
  } else {
    return;  // nothing to take over: the run begins here
  }
  options.ParseAgain();
}

// Sizes of a tokenizer that does not exist yet are those that it is asked for.
int64_t VocabularyOf(const TrainingConfig& config) {
  if (config.tokenizer == "bytes") return MakeByteTokenizer()->vocab_size();
  if (config.tokenizer == "sentencepiece") return config.vocabulary + kDefaultSentinels;
  return LoadTokenizerFile(config.tokenizer)->vocab_size();
}

int DryRun(const TrainSettings& settings) {
  const TrainingConfig& config = settings.config;
  const std::string data = OpenCorpus(config).description;
  const T5Config model = MakeT5Config(config, VocabularyOf(config));
  model.Validate();
  const SpanLengths lengths = BatchLengths(config);
  const Activations activations = config.activations == "recompute" ? Activations::kRecompute : Activations::kKeep;
  const T5Cost cost = EstimateT5(model, config.batch / config.accumulate, lengths.inputs, lengths.targets, activations);
  const int64_t multiplications = cost.step_multiplications * config.accumulate;
  if (settings.json) {
    PrintResult(Json::MakeObject({{"configuration", ToJson(config)},
                                  {"model", ToJson(model)},
                                  {"data", data},
                                  {"implementation", config.implementation},
                                  {"parameters", cost.parameters},
                                  {"memory_bytes", cost.total_bytes()},
                                  {"parameter_bytes", cost.parameter_bytes},
                                  {"optimizer_bytes", cost.optimizer_bytes},
                                  {"activation_bytes", cost.activation_bytes},
                                  {"multiplications_per_step", multiplications},
                                  {"input_length", lengths.inputs},
                                  {"target_length", lengths.targets},
                                  {"threads", NumThreads()}}));
    return 0;
  }
  PrintResult(ToJson(config).DumpPretty());
  PrintResult(StrCat("data                      ", data, "\n", "encoder self-attention    ",
                     ToString(model.encoder_self), "\n", "decoder self-attention    ", ToString(model.decoder_self),
                     "\n", "encoder-decoder attention ", ToString(model.encoder_decoder), "\n",
                     "implementation            ", config.implementation, " attention, by which memory is estimated",
                     "\n", "parameters                ", CountText(cost.parameters), "\n", "memory of tensors         ",
                     BytesText(cost.total_bytes()), " (parameters and gradients ", BytesText(cost.parameter_bytes),
                     ", optimizer ", BytesText(cost.optimizer_bytes), ", activations ",
                     BytesText(cost.activation_bytes), ")\n", "multiplications a step    ", CountText(multiplications),
                     " (forward and backward)\n", "tokens a step             ",
                     CountText(config.batch * (lengths.inputs + lengths.targets)), " (", config.batch, " examples of ",
                     lengths.inputs, " inputs and ", lengths.targets, " targets)\n"));
  return 0;
}

void PrintEnd(const TrainSettings& settings, const TrainingRun& run, const TrainingSummary& summary) {
  const std::string& path = run.folder().path();
  if (settings.json) {
    PrintResult(Json::MakeObject(
        {{"run", path},
         {"finished", summary.end == TrainingSummary::End::kFinished},
         {"step", summary.step},
         {"parameters", summary.parameters},
         {"evaluation", summary.last_evaluation ? EvaluationResultJson(*summary.last_evaluation) : Json()}}));
  }
  if (summary.end == TrainingSummary::End::kStopped) {
    Say("interrupted after step ", summary.step, "; a checkpoint is saved in ", path,
        "\ncontinue with: ", program_invocation_name, " train --out '", path, "' --resume auto");
    return;
  }
  Say("finished: ", summary.step, " steps",
      summary.last_evaluation ? ", " + EvaluationText(*summary.last_evaluation) : "", ", ",
      DurationText(summary.seconds));
  Say("the run is in ", path, ": model.safetensors, metrics.jsonl, run.json, checkpoints/\n",
      "what next:  make eval RUN=", path, "              held-out ln(PPL) again, or with DATA=… on your own text\n",
      "            make train ATTENTION=multihead        the same model without talking heads\n",
      "            make compare                          the family side by side");
}

int Train(const OptionTable& options, TrainSettings& settings) {
  const ResumeOptions resume = MakeResumeOptions(settings);
  if (resume.from != ResumeOptions::From::kNothing) TakeOverConfiguration(options, resume, settings);
  MakePathsAbsolute(&settings.config);
  settings.config.Resolve();
  if (settings.dry_run) return DryRun(settings);
  if (settings.out.empty()) settings.out = UnusedRunPath("runs", "t5-" + settings.config.attention.kind);

  Progress progress;
  const StopSignals signals;
  const TrainingObserver observer = MakeTrainingObserver(progress, signals, settings.config.steps);
  TrainingRun run(settings.config, settings.out, resume, observer);
  const TrainingConfig& config = run.config();
  const SpanLengths lengths = BatchLengths(config);
  Say("T5, ", ToString(run.model().config().encoder_self), "\n", CountText(run.model().NumParameters()),
      " parameters, ", config.layers, " + ", *config.decoder_layers, " layers, ", config.batch, " examples of ",
      lengths.inputs, " + ", lengths.targets, " tokens a step, ", config.steps, " steps, ", NumThreads(),
      NumThreads() == 1 ? " thread" : " threads", ", ", config.implementation, " attention");
  Say("data: ", run.data().corpus.description, "; ", run.data().tokenizer->kind(), " tokenizer, ",
      run.data().tokenizer->vocab_size(), " ids");
  Say("run: ", run.folder().path());
  const TrainingSummary summary = run.Train();
  PrintEnd(settings, run, summary);
  return summary.end == TrainingSummary::End::kStopped ? 128 + signals.Received() : 0;
}

}  // namespace

Command TrainCommand() {
  return {"train", "train a T5 with any attention of the family, or go on with one",
          "Trains an encoder-decoder on span corruption. Without options: a small talking-heads model on the built-in "
          "corpus, in about three minutes on two cores. Progress goes to standard error; the run folder gets run.json, "
          "metrics.jsonl, checkpoints and at the end model.safetensors.\n"
          "The first SIGINT or SIGTERM saves a checkpoint and exits with 130 or 143; a second one ends at once. "
          "--resume goes on to the same bits; options that are not repeated are those of the run.",
          [](OptionTable& options) -> std::function<int()> {
            const auto settings = std::make_shared<TrainSettings>();
            AddTrainingOptions(options, &settings->config, TrainingOptionSet::kTrain);
            options.Add("--out", &settings->out, "FOLDER", "The run folder; runs/t5-KIND-1, -2, … by default.");
            options.Add("--resume", &settings->resume, "WHAT",
                        "auto: the newest good checkpoint of --out; a run folder; a checkpoint; or none.");
            options.AddFlag("--dry-run", &settings->dry_run,
                            "Print the resolved configuration, parameters, memory and multiplications; train nothing.");
            options.AddFlag("--json", &settings->json, "Result as one JSON object on standard output.");
            options.AddThreads();
            return [settings, &options] { return Train(options, *settings); };
          }};
}

}  // namespace crosstalk
