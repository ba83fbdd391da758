#include "crosstalk/models/training/checkpoint_config.h"

#include <optional>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

CheckpointConfig ReadCheckpointConfig(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.FilePath(kConfigName);
  const Json json = ReadJsonFile(path);
  const JsonReader reader(json, path);
  if (reader.Int("format") != kRunFormat)
    reader.FailAt("format", "is not ", kRunFormat, ": written by another version");
  reader.String("version");
  CheckpointConfig config{TrainingConfigFromJson(reader.Value("training"), path + ": training"), reader.Value("model"),
                          reader.String("data_fingerprint"), std::nullopt};
  if (!config.training.optimization.init_from.empty()) {
    config.origin = OriginFromJson(reader.Value("origin"), path + ": origin");
  }
  reader.RejectUnread();
  return config;
}

std::string TokenizerPath(const Checkpoint& checkpoint) {
  const std::optional<std::string> path = RunFolder(checkpoint.path).TokenizerFile();
  if (!path) {
    Fail(ErrorKind::kData, checkpoint.path,
         ": has no tokenizer, so it reads and writes no text; a published model is imported again with the tokenizer's "
         "files beside its config.json");
  }
  return *path;
}

std::string Lines(const std::vector<std::string>& lines) { return "\n  " + Join(lines, "\n  "); }

std::vector<std::string> ReasonsOf(const std::vector<SkippedCheckpoint>& skipped) {
  std::vector<std::string> reasons;
  for (const SkippedCheckpoint& one : skipped) reasons.push_back(one.reason);
  return reasons;
}

}  // namespace crosstalk
