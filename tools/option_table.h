// OptionTable: the options of one subcommand. What a command declares here is what parsing, `--help`, `--config FILE`
// and the nearest-name hint of an unknown option all work from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// Names are "--d-model"; several separated by commas are synonyms ("--output,-o"); one without dashes is a positional
// argument. `placeholder` is what stands for the value in the help ("N", "FILE"), `help` one sentence with the unit.
// A target's value at declaration is the default; it is written when the command line is parsed, and must live until
// then. An option may be given once, but for a list.
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
  // A positional argument that is given once or more: RUN….
  void AddList(const std::string& name, std::vector<std::string>* values, const std::string& placeholder,
               const std::string& help);
  // One of `choices`; any other is a usage error that names the nearest.
  void AddChoice(const std::string& names, std::string* value, const std::vector<std::string>& choices,
                 const std::string& help);
  // A row of a configuration's table as an option: --d-model for d_model. What it says is what the row says. Rows whose
  // keys are in `except` are left out.
  template <typename Config>
  void AddFields(const FieldTable<Config>& fields, const Config& defaults,
                 const std::vector<std::string>& except = {}) {
    for (const Field<Config>& field : fields) {
      if (std::find(except.begin(), except.end(), field.key) != except.end()) continue;
      if (!field.group.empty()) Group(field.group);
      AddField(field.key, field.type, field.choices, field.options, field.get(defaults), [set = field.set](Json value) {
        Config scratch;
        set(scratch, value);
        return value;
      });
    }
  }
  // Once parsed: `base` with the fields that the command line gives, or else --config FILE.
  template <typename Config>
  Config Over(const FieldTable<Config>& fields, Config base) const {
    for (const Field<Config>& field : fields) {
      if (const Json* const value = GivenField(field.key)) field.set(base, *value);
    }
    return base;
  }
  // Takes no value; sets *value to true. In a configuration file: true or false.
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  // "--threads N" and "--simd NAME", of every command that computes: applied before it runs. Not given: all processors,
  // and the environment's CROSSTALK_SIMD or the CPU's best.
  void AddThreads();

  // The options that one needs: --help shows these alone, and --help=all every one. Without, there is one length.
  void ShowFirst(const std::vector<std::string>& names);
  // A field's option that the command takes, for a configuration file may hold it, and refuses unless it changes
  // nothing: neither help nor documentation shows it.
  void Hide(const std::string& key);

  // Reads `arguments` (without program and command name), then --config FILE's values for options that the command
  // line does not give. Throws Error(kUsage).
  enum class Outcome { kRun, kHelp, kHelpAll };
  Outcome Parse(const std::vector<std::string>& arguments);
  // The text of an option as the command line gave it; none where it did not.
  std::optional<std::string> Given(const std::string& name) const;
  enum class HelpLength { kFirst, kAll };
  std::string Help(const std::string& command, const std::string& description, HelpLength length) const;

  // An option as documentation shows it.
  struct Row {
    std::string names;  // "--output, -o"
    std::string group, placeholder, help, default_text;
  };
  std::vector<Row> Rows() const;
  // The message of an error, with the option's name ("--d-model") in the place of the field's (error.field()), and in
  // the places of those that it advises: "Try a smaller learning_rate, or clip = 1" becomes "--learning-rate, or --clip
  // 1".
  std::string MessageOf(const Error& error) const;
  // Of a field that the command calls by another name: errors of `field` name the option `name`.
  void NameField(const std::string& field, const std::string& name);
  // Whether the command line, or --config FILE, gives the option of this name.
  bool Gives(const std::string& name) const;

 private:
  void AddField(const std::string& key, FieldType type, const std::vector<std::string>& choices,
                const FieldOptions& field, const Json& default_value, std::function<Json(Json)> checked);
  // Null where it is not given.
  const Json* GivenField(const std::string& key) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The parts of a list that commas separate, for the option `name`. Usage error where there is nothing, in all or in a
// part.
std::vector<std::string> SplitList(const std::string& name, const std::string& text);

// The value that a field's text on the command line is. Usage error of `name` for a text that is none of its type.
Json FieldValue(const std::string& name, FieldType type, const std::string& text);

// Usage error of the option `name` where a value stands there twice.
template <typename T>
void CheckDistinct(const std::string& name, std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  CROSSTALK_CHECK(twice == values.end(), name, ": ", *twice, " stands there twice");
}

}  // namespace crosstalk
