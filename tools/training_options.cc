#include "tools/training_options.h"

#include <filesystem>

namespace crosstalk {

namespace {

std::string Absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

void AddTrainingOptions(OptionTable& options, TrainingConfig* config, const std::vector<std::string>& except) {
  options.AddFields(TrainingFields(), config, except);
}

void MakePathsAbsolute(TrainingConfig* config) {
  config->data = Absolute(config->data);
  config->validation = Absolute(config->validation);
  if (config->tokenizer != "bytes" && config->tokenizer != "sentencepiece") {
    config->tokenizer = Absolute(config->tokenizer);
  }
}

}  // namespace crosstalk
