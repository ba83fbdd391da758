// The run folder: what a training run leaves on disk, and who may write to it.
//
//   run.json            the resolved configuration, and what each session of the run ran on
//   metrics.jsonl       one object a line, flushed line by line
//   tokenizer.*         what turns text into this model's ids
//   checkpoints/        step-00000123/ …: see checkpoint.h
//   model.safetensors   the parameters, once the run is finished
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Of run.json, and of a checkpoint's config.json and state.json.
inline constexpr int kRunFormat = 2;

class RunFolder {
 public:
  // Touches nothing.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string RunFile() const { return path_ + "/run.json"; }
  std::string MetricsFile() const { return path_ + "/metrics.jsonl"; }
  std::string ModelFile() const { return path_ + "/model.safetensors"; }
  std::string CheckpointDirectory() const { return path_ + "/checkpoints"; }

  // True if it has a run.json.
  bool HoldsRun() const;
  // True if it holds something that no run has put there: then it is not ours to write to.
  bool IsForeign() const;
  // run.json; Error(kData) if it is missing, not one, or of another format.
  Json ReadRunFile() const;
  // The path of the tokenizer's file, or nothing.
  std::optional<std::string> TokenizerFile() const;

 private:
  std::string path_;
};

// PARENT/NAME-1, or -2, … : the first that does not exist.
std::string UnusedRunPath(const std::string& parent, const std::string& name);

// One process at a time writes to a run folder. Creates the folder if it is missing. Error(kUsage) if another process
// holds it; a process that dies lets go.
class RunLock {
 public:
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace crosstalk
