// What the commands that train share: a run's progress and measures as text, --dry-run, and the runs
// of a command, one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/finetuning.h"  // paths
#include "crosstalk/models/training/run.h"
#include "tools/cli/option_table.h"
#include "tools/cli/progress.h"

namespace crosstalk {

// The progress output of `train` and `compare`, and the format of a held-out measure.

// Progress lines of a run of `steps` steps, the held-out measures as lines that stay, and the signals as a stop.
// Refers to its arguments.
TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps);

// "2.3451", and of a metric that is a share "23.45 %": both with `digits` = 4; "undefined". `value` is of that metric.
std::string MetricText(const Metric& metric, double value, int digits);
// "ln(PPL) 2.3451": every metric by its label, with the guess of its name after it.
std::string MetricsText(const std::vector<Metric>& metrics, int digits, const std::vector<Metric>& constant_guess = {});
// "held-out ln(PPL) 2.3451 over 34,112 tokens, entropy bound 1.021",
// "held-out ln(PPL) 4.1044  masked accuracy 27.31 % (constant guess 4.90 %) over 9,728 tokens"
std::string EvaluationText(const RunEvaluation& evaluation);
// ", entropy bound 1.021" where it is known and the measure is ln(PPL), which it bounds.
std::string BoundText(const RunEvaluation& evaluation);

// --dry-run of the commands that train: what a run would be, and what it would take.

// Opens the data and the weights that the run would begin with, and prints its configuration, model, memory and
// multiplications. `checkpoint`: what it would go on from. Returns the exit code.
int DryRun(const ResolvedConfig& config, const std::optional<Checkpoint>& checkpoint, bool as_json);

// The runs of a command, each in a folder of its own. `demo` and `finetune` have a list of them; a cell of `compare`
// and `reproduce` (lab/experiment/cells.h) is a pretraining and its finetunings.

struct PlannedRun {
  std::string title;  // "seed 3", in the line above it; empty: there is none
  ResolvedConfig config;
  std::string folder;
  std::unique_ptr<RunLock> lock = nullptr;  // of a new folder, which has its name by it
};

struct RunCalls {
  std::function<void(const TrainingRun&)> begun = {};  // before its first step of this session
  std::function<void(const TrainingRun&, const TrainingSummary&)> finished = {};
  std::chrono::milliseconds plain_interval = std::chrono::seconds(10);  // of progress, off a terminal
};

// Goes on with the run in its folder, or begins it.
TrainingSummary GoOnWith(PlannedRun run, const StopSignals& signals, RankGroup* ranks, const RunCalls& calls);
// The same for each. At a signal it prints "interrupted after step 12; " and `resumes`. Returns the exit code.
int GoOnWithAll(std::vector<PlannedRun> runs, const std::string& resumes, const StopSignals& signals, RankGroup* ranks,
                const RunCalls& calls);
// The line above a part of the work: "[2/6] TITLE".
void PrintPlace(size_t index, size_t count, const std::string& title);

// Runs that differ in their seed alone: FOLDER/seed-1, seed-2, …
std::string SeedFolder(const std::string& folder, uint64_t seed);
// None where the name is not exactly one of a seed's run.
std::optional<uint64_t> SeedOf(const std::string& name);
// Those that a folder has runs of; none if there is no folder.
std::set<uint64_t> SeedsIn(const std::string& folder);

// Error(kUsage) where --out holds anything but temporary files and names that `is_own`: "files that are not those of
// WHOSE".
void CheckHolds(const std::string& out, const char* whose, const std::function<bool(const std::string&)>& is_own);

// The published settings for the tasks under what is given. Steps that are not given are 0, for SetSteps.
TrainingConfig FinetuningUnder(const Trained& origin, const std::string& tasks, const Given& given,
                               const std::optional<double>& epochs, FinetuningLength* length);

}  // namespace crosstalk
