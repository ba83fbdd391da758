#include "tools/cli/option_table.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr int kMostArguments = 10'000;

// The table's own options.
struct CommonSettings {
  std::optional<int64_t> threads;
  std::optional<std::string> simd;
  std::string config;
};

const FieldTable<CommonSettings>& CommonFields() {
  using S = CommonSettings;
  static const FieldTable<S> table = {
      MakeOption(
          "--threads", &S::threads, "N",
          "Threads to compute with; by default the processors that this process may use, by its affinity mask and the "
          "quota of its control group. Never changes a bit.",
          {.range = {1, 4096}}),
      MakeOption("--simd", &S::simd, "NAME",
                 "Instruction set to compute with: AVX3 (AVX-512) or AVX2, in any case, or NEON on ARM; the CPU's best "
                 "by default. Never changes a bit."),
      MakeOption("--config", &S::config, "FILE",
                 "JSON object of options by name (d_model for --d-model); its paths are relative to its folder; the "
                 "command line overrides it.",
                 {.is_path = true})};
  return table;
}

template <typename T>
T ParseNumber(const std::string& name, const std::string& text, const char* what) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  CROSSTALK_CHECK(error != std::errc::result_out_of_range, name, ": ", Excerpt(text), " is out of range for ", what);
  CROSSTALK_CHECK(error == std::errc() && stop == end && !text.empty(), name, ": ", Quoted(text), " is not ", what);
  if constexpr (std::is_floating_point_v<T>) {
    CROSSTALK_CHECK(std::isfinite(value), name, ": ", Quoted(text), " is not a finite number");
  }
  return value;
}

// A value of a configuration file as it would stand on the command line.
std::string TextOf(const std::string& key, const Json& value) {
  if (value.is_string()) return value.AsString();
  if (value.is_number()) return value.Dump();
  CROSSTALK_CHECK_FIELD(value.is_array(), key, "must be a string, a number or a list of them, but is ",
                        Name(value.type()));
  std::vector<std::string> parts;
  for (const Json& part : value.AsArray()) parts.push_back(TextOf(key, part));
  return Join(parts, ",");
}

}  // namespace

