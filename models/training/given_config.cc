#include "crosstalk/models/training/given_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "crosstalk/models/training/origin.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

TrainingConfig ConfigToBegin(const GivenOver& given) {
  TrainingConfig config = given(TrainingConfig());
  const std::string& init_from = config.optimization.init_from;
  if (init_from.empty()) return config;
  const TrainingConfig origin = LoadOrigin(init_from, TrainedParts::kConfig).config;
  TakeModelOf(origin, config);
  config = given(config);
  CROSSTALK_CHECK_FIELD(config.model.name == origin.model.name, "model", config.model.name,
                        " cannot begin with the weights of ", init_from, ", which are those of ", origin.model.name);
  return config;
}

TrainingConfig ConfigToResume(const GivenOver& given, const ResumeOptions& resume, const std::string& folder) {
  const TrainingConfig run =
      resume.from == ResumeOptions::From::kPath
          ? LoadTrainedModel(VerifyCheckpoint(resume.path), {.parts = TrainedParts::kConfig}).config
          : ReadRunConfig(RunFolder(folder));
  TrainingConfig config = given(run);
  const int64_t before = run.optimization.steps, steps = config.optimization.steps;
  CROSSTALK_CHECK_FIELD(steps >= before, "steps", "the run has ", before,
                        "; it can be continued for more, and not made shorter to ", steps);
  if (steps > before && config.optimization.continued_at == run.optimization.continued_at) {
    config.optimization.steps = before;
    return Continued(config, steps);
  }
  return config;
}

std::string AbsolutePath(const char* field, const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    FailField(ErrorKind::kUsage, field, path,
              " is relative to the working folder, which cannot be told: ", error.message());
  }
  std::filesystem::path plain;
  for (const std::filesystem::path& part : absolute) {
    if (part != ".") plain /= part;
  }
  return plain.string();
}

void MakePathsAbsolute(TrainingConfig* config) {
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    const std::vector<std::string>& names = field.options.not_paths;
    if (!field.options.is_path) continue;
    const std::string value = field.get(*config).AsString();
    if (std::find(names.begin(), names.end(), value) == names.end()) {
      field.set(*config, AbsolutePath(field.key.c_str(), value));
    }
  }
}

}  // namespace crosstalk
