#include "tools/training_options.h"

#include <filesystem>
#include <system_error>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

// Without "." and doubled slashes. "a/.." stays: where a is a link, that is not the folder that a is in.
std::string Absolute(const char* field, const std::string& path) {
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

}  // namespace

void AddTrainingOptions(OptionTable& options, TrainingConfig* config, const std::vector<std::string>& except) {
  options.AddFields(TrainingFields(), config, except);
}

void MakePathsAbsolute(TrainingConfig* config) {
  config->data = Absolute("data", config->data);
  config->validation = Absolute("validation", config->validation);
  if (config->tokenizer != "bytes" && config->tokenizer != "sentencepiece") {
    config->tokenizer = Absolute("tokenizer", config->tokenizer);
  }
}

}  // namespace crosstalk
