// OptionTable: the options of one subcommand. What a command declares here is what parsing, `--help`, `--config FILE`
// and the nearest-name hint of an unknown option all work from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// Names are "--d-model"; several separated by commas are synonyms ("--output,-o"); one without dashes is a positional
// argument. `placeholder` is what stands for the value in the help ("N", "FILE"), `help` one sentence with the unit.
// A target's value at declaration is the default; it is written when the command line is parsed, and must live until
// then. An option may be given once.
class OptionTable {
 public:
  OptionTable();
  ~OptionTable();
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  enum class Required { kNo, kYes };

  // Starts a titled group in the help.
  void Group(const std::string& title);

  void Add(const std::string& names, std::string* value, const std::string& placeholder, const std::string& help,
           Required required = Required::kNo);
  void Add(const std::string& names, int64_t* value, const std::string& placeholder, const std::string& help,
           Required required = Required::kNo);
  void Add(const std::string& names, uint64_t* value, const std::string& placeholder, const std::string& help,
           Required required = Required::kNo);
  void Add(const std::string& names, double* value, const std::string& placeholder, const std::string& help,
           Required required = Required::kNo);
  void Add(const std::string& names, std::optional<std::string>* value, const std::string& placeholder,
           const std::string& help);
  void Add(const std::string& names, std::optional<int64_t>* value, const std::string& placeholder,
           const std::string& help);
  void Add(const std::string& names, std::optional<double>* value, const std::string& placeholder,
           const std::string& help);
  // "1,2,3"
  void Add(const std::string& names, std::vector<uint64_t>* value, const std::string& placeholder,
           const std::string& help);
  // One of `choices`; any other is a usage error that names the nearest.
  void AddChoice(const std::string& names, std::string* value, const std::vector<std::string>& choices,
                 const std::string& help);
  // Takes no value; sets *value to true. In a configuration file: true or false.
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  // "--threads N": applied with SetNumThreads before the command runs. Not given: all processors.
  void AddThreads();

  // True if the command line or the configuration file gave this option ("--d-model").
  bool Given(const std::string& name) const;
  // The same for the command line alone.
  bool GivenOnCommandLine(const std::string& name) const;

  // Reads `arguments` (without program and command name), then --config FILE's values for options that the command
  // line does not give. Throws Error(kUsage).
  enum class Outcome { kRun, kHelp };
  Outcome Parse(const std::vector<std::string>& arguments);
  // Writes the given values into their targets once more, over whatever they hold now.
  void ParseAgain() const;
  std::string Help(const std::string& command, const std::string& description) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// --attention, --heads, --key-heads, --value-heads, --key-size, --value-size, --dynamic: the same names wherever an
// attention layer is configured. MakeAttentionConfig(options, d_model) interprets them.
void AddAttentionOptions(OptionTable& options, AttentionOptions* attention);

// The parts of a list that commas separate, for the option `name`. Usage error where there is nothing, in all or in a
// part.
std::vector<std::string> SplitList(const std::string& name, const std::string& text);

}  // namespace crosstalk