std::string OptionKey(const std::string& names) {
  std::string key = names.substr(0, names.find(','));
  key.erase(0, key.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

Json FieldValue(const std::string& name, FieldType type, const std::string& text) {
  switch (type) {
    case FieldType::kInt:
      return Json(ParseNumber<int64_t>(name, text, "an integer"));
    case FieldType::kDouble:
      return Json(ParseNumber<double>(name, text, "a number"));
    case FieldType::kBool:
      CROSSTALK_CHECK(text == "true" || text == "false", name, ": ", Quoted(text), " is neither true nor false");
      return Json(text == "true");
    case FieldType::kString:
    case FieldType::kChoice:
    case FieldType::kObject:  // of files alone
    case FieldType::kNames:
      break;
  }
  return Json(text);
}

std::string OptionTable::NameOfField(const std::string& key, const FieldOptions& options) {
  if (*options.names != 0) return options.names;
  std::string names = "--" + key;
  if (*options.former_key != '\0') names += StrCat(",--", options.former_key);
  std::replace(names.begin(), names.end(), '_', '-');
  return names;
}

void OptionTable::AddEntry(Entry entry, const std::vector<std::string>& choices, const FieldOptions& options,
                           const Json& default_value) {
  entry.names = Split(NameOfField(entry.key, options), ',');
  entry.of = of_;
  entry.group = group_;
  entry.placeholder = options.placeholder;
  entry.help = options.help;
  entry.options = options;
  entry.required = options.required;
  entry.choices = choices;
  const bool flag = entry.type == FieldType::kBool;
  if (!flag && entry.placeholder.empty()) {
    entry.placeholder = Join(choices, "|");
  } else if (!choices.empty()) {
    entry.help += StrCat(entry.list ? " Some" : " One", " of ", Join(choices, ", "), ".");
  }
  if (!flag && !default_value.is_null()) entry.default_text = TextOf(entry.key, default_value);
  entries_.push_back(std::move(entry));
}

void OptionTable::AddThreads() { AddFields(CommonFields(), {}, {"config"}); }

void OptionTable::AddConfig() {
  if (FindEntry("--config") != nullptr) return;
  group_ = "Common";
  AddFields(CommonFields(), {}, {"threads", "simd"});
}

const OptionTable::Entry* OptionTable::FindEntry(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

void OptionTable::TakeTexts(const std::string& name, Entry* entry) {
  Json::Array values;
  const bool parts = entry->list && !entry->positional();
  for (const std::string& text : parts ? SplitList(name, entry->texts[0]) : entry->texts) {
    values.push_back(FieldValue(name, entry->type, text));
  }
  entry->value = entry->list ? Json(std::move(values)) : values[0];
  entry->check(*entry->value);
}

OptionTable::Outcome OptionTable::ReadCommandLine(const std::vector<std::string>& arguments) {
  CLI::App parser;
  parser.allow_extras();
  parser.set_help_flag();
  std::string help;
  parser.add_flag("--help,-h", help);
  for (Entry& entry : entries_) {
    const std::string names = Join(entry.names, ",");
    if (entry.flag()) {
      parser.add_flag_callback(names, [&entry] { entry.texts = {"true"}; });
    } else {
      parser.add_option(names, entry.texts)
          ->expected(1, entry.repeats() ? kMostArguments : 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(entry.repeats());
    }
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    parser.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string name = Split(error.what(), ':')[0];
    const Entry* entry = FindEntry(name);
    if (entry == nullptr) Fail(ErrorKind::kUsage, Excerpt(error.what(), 300));
    Fail(ErrorKind::kUsage, name, " needs a value: ", entry->placeholder);
  } catch (const CLI::ParseError& error) {
    Fail(ErrorKind::kUsage, Excerpt(error.what(), 300));
  }
  if (help == "true") return Outcome::kHelp;
  if (help == "all") return Outcome::kHelpAll;
  CROSSTALK_CHECK(help.empty(), "--help: ", Quoted(help), " is not all");
  for (const std::string& extra : parser.remaining()) {
    if (extra.size() > 1 && extra[0] == '-') {
      const std::string name = extra.substr(0, extra.find('='));
      std::vector<std::string> names = {"--help"};
      for (const Entry& entry : entries_) {
        if (!entry.positional() && !entry.hidden) names.insert(names.end(), entry.names.begin(), entry.names.end());
      }
      const std::string nearest = NearestName(name, names);
      Fail(ErrorKind::kUsage, "there is no option ", Excerpt(name),
           nearest.empty() ? "; --help lists them" : StrCat("; did you mean ", nearest, "?"));
    }
    Fail(ErrorKind::kUsage, Quoted(extra), " is not expected here; --help shows what is");
  }
  for (Entry& entry : entries_) {
    const std::string& name = entry.names[0];
    CROSSTALK_CHECK(entry.texts.size() <= 1 || entry.repeats(), name, " is given ", entry.texts.size(), " times");
    for (const std::string& text : entry.texts) {
      const std::string word = text.substr(0, text.find('='));
      CROSSTALK_CHECK(!word.starts_with('-') || FindEntry(word) == nullptr, name, " needs a value, but the option ",
                      word, " follows");
      // Most often a variable of a shell that is not set.
      CROSSTALK_CHECK(!text.empty(), entry.shown(), " is given an empty text; leave it out instead");
    }
    if (!entry.texts.empty()) TakeTexts(name, &entry);
  }
  return Outcome::kRun;
}

void OptionTable::ReadConfigFile(const std::string& path) {
  Json file;
  try {
    file = ReadJsonFile(path);
  } catch (const Error& error) {
    Fail(ErrorKind::kUsage, "--config: ", error.what());
  }
  const JsonReader reader(file, path, ErrorKind::kUsage);
  std::vector<std::string> keys;
  for (const Entry& entry : entries_) {
    if (entry.key != "config") keys.push_back(entry.key);
  }
  std::set<const Entry*> from_file;
  for (const auto& [key, given] : file.AsObject()) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [&key = key](const Entry& one) { return one.HasKey(key); });
    if (found == entries_.end()) reader.FailAt(key, "there is no such option", DidYouMean(key, keys));
    Entry& entry = *found;
    if (given.is_null()) continue;  // as if it were not there
    const Json value = ValueIn(ParentOf(path), entry.options, given);
    CROSSTALK_CHECK(from_file.insert(&entry).second, path, ": ", key, ": is there twice, by another name too");
    if (!entry.texts.empty()) continue;  // the command line has the last word
    try {
      if (entry.repeats() && value.is_array()) {
        for (const Json& one : value.AsArray()) entry.texts.push_back(TextOf(key, one));
      } else {
        entry.texts = {entry.flag() && value.is_bool() ? value.Dump() : TextOf(key, value)};
      }
      TakeTexts(key, &entry);
    } catch (const Error& error) {
      Fail(ErrorKind::kUsage, path, ": ", error.what());
    }
  }
}

OptionTable::Outcome OptionTable::Parse(const std::vector<std::string>& arguments) {
  AddConfig();
  const Outcome outcome = ReadCommandLine(arguments);
  if (outcome != Outcome::kRun) return outcome;
  if (const std::string* const path = Given("--config")) ReadConfigFile(*path);
  for (const Entry& entry : entries_) {
    CROSSTALK_CHECK(!entry.required || !entry.texts.empty(), entry.shown(),
                    " is missing; --help shows what is expected");
  }
  const CommonSettings common = Over(CommonFields());
  if (common.threads) SetNumThreads(static_cast<int>(*common.threads));
  if (common.simd) kernels::RestrictSimdTarget(*common.simd);
  if (FindEntry("--simd") != nullptr) kernels::SettleSimdTarget();
  return Outcome::kRun;
}

const std::string* OptionTable::Given(const std::string& name) const {
  const Entry* entry = FindEntry(name);
  CROSSTALK_DCHECK(entry != nullptr);
  return entry->texts.empty() ? nullptr : &entry->texts[0];
}

crosstalk::Given OptionTable::Values() const {
  Json values = Json::MakeObject();
  for (const Entry& entry : entries_) {
    if (entry.value) values.Set(entry.key, *entry.value);
  }
  return crosstalk::Given(std::move(values));
}

std::string OptionTable::GivenText(const std::vector<std::string>& except) const {
  std::vector<std::string> words;
  for (const Entry& entry : entries_) {
    if (entry.texts.empty() || std::find(except.begin(), except.end(), entry.key) != except.end()) continue;
    if (!entry.positional()) words.push_back(entry.names[0]);
    if (!entry.flag()) words.insert(words.end(), entry.texts.begin(), entry.texts.end());
  }
  return Join(words, " ");
}

void OptionTable::ShowFirst(const std::vector<std::string>& names) {
  for (const std::string& name : names) CROSSTALK_DCHECK(FindEntry(name) != nullptr);
  for (Entry& entry : entries_) {
    entry.first = entry.positional() || std::find(names.begin(), names.end(), entry.names[0]) != names.end();
  }
}

void OptionTable::Hide(const std::string& key) {
  for (Entry& entry : entries_) {
    if (entry.key == key) entry.hidden = true;
  }
}

void OptionTable::NameField(const std::string& field, const std::string& name) {
  field_names_.emplace_back(field, name);
}

std::string OptionTable::OptionOf(const std::string& field) const {
  for (const auto& [own, name] : field_names_) {
    if (own == field) return name;
  }
  for (const Entry& entry : entries_) {
    if (!entry.positional() && entry.key == field) return entry.names[0];
  }
  return "";
}

std::string OptionTable::MessageOf(const Error& error) const {
  const std::string& text = error.message().text();
  std::string told;
  size_t end = 0;
  for (const Message::Place& place : error.message().fields()) {
    const std::string option = OptionOf(text.substr(place.begin, place.size));
    if (option.empty()) continue;
    told += text.substr(end, place.begin - end) + option + (place.gap > 0 ? " " : "");  // "clip = 1" is --clip 1
    end = place.begin + place.size + place.gap;
  }
  return told + text.substr(end);
}

std::vector<std::string> SplitList(const std::string& name, const std::string& text) {
  CROSSTALK_CHECK(!text.empty(), name, ": the list is empty");
  CROSSTALK_CHECK(!text.ends_with(','), name, ": ", Quoted(text), " ends with a comma");
  std::vector<std::string> parts = Split(text, ',');
  for (const std::string& part : parts) {
    CROSSTALK_CHECK(!part.empty(), name, ": ", Quoted(text), " has an empty part");
  }
  return parts;
}

}  // namespace crosstalk
