#include <algorithm>
#include <functional>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tools/cli/command.h"
#include "tools/cli/training.h"

namespace crosstalk::fuzz {
namespace {

constexpr std::string_view kConfigFile = "CONFIG";

std::vector<std::string> WordsOf(std::string_view text, const std::string& config_path) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const FirstLine word = SplitFirstLine(text);
    words.emplace_back(word.line == kConfigFile ? config_path : word.line);
    text = word.rest;
  }
  return words;
}

// The configuration as the words that give it.
std::vector<std::string> WordsOf(const TrainingConfig& config) {
  std::vector<std::string> words;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    const Json value = field.get(config);
    if (value.is_null() || (value.is_string() && value.AsString().empty())) continue;
    std::string name = field.key;
    for (char& c : name) c = c == '_' ? '-' : c;
    words.push_back(StrCat("--", name, "=", value.is_string() ? value.AsString() : value.Dump()));
  }
  return words;
}

// The options of training into a configuration that can be looked at.
void RequireTrainingOptions(const std::vector<std::string>& words) {
  OptionTable options;
  options.AddFields(TrainingFields());
  bool run = false;
  if (!Accepts([&] { run = options.Parse(words) == OptionTable::Outcome::kRun; }) || !run) return;
  const TrainingConfig config = options.Over(TrainingFields(), TrainingConfig());
  OptionTable same;
  same.AddFields(TrainingFields());
  // A file may give a text that on the command line would be another option, and an empty one.
  if (!Accepts([&] { same.Parse(WordsOf(config)); })) return;
  const Json parsed = ToJson(config);
  Require(ToJson(same.Over(TrainingFields(), TrainingConfig())) == parsed,
          "the configuration as words is another: ", parsed.Dump());
}

}  // namespace

// The words of a command line, a line each, and after a NUL byte the file CONFIG. Parsed by
// every command's table, or by the one that the first word names; nothing is run.
void FuzzCommandLine(std::string_view input) {
  static const TempDir directory;
  const size_t nul = std::min(input.find('\0'), input.size());
  const std::string config = directory.Put("config", input.substr(std::min(nul + 1, input.size())));
  std::vector<std::string> words = WordsOf(input.substr(0, nul), config);
  if (words.empty()) return;
  const std::string name = words[0];
  words.erase(words.begin());
  for (const Command& command : AllCommands()) {
    if (command.name != name) continue;
    OptionTable options;
    const std::function<int()> run = command.declare(options);
    Accepts([&] {
      if (options.Parse(words) != OptionTable::Outcome::kRun) {
        for (const auto length : {OptionTable::HelpLength::kFirst, OptionTable::HelpLength::kAll}) {
          Require(!options.Help(command.name, command.description, length).empty(), "help without a word");
        }
      }
    });
    SetNumThreads(1);
  }
  if (name == "train") RequireTrainingOptions(words);
}

}  // namespace crosstalk::fuzz
