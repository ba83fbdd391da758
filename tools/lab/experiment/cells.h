// Cells: a row of a table with one seed, as a pretraining run and the finetunings that begin with it. A cell is begun,
// gone on with and finished on its own, by whichever process comes to it.
//
//   CELLS/t5-talking-24x32/seed-1/pretraining/          a run folder
//   CELLS/t5-talking-24x32/seed-1/finetuning-mnli-m/    another
//   CELLS/t5-talking-24x32/seed-1/finetuning-mnli-m.json  what the scale says of it, as it was begun
//   CELLS/t5-talking-24x32/seed-1/failure.json          why it is not finished, if it failed
//   CELLS/t5-talking-24x32/seed-1/result.json           what it has measured, when it is finished: see cell_record.h
//
// A cell with a result.json is finished without its run folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "tools/cli/progress.h"
#include "tools/lab/experiment/cell_record.h"

namespace crosstalk {

// Tasks that a pretrained model is finetuned on, in one run.
struct CellFinetuning {
  std::string tasks;                 // "mnli-m", or several
  Json config = Json::MakeObject();  // fields over the published settings for the model and the tasks
  std::optional<double> epochs = {};

  static FieldTable<CellFinetuning> Fields();
  std::string FolderName() const;  // "finetuning-mnli-m"
};

struct Cell {
  std::string name;            // "t5-talking-24x32"
  std::string folder;          // CELLS/t5-talking-24x32/seed-1
  TrainingConfig pretraining;  // with its seed
  std::vector<CellFinetuning> finetunings;
  std::string task_data;  // folder with the tasks' files; where it lacks them, that of the finetuning counts

  std::string PretrainingFolder() const { return folder + "/pretraining"; }
  std::string FinetuningFolder(const CellFinetuning& one) const { return folder + "/" + one.FolderName(); }
  std::string FinetuningRecord(const CellFinetuning& one) const { return FinetuningFolder(one) + ".json"; }
  std::string FailureFile() const { return folder + "/failure.json"; }
  std::string ResultFile() const { return folder + "/result.json"; }
  std::string Title() const;  // "t5-talking-24x32, seed 1"
};

// The folder with the files of a finetuning's tasks; none if there are none.
std::optional<std::string> TaskFolderOf(const Cell& cell, const CellFinetuning& finetuning);
// The configuration of a finetuning that begins with `origin`, the fields of the scale over the published settings. Its
// steps are 0 where they follow from the examples (SetSteps).
TrainingConfig FinetuningOf(const Cell& cell, const CellFinetuning& finetuning, const Trained& origin,
                            const std::string& task_folder, FinetuningLength* length);

// The settings that make two cells see the same text.
std::string TextOf(const TrainingConfig& config);

// Whether a run folder holds a finished run.
bool IsFinished(const std::string& run_folder, bool has_tasks);
// Whether nothing is left to do: all is finished, or its tasks' files are not there.
bool IsFinished(const Cell& cell);
// The content of result.json; none without the file. Error(kData) if it is damaged.
std::optional<CellRecord> KeptRecord(const Cell& cell);
// Writes result.json of a finished cell, or adds the finetunings that it lacks. Nothing happens to a cell that is not
// finished, is another, or cannot be read. Failures to write are printed on standard error.
void KeepRecord(const Cell& cell);
// The fingerprint of its pretraining's text; none before the first run.
std::optional<std::string> DataFingerprintOf(const Cell& cell);
// Why the run that is in a cell's folder or its result is none of this cell; empty if it is, or there is none.
std::string WhyAnother(const Cell& cell);
// The same of a finetuning.
std::string WhyAnother(const Cell& cell, const CellFinetuning& finetuning);
// A finished finetuning in its folder, as a record beside that of its pretraining.
FinetuningRecord ReadFinetuning(const Cell& cell, const CellFinetuning& finetuning,
                                const PretrainingRecord& pretraining);
// The step that the last line of its pretraining's metrics is of; 0 without one.
int64_t StepOf(const Cell& cell);
// The content of the cell's failure.json; empty without the file.
std::string FailureOf(const Cell& cell);

enum class CellEnd {
  kFinished,
  kStopped,  // by a signal: what was done is saved
  kFailed,   // failure.json says why
  kLocked,   // another process computes it
};
// Begins or goes on with a cell, on the ranks if there are some. Events are printed on standard error. An error
// that cuts off what the ranks do together is thrown once it is recorded.
CellEnd RunCell(const Cell& cell, const StopSignals& signals, RankGroup* ranks = nullptr);

}  // namespace crosstalk
