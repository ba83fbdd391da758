// Checkpoints: directories `step-00000123/` of any files and a manifest with their sizes and checksums, that survive
// a crash at any moment. The caller decides the files' content.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/safetensors.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// One file to save: `write` is called once with the file open and empty; it need not Finish it.
struct CheckpointFile {
  std::string name;  // "model.safetensors": a plain name, no directory
  std::function<void(FileWriter&)> write;
};
// A file of these bytes.
CheckpointFile BytesFile(std::string name, std::string bytes);

// A checkpoint that has been verified.
struct Checkpoint {
  int64_t step = 0;
  std::string path;                              // ".../checkpoints/step-00000123"
  std::optional<double> score;                   // as it was saved; lower is better
  std::map<std::string, std::string> checksums;  // by file: "model.safetensors", …

  std::string FilePath(const std::string& name) const { return path + "/" + name; }
};

// Whether a folder looks like one: it has a manifest, good or not.
bool HasManifest(const std::string& path);

struct SkippedCheckpoint {
  std::string path;
  std::string reason;
};

struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;    // none: there is no good one
  std::vector<SkippedCheckpoint> skipped;  // newer ones that were refused, newest first
  // Set by FindBest: a checkpoint whose score is better, or cannot be read, so that it may be.
  std::optional<SkippedCheckpoint> better;
};

// Checks a checkpoint's directory against its manifest, reading every byte: Error(kData) that names the file and says
// what is wrong with it: missing, truncated (with both sizes), longer, altered (checksum), or not in the manifest.
Checkpoint VerifyCheckpoint(const std::string& path);

// The checkpoints of one run. One process at a time.
class CheckpointStore {
 public:
  // `directory` need not exist yet; nothing is touched before Save or RemoveStale.
  explicit CheckpointStore(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  // "DIRECTORY/step-00000123"
  std::string PathOf(int64_t step) const;

  // Writes a checkpoint and returns it once it is on the disk. On any error (Error(kResource): the disk is full) the
  // earlier checkpoints stand and what was written is removed. A checkpoint of the same step is replaced in one step.
  Checkpoint Save(int64_t step, std::span<const CheckpointFile> files, std::optional<double> score = std::nullopt);

  // The steps that have a directory, ascending, good or not. Empty where the directory does not exist.
  std::vector<int64_t> Steps() const;

  // The newest checkpoint that verifies, and what was skipped on the way to it, with the reasons: damaged ones, not
  // those that another process removes meanwhile. Any other error than Error(kData) is thrown: a checkpoint that cannot
  // be read at the moment may be good.
  FoundCheckpoint FindNewestGood() const;
  // The good checkpoint of the lowest score (of equal ones the first), none if no good one has a score; and those that
  // are not good, newest last.
  FoundCheckpoint FindBest() const;

  // Keeps the newest `keep_last` (≥ 1) good checkpoints and the good one of the lowest score, and removes the other
  // good ones, and what interrupted removals have left. What is not good stays, damaged or not to be read at the
  // moment, for its owner to look at. A failed removal is no error: the next call tries again. Killed at any
  // point, it leaves whole checkpoints and rubbish that RemoveStale takes.
  struct Pruned {
    std::vector<int64_t> removed;     // steps
    std::vector<std::string> failed;  // why others could not be removed
  };
  Pruned Prune(int keep_last);

  // Removes what interrupted saves and prunes have left.
  RemovedTemporaries RemoveStale();

 private:
  // VerifyCheckpoint, but only manifest and sizes where this object has saved or verified the bytes before.
  Checkpoint Verify(int64_t step) const;
  // Verify; nothing, and a line in `skipped`, where the checkpoint is damaged; nothing alone where it is gone.
  std::optional<Checkpoint> VerifyOrSkip(int64_t step, std::vector<SkippedCheckpoint>* skipped) const;

  std::string directory_;
  mutable std::set<int64_t> trusted_;  // steps whose bytes this object has written or verified
};

// A module's parameters as named tensors, and back: what model.safetensors holds.

// By dotted path; sharing memory with the parameters.
std::vector<NamedTensor> ParameterTensors(const Module& module);

// Copies the file's tensors into the parameters. Error(kData) naming file and tensor if one is missing, unknown, or
// of another shape or dtype; nothing is changed then.
void LoadParameters(const TensorFile& file, Module& module);

// "embedding[17] is nan" of the first float32 parameter that is not finite; empty if all are.
std::string NonFiniteValue(const Module& module);

}  // namespace crosstalk
#pragma GCC visibility pop
