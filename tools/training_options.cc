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

void AddTrainingOptions(OptionTable& options, TrainingConfig* config, const std::vector<std::string>& except) {
  options.AddFields(TrainingFields(), config, except);
}

void MakePathsAbsolute(TrainingConfig* config) {
  config->data = AbsolutePath("data", config->data);
  config->validation = AbsolutePath("validation", config->validation);
  config->task_data = AbsolutePath("task_data", config->task_data);
  config->init_from = AbsolutePath("init_from", config->init_from);
  const std::vector<std::string>& named = NamedTokenizers();
  if (std::find(named.begin(), named.end(), config->tokenizer) == named.end()) {
    config->tokenizer = AbsolutePath("tokenizer", config->tokenizer);
  }
}

}  // namespace crosstalk
