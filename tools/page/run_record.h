// RunRecord: what a run has left on disk, as its report and `show` tell it. Whatever is lost or damaged is missing from
// it, and said; nothing is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"
#include "tools/page/axis.h"

namespace crosstalk {

// Where something happened that a curve may show.
struct RunEvent {
  enum class Kind { kResumed, kContinued };
  Kind kind;
  int64_t step = 0;  // the last one before it
};

// What was measured on held-out text or rows, of the newest evaluation.
struct RunScore {
  int64_t step = 0;
  double value = 0;

  static FieldTable<RunScore> Fields() { return {{"step", &RunScore::step}, {"value", &RunScore::value}}; }
};

struct RunRecord {
  std::string folder;                // absolute
  std::string name;                  // that tells it from the others of the page
  std::vector<std::string> missing;  // a sentence for each thing that is not there
  std::optional<TrainingConfig> config;
  Json run;     // run.json; null where it is lost
  Json scores;  // scores.json, the same
  std::vector<RunSession> sessions;

  // By name, in the order of the file: "loss", "ln_ppl", …, "learning_rate", "gradient_norm", "tokens_per_second".
  std::vector<Series> training;
  std::vector<Series> held_out;  // "ln_ppl", "masked_accuracy", "score", …: the first ranks checkpoints
  std::vector<Metric> constant_guess;
  std::optional<double> loss_lower_bound;
  int64_t held_out_tokens = 0, held_out_examples = 0;
  int64_t step = 0;  // the last of which there is a line
  bool finished = false;
  bool imported = false;  // a published model: no training has begun here, and nothing of one is missing
  double seconds = 0;     // of the steps and evaluations of which there are lines
  std::vector<double> step_seconds;

  const Series* Training(std::string_view metric) const;
  std::vector<RunEvent> Events() const;
  // Scores on the first held-out measure; none without an evaluation.
  std::optional<RunScore> Best() const;
  std::optional<RunScore> Last() const;
  // The median over the steps of which there are finite ones.
  std::optional<double> TokensPerSecond() const;
  // Trainable or not, of run.json.
  std::optional<int64_t> Parameters() const;
};

// Error(kData) for a folder that holds nothing of a run.
RunRecord ReadRun(const std::string& folder);

// The runs that a path of a command line means: itself, or of a folder of runs (of seeds, of a comparison) those in it.
// Error(kData) if there is none.
std::vector<RunRecord> ReadRuns(const std::vector<std::string>& paths);

// "ln(PPL)", "sst-2 accuracy": how a measure is called.
std::string MeasureLabel(const std::string& name);

}  // namespace crosstalk
