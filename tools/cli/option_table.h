// OptionTable: the options of one subcommand. The rows of its settings (runtime/field.h) drive parsing, `--help`,
// `--config FILE` and the nearest-name hint of an unknown option.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The key of an option's field: max_length of "--max-length", output of "--output,-o", MODEL of "MODEL".
std::string OptionKey(const std::string& names);

// A row of a command's settings by its names on the command line: "--max-length"; "--output,-o"; or, without dashes,
// "MODEL", an argument that is known by its place, and as a list is given once or more. `more`: what else it says.
template <typename Settings, typename Place>
Field<Settings> MakeOption(const char* names, Place place, const char* placeholder, std::string help,
                           FieldOptions more = {}) {
  more.names = names;
  more.placeholder = placeholder;
  more.help = std::move(help);
  return {OptionKey(names), place, std::move(more)};
}
template <typename Settings, typename Member>
Field<Settings> MakeOption(const char* names, Member Settings::*member, const char* placeholder, std::string help,
                           FieldOptions more = {}) {
  return MakeOption<Settings, Member Settings::*>(names, member, placeholder, std::move(help), std::move(more));
}

// A row of key d_model is the option --d-model. A list's values are separated by commas. true or false is a flag: on
// the command line its name alone, in a configuration file true or false. An option may be given once.
class OptionTable {
 public:
  OptionTable() = default;
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // All rows but those whose keys are in `except`. Help and documentation show them; the values of
  // `defaults` are shown as defaults. Rows `of` another command, whose help and documentation show them: this command's
  // say so, and which defaults differ from Config's own.
  template <typename Config>
  void AddFields(const FieldTable<Config>& fields, const Config& defaults = {},
                 const std::vector<std::string>& except = {}, const std::string& of = {}) {
    of_ = of;
    for (const Field<Config>& field : fields) {
      if (std::find(except.begin(), except.end(), field.key) != except.end()) {
        if (!of.empty()) not_taken_.push_back(NameOfField(field.key, field.options));
        continue;
      }
      if (!field.group.empty()) group_ = field.group;
      const auto check = [set = field.set](const Json& value) {
        Config scratch;
        set(scratch, value);
      };
      AddEntry({.key = field.key, .type = field.type, .list = field.list, .check = check}, field.choices, field.options,
               field.get(defaults));
      entries_.back().other_default = !of.empty() && field.get(defaults) != field.get(Config());
    }
    of_.clear();
  }
  // Once parsed: `base` with the fields that the command line gives, or else --config FILE.
  template <typename Config>
  Config Over(const FieldTable<Config>& fields, Config base = {}) const {
    return Values().Over(fields, std::move(base));
  }
  // All that is given, by the keys of the fields.
  crosstalk::Given Values() const;
  // "--threads N" and "--simd NAME", of every command that computes: applied before it runs. Not given: all processors,
  // and the environment's CROSSTALK_SIMD or the CPU's best.
  void AddThreads();
  // "--config FILE", which parsing adds to every command that has none of its own. Paths in the file are relative to
  // its folder.
  void AddConfig();

  // The options that one needs: --help shows these alone, and --help=all every one. Without, there is one length.
  void ShowFirst(const std::vector<std::string>& names);
  // A field's option that the command takes, for a configuration file may hold it, and refuses unless it changes
  // nothing: neither help nor documentation shows it.
  void Hide(const std::string& key);

  // Reads `arguments` (without program and command name), then --config FILE's values for options that the command
  // line does not give. Throws Error(kUsage).
  enum class Outcome { kRun, kHelp, kHelpAll };
  Outcome Parse(const std::vector<std::string>& arguments);
  bool Has(const std::string& name) const { return FindEntry(name) != nullptr; }
  // The text of an option as the command line, or else --config FILE, gives it; null where neither does.
  const std::string* Given(const std::string& name) const;
  // All that are given but those of these keys: "--steps 100 --seed 2", in the order of the table.
  std::string GivenText(const std::vector<std::string>& except) const;
  enum class HelpLength { kFirst, kAll };
  std::string Help(const std::string& command, const std::string& description, HelpLength length) const;

  // An option as documentation shows it.
  struct Row {
    std::vector<std::string> names;  // "--output", "-o"; of an argument "FILE"
    std::string group, placeholder, help, default_text;
    std::string of;  // the command that shows it; empty: this one
    FieldType type;
    bool list;
    std::vector<std::string> choices;
    bool required;
    bool is_path;

    bool positional() const { return names[0][0] != '-'; }
    bool flag() const { return placeholder.empty(); }
  };
  std::vector<Row> Rows() const;
  // A sentence on the rows of another command; "" if there are none.
  std::string TakenAsWell() const;
  // The message of an error, with an option ("--d-model") for each field that it names and an option sets.
  std::string MessageOf(const Error& error) const;
  // Names the option of a field that the command calls otherwise: errors of `field` name the option `name`.
  void NameField(const std::string& field, const std::string& name);

 private:
  struct Entry {
    std::string key;  // "d_model": in a configuration file and in errors
    FieldType type = FieldType::kString;
    bool list = false;
    std::function<void(const Json& value)> check;  // Error(kUsage) of the field unless it can have the value
    std::vector<std::string> names = {};           // "--output", "-o"; an argument's has no dashes
    std::string group = {};
    std::string placeholder = {};  // empty: a flag
    std::string help = {};
    std::string default_text = {};
    std::vector<std::string> choices = {};
    FieldOptions options = {};
    bool required = false;
    bool first = true;  // --help shows it, and not only --help=all
    bool hidden = false;
    std::string of = {};  // as in Row
    bool other_default = false;
    std::vector<std::string> texts = {};  // as the command line gives it, or else the configuration file
    std::optional<Json> value = {};       // the same as the field's value

    bool positional() const { return names[0][0] != '-'; }
    // In a configuration file, where each of its names will do.
    bool HasKey(const std::string& text) const {
      if (key == "config") return false;
      return text == key ||
             std::any_of(names.begin(), names.end(), [&](const std::string& name) { return OptionKey(name) == text; });
    }
    bool repeats() const { return list && positional(); }
    bool flag() const { return placeholder.empty(); }
    // "--output", or of an argument "FILE": what an error says is missing.
    const std::string& shown() const { return positional() ? placeholder : names[0]; }
  };

  // "--d-model" of the field d_model, unless it has names of its own.
  static std::string NameOfField(const std::string& key, const FieldOptions& options);
  void AddEntry(Entry entry, const std::vector<std::string>& choices, const FieldOptions& options,
                const Json& default_value);
  const Entry* FindEntry(const std::string& name) const;
  Outcome ReadCommandLine(const std::vector<std::string>& arguments);
  void ReadConfigFile(const std::string& path);
  // Makes the value of the texts. Errors name the option `name`.
  static void TakeTexts(const std::string& name, Entry* entry);
  // The option that sets a field; "" if there is none.
  std::string OptionOf(const std::string& field) const;

  std::string group_ = "Options";
  std::string of_;                      // of the rows that are being added
  std::vector<std::string> not_taken_;  // of another command's
  std::vector<Entry> entries_;
  std::vector<std::pair<std::string, std::string>> field_names_;  // fields that options of another name set
};

// The parts of a list that commas separate, for the option `name`. Usage error if there is nothing, in all or in a
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
