#include "tools/training_options.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "crosstalk/models/training/data.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

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

void AddTrainingOptions(OptionTable& options, const TrainingConfig& defaults, const std::vector<std::string>& except) {
  options.AddFields(TrainingFields(), defaults, except);
}

void MakePathsAbsolute(TrainingConfig* config) {
  config->data.text = AbsolutePath("data", config->data.text);
  config->data.validation = AbsolutePath("validation", config->data.validation);
  config->objective.task_data = AbsolutePath("task_data", config->objective.task_data);
  config->optimization.init_from = AbsolutePath("init_from", config->optimization.init_from);
  const std::vector<std::string>& named = NamedTokenizers();
  if (std::find(named.begin(), named.end(), config->data.tokenizer) == named.end()) {
    config->data.tokenizer = AbsolutePath("tokenizer", config->data.tokenizer);
  }
}

}  // namespace crosstalk
