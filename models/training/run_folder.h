// The run folder: what a training run leaves on disk, and who may write to it.
//
//   run.json            the resolved configuration, and what each session of the run ran on
//   metrics.jsonl       one object a line, flushed line by line
//   events.out.*        the same for TensorBoard, where the configuration asks for it: see event_log.h
//   tokenizer.*         what turns text into this model's ids
//   checkpoints/        step-00000123/ …: see checkpoint.h
//   model.safetensors   the parameters, once the run is finished
//   predictions/        of tasks, once the run is finished: see task_results.h
//   scores.json         the same
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/record.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// metrics.jsonl: one object a line, {"event": "train" or "eval", "step": …} and what was measured.

// The file, open at its end.
class MetricsLog {
 public:
  // Keeps the lines of an existing file that precede the resumption at `step`: those of steps up to it, but of `step`
  // itself no evaluation unless `evaluated` (which will be made again). A line that was cut off goes too. A file with a
  // damaged line is kept as it is beside the new one, as PATH.damaged-1, -2, ….
  enum class Evaluated { kNo, kYes };
  MetricsLog(const std::string& path, int64_t step, Evaluated evaluated);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // One line, handed to the system before it returns. Error(kResource) if the disk is full.
  void Append(const Json& line);

  // The fault of the existing file, with the line's number, and where it is kept; empty: none.
  const std::string& damage() const { return damage_; }

 private:
  std::string path_;
  std::string damage_;
  int descriptor_;
};

// The lines of a file, whole ones only. Error(kData) with the line's number for one that is not JSON.
std::vector<Json> ReadMetrics(const std::string& path);

// One process's part of a run, as run.json keeps it: what its speed depends on, and its bits beside the configuration.
struct RunSession {
  int64_t from_step = 0;  // the last step before it
  std::string version;
  int threads = 0;
  std::string simd_target;
  PlatformInfo platform;
  std::string bfloat16_unit = "";  // where it computed in bfloat16
  Json ranks = {};                 // if there were several: the place of each

  static FieldTable<RunSession> Fields();
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

// The format of run.json, and of a checkpoint's config.json and state.json.
inline constexpr int kRunFormat = 2;

// CreateDirectories whose errors are of the field "out", with what to do.
void CreateOutFolder(const std::string& path);

class RunFolder {
 public:
  // Touches nothing.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string RunFile() const { return path_ + "/run.json"; }
  std::string MetricsFile() const { return path_ + "/metrics.jsonl"; }
  std::string ModelFile() const { return path_ + "/model.safetensors"; }
  std::string ScoresFile() const { return path_ + "/scores.json"; }
  std::string CheckpointDirectory() const { return path_ + "/checkpoints"; }

  bool HasRunFile() const;
  // True if it has a run.json, or has lost it and has checkpoints.
  bool HoldsRun() const;
  // The name of something in it that no run has put there: then it is not ours to write to.
  std::optional<std::string> ForeignName() const;
  // run.json; Error(kData) if it is missing, not one, or of another format.
  Json ReadRunFile() const;
  // The path of the tokenizer's file, or nothing.
  std::optional<std::string> TokenizerFile() const;

 private:
  std::string path_;
};

// One process at a time writes to a run folder.
class RunLock {
 public:
  // Creates the folder if it is missing. Error(kUsage) if another process holds it; a process that dies lets go.
  explicit RunLock(const std::string& folder);
  // Locks PARENT/NAME-1, or -2, …: the first that does not exist. Each of several processes gets its own.
  static std::unique_ptr<RunLock> OfNewFolder(const std::string& parent, const std::string& name);
  // A folder that this object created, and that nobody has put anything into, goes with it.
  ~RunLock();
  // Who holds the folder's lock, "HOST, process 1234", which stands in its file as long; none where nobody does, or
  // that cannot be told.
  static std::optional<std::string> HolderOf(const std::string& folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const std::string& folder() const { return folder_; }  // without a slash at its end
  // Error(kFailure) if what is at the folder's path is not what was locked: it was moved, removed or replaced.
  void CheckHeld() const;

 private:
  enum class Created { kNo, kYes };
  RunLock(std::string folder, Created created);
  std::string LockFile() const { return folder_ + "/lock"; }
  void Lock();
  void Release();
  void WriteHolder();
  bool IsHeld() const;

  std::string folder_;
  bool created_;
  int descriptor_ = -1;
  bool wrote_holder_ = false;
};

}  // namespace crosstalk
#pragma GCC visibility pop
