#include "tools/option_table.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr size_t kHelpWidth = 100;
constexpr int kMostArguments = 10'000;
constexpr size_t kHelpColumn = 34;  // where the sentences of the help begin

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

void ParseValue(const std::string&, const std::string& text, std::string* value) { *value = text; }
void ParseValue(const std::string& name, const std::string& text, int64_t* value) {
  *value = ParseNumber<int64_t>(name, text, "an integer");
}
void ParseValue(const std::string& name, const std::string& text, uint64_t* value) {
  *value = ParseNumber<uint64_t>(name, text, "a whole number that is not negative");
}
void ParseValue(const std::string& name, const std::string& text, double* value) {
  *value = ParseNumber<double>(name, text, "a number");
}
template <typename T>
void ParseValue(const std::string& name, const std::string& text, std::optional<T>* value) {
  T parsed{};
  ParseValue(name, text, &parsed);
  *value = parsed;
}
void ParseValue(const std::string& name, const std::string& text, std::vector<uint64_t>* value) {
  value->clear();
  for (const std::string& part : SplitList(name, text)) {
    value->push_back(ParseNumber<uint64_t>(name, part, "a list of whole numbers such as 1,2,3"));
  }
}

std::string DefaultText(const std::string& value) { return value; }
std::string DefaultText(double value) { return StrCat(value); }
std::string DefaultText(int64_t value) { return StrCat(value); }
std::string DefaultText(uint64_t value) { return StrCat(value); }
template <typename T>
std::string DefaultText(const std::optional<T>& value) {
  return value ? DefaultText(*value) : "";
}
std::string DefaultText(const std::vector<uint64_t>& values) {
  std::vector<std::string> parts;
  for (uint64_t value : values) parts.push_back(StrCat(value));
  return Join(parts, ",");
}

// The text that the same value would have on the command line.
std::string TextOf(const JsonReader& reader, const std::string& key, const Json& value) {
  switch (value.type()) {
    case Json::Type::kString:
      return value.AsString();
    case Json::Type::kInt:
    case Json::Type::kDouble:
      return value.Dump();
    case Json::Type::kArray: {
      std::vector<std::string> parts;
      for (const Json& element : value.AsArray()) parts.push_back(TextOf(reader, key, element));
      return Join(parts, ",");
    }
    default:
      reader.FailAt(key, "must be a string, a number or a list of them");
  }
}

std::string Wrapped(const std::string& text, size_t column, size_t first_column) {
  std::string out;
  size_t at = first_column;
  for (const std::string& word : Split(text, ' ')) {
    if (at > column && at + word.size() > kHelpWidth) {
      out += "\n" + std::string(column, ' ');
      at = column;
    } else if (at > column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out;
}

std::string Paragraphs(const std::string& text) {
  std::string out;
  for (const std::string& paragraph : Split(text, '\n')) out += Wrapped(paragraph, 0, 0) + "\n";
  return out;
}

}  // namespace

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

struct OptionTable::Impl {
  struct Entry {
    std::vector<std::string> names;  // "--output", "-o"; a positional argument's has no dashes
    std::string group;
    std::string placeholder;  // empty: a flag
    std::string help;
    std::string default_text;
    std::function<void(const std::string& text)> parse;
    std::function<void(const Json& value)> set;  // a field's; else a file's value is parsed as its text
    bool required = false;
    bool first = true;  // --help shows it, and not only --help=all
    bool hidden = false;
    bool repeats = false;             // may be given several times: each text is parsed
    std::vector<std::string> texts;   // as given on the command line
    std::optional<Json> file_value;   // as given in the configuration file, where the command line does not
    std::optional<Json> field_value;  // of a field that either gives

    bool positional() const { return names[0][0] != '-'; }
    bool flag() const { return placeholder.empty(); }
    // "--d-model" is d_model in a configuration file.
    std::string Key() const {
      std::string key = names[0].substr(names[0].find_first_not_of('-'));
      std::replace(key.begin(), key.end(), '-', '_');
      return key;
    }
  };

  Entry& AddEntry(const std::string& names, const std::string& placeholder, const std::string& help) {
    auto entry = std::make_unique<Entry>();
    entry->names = Split(names, ',');
    entry->group = group;
    entry->placeholder = placeholder;
    entry->help = help;
    entries.push_back(std::move(entry));
    return *entries.back();
  }
  template <typename T>
  void AddValue(const std::string& names, T* value, const std::string& placeholder, const std::string& help,
                Required required) {
    Entry& entry = AddEntry(names, placeholder, help);
    entry.required = required == Required::kYes;
    entry.default_text = entry.required ? "" : DefaultText(*value);
    entry.parse = [value, name = entry.names[0]](const std::string& text) { ParseValue(name, text, value); };
  }
  Entry* FindEntry(const std::string& name) const {
    for (const auto& entry : entries) {
      if (std::find(entry->names.begin(), entry->names.end(), name) != entry->names.end()) return entry.get();
    }
    return nullptr;
  }
  std::vector<std::string> AllNames() const {
    std::vector<std::string> names = {"--help"};
    for (const auto& entry : entries) {
      if (!entry->positional() && !entry->hidden) names.insert(names.end(), entry->names.begin(), entry->names.end());
    }
    return names;
  }
  // The option that sets a field; "" where there is none.
  std::string OptionOf(const std::string& field) const;
  // A message with options in the places of fields: of words with an underscore, those that begin a line of a list, and
  // after "Try" of any.
  std::string WithOptionNames(const std::string& text) const;
  // Writes entry.file_value into the entry's target.
  static void TakeFileValue(const Entry& entry, const JsonReader& reader);
  void ReadConfigFile(const std::string& path);

  std::string group = "Options";
  std::vector<std::pair<std::string, std::string>> field_names;  // fields that options of another name set
  std::vector<std::unique_ptr<Entry>> entries;
  std::string config_path;
  std::optional<int64_t> threads;
  std::optional<std::string> simd;
  bool computes = false;  // has --threads and --simd
};

void OptionTable::Impl::TakeFileValue(const Entry& entry, const JsonReader& reader) {
  if (entry.set) {
    entry.set(*entry.file_value);
  } else if (entry.flag()) {
    entry.parse(reader.Bool(entry.Key()) ? "true" : "false");
  } else {
    entry.parse(TextOf(reader, entry.Key(), *entry.file_value));
  }
}

void OptionTable::Impl::ReadConfigFile(const std::string& path) {
  Json file;
  try {
    file = ReadJsonFile(path);
  } catch (const Error& error) {
    Fail(ErrorKind::kUsage, "--config: ", error.what());
  }
  const JsonReader reader(file, path, ErrorKind::kUsage);
  std::vector<std::string> keys;
  for (const auto& entry : entries) {
    if (entry->Key() != "config") keys.push_back(entry->Key());
  }
  for (const auto& [key, value] : file.AsObject()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      reader.FailAt(key, "there is no such option", DidYouMean(key, keys));
    }
    const auto has_key = [&key = key](const auto& one) { return one->Key() == key; };
    Entry& entry = **std::find_if(entries.begin(), entries.end(), has_key);
    if (value.is_null()) continue;       // as if it were not there
    if (!entry.texts.empty()) continue;  // the command line has the last word
    entry.file_value = value;
    try {
      TakeFileValue(entry, reader);
    } catch (const Error& error) {
      Fail(ErrorKind::kUsage, path, ": ", error.what());
    }
  }
}

OptionTable::OptionTable() : impl_(std::make_unique<Impl>()) {}
OptionTable::~OptionTable() = default;

void OptionTable::Group(const std::string& title) { impl_->group = title; }

void OptionTable::Add(const std::string& names, std::string* value, const std::string& placeholder,
                      const std::string& help, Required required) {
  impl_->AddValue(names, value, placeholder, help, required);
}
void OptionTable::Add(const std::string& names, int64_t* value, const std::string& placeholder, const std::string& help,
                      Required required) {
  impl_->AddValue(names, value, placeholder, help, required);
}
void OptionTable::Add(const std::string& names, uint64_t* value, const std::string& placeholder,
                      const std::string& help, Required required) {
  impl_->AddValue(names, value, placeholder, help, required);
}
void OptionTable::Add(const std::string& names, double* value, const std::string& placeholder, const std::string& help,
                      Required required) {
  impl_->AddValue(names, value, placeholder, help, required);
}
void OptionTable::Add(const std::string& names, std::optional<std::string>* value, const std::string& placeholder,
                      const std::string& help) {
  impl_->AddValue(names, value, placeholder, help, Required::kNo);
}
void OptionTable::Add(const std::string& names, std::optional<int64_t>* value, const std::string& placeholder,
                      const std::string& help) {
  impl_->AddValue(names, value, placeholder, help, Required::kNo);
}
void OptionTable::Add(const std::string& names, std::optional<double>* value, const std::string& placeholder,
                      const std::string& help) {
  impl_->AddValue(names, value, placeholder, help, Required::kNo);
}
void OptionTable::Add(const std::string& names, std::vector<uint64_t>* value, const std::string& placeholder,
                      const std::string& help) {
  impl_->AddValue(names, value, placeholder, help, Required::kNo);
}

void OptionTable::AddList(const std::string& name, std::vector<std::string>* values, const std::string& placeholder,
                          const std::string& help) {
  Impl::Entry& entry = impl_->AddEntry(name, placeholder, help);
  entry.required = true;
  entry.repeats = true;
  entry.parse = [values](const std::string& text) { values->push_back(text); };
  entry.set = [values, name](const Json& value) {
    values->clear();
    for (const Json& one : value.is_array() ? value.AsArray() : Json::Array{value}) {
      CROSSTALK_CHECK(one.is_string(), name, ": must be a string or a list of strings");
      values->push_back(one.AsString());
    }
  };
}

void OptionTable::AddChoice(const std::string& names, std::string* value, const std::vector<std::string>& choices,
                            const std::string& help) {
  Impl::Entry& entry = impl_->AddEntry(names, Join(choices, "|"), help);
  entry.default_text = *value;
  entry.parse = [value, choices, name = entry.names[0]](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      Fail(ErrorKind::kUsage, name, ": ", Quoted(text), " is none of ", Join(choices, ", "), DidYouMean(text, choices));
    }
    *value = text;
  };
}

void OptionTable::AddField(const std::string& key, FieldType type, const std::vector<std::string>& choices,
                           const FieldOptions& field, const Json& default_value, std::function<Json(Json)> checked) {
  std::string name = "--" + key, placeholder = field.placeholder, help = field.help;
  std::replace(name.begin(), name.end(), '_', '-');
  if (type != FieldType::kBool && placeholder.empty()) {
    placeholder = Join(choices, "|");
  } else if (!choices.empty()) {
    help += " One of " + Join(choices, ", ") + ".";
  }
  Impl::Entry& entry = impl_->AddEntry(name, placeholder, help);
  if (!default_value.is_null() && type != FieldType::kBool) {
    entry.default_text = default_value.is_string() ? default_value.AsString() : default_value.Dump();
  }
  entry.set = [&entry, checked = std::move(checked)](const Json& value) { entry.field_value = checked(value); };
  entry.parse = [&entry, name, type](const std::string& text) { entry.set(FieldValue(name, type, text)); };
}

void OptionTable::AddFlag(const std::string& name, bool* value, const std::string& help) {
  Impl::Entry& entry = impl_->AddEntry(name, "", help);
  entry.parse = [value](const std::string& text) { *value = text == "true"; };
}

void OptionTable::AddThreads() {
  impl_->computes = true;
  Add("--threads", &impl_->threads, "N", "Threads to compute with; all processors by default. Never changes a bit.");
  Add("--simd", &impl_->simd, "NAME",
      "Instruction set to compute with: AVX3 (AVX-512), AVX2, SSE4 or SCALAR, in any case; the CPU's best by default. "
      "AVX2 and AVX3, which fuse multiply-adds, give the same bits, and the others, which do not, the same others.");
}

OptionTable::Outcome OptionTable::Parse(const std::vector<std::string>& arguments) {
  if (impl_->FindEntry("--config") == nullptr) {
    impl_->group = "Common";
    Add("--config", &impl_->config_path, "FILE",
        "JSON object of options by name (d_model for --d-model); the command line overrides it.");
  }
  CLI::App parser;
  parser.allow_extras();
  parser.set_help_flag();
  std::string help;
  parser.add_flag("--help,-h", help);
  for (const auto& entry : impl_->entries) {
    const std::string names = Join(entry->names, ",");
    if (entry->flag()) {
      parser.add_flag_callback(names, [e = entry.get()] { e->texts = {"true"}; });
    } else {
      parser.add_option(names, entry->texts)
          ->expected(1, entry->repeats ? kMostArguments : 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(entry->repeats);
    }
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    parser.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string name = Split(error.what(), ':')[0];
    const Impl::Entry* entry = impl_->FindEntry(name);
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
      const std::string nearest = NearestName(name, impl_->AllNames());
      Fail(ErrorKind::kUsage, "there is no option ", Excerpt(name),
           nearest.empty() ? "; --help lists them" : StrCat("; did you mean ", nearest, "?"));
    }
    Fail(ErrorKind::kUsage, Quoted(extra), " is not expected here; --help shows what is");
  }
  for (const auto& entry : impl_->entries) {
    CROSSTALK_CHECK(entry->texts.size() <= 1 || entry->repeats, entry->names[0], " is given ", entry->texts.size(),
                    " times");
    for (const std::string& text : entry->texts) {
      if (!entry->flag()) {
        const std::string name = text.substr(0, text.find('='));
        CROSSTALK_CHECK(!name.starts_with('-') || impl_->FindEntry(name) == nullptr, entry->names[0],
                        " needs a value, but the option ", name, " follows");
      }
      // Most often a variable of a shell that is not set.
      CROSSTALK_CHECK(!text.empty(), entry->positional() ? entry->placeholder : entry->names[0],
                      " is given an empty text; leave it out instead");
      entry->parse(text);
    }
  }
  if (!impl_->config_path.empty()) impl_->ReadConfigFile(impl_->config_path);
  for (const auto& entry : impl_->entries) {
    CROSSTALK_CHECK(!entry->required || !entry->texts.empty() || entry->file_value,
                    entry->positional() ? entry->placeholder : entry->names[0],
                    " is missing; --help shows what is expected");
  }
  if (impl_->threads) {
    CROSSTALK_CHECK(*impl_->threads >= 1 && *impl_->threads <= 4096, "--threads: ", *impl_->threads,
                    " is not between 1 and 4096");
    SetNumThreads(static_cast<int>(*impl_->threads));
  }
  if (impl_->simd) kernels::RestrictSimdTarget(*impl_->simd);
  if (impl_->computes) kernels::SettleSimdTarget();
  return Outcome::kRun;
}

const Json* OptionTable::GivenField(const std::string& key) const {
  for (const auto& entry : impl_->entries) {
    if (entry->Key() == key && entry->field_value) return &*entry->field_value;
  }
  return nullptr;
}

std::optional<std::string> OptionTable::Given(const std::string& name) const {
  const Impl::Entry* entry = impl_->FindEntry(name);
  return entry == nullptr || entry->texts.empty() ? std::nullopt : std::optional(entry->texts[0]);
}

void OptionTable::ShowFirst(const std::vector<std::string>& names) {
  for (const auto& entry : impl_->entries) entry->first = entry->positional();
  for (const std::string& name : names) {
    Impl::Entry* const entry = impl_->FindEntry(name);
    CROSSTALK_DCHECK(entry != nullptr);
    entry->first = true;
  }
}

void OptionTable::Hide(const std::string& key) {
  for (const auto& entry : impl_->entries) {
    if (entry->Key() == key) entry->hidden = true;
  }
}

std::string OptionTable::Help(const std::string& command, const std::string& description, HelpLength length) const {
  std::string usage = "Usage: crosstalk " + command;
  for (const auto& entry : impl_->entries) {
    if (entry->positional()) usage += " " + entry->placeholder + (entry->repeats ? "…" : "");
  }
  std::string out = usage + " [OPTIONS]\n\n" + Paragraphs(description);
  std::string group;
  size_t more = 0;
  for (const auto& entry : impl_->entries) {
    if (entry->hidden) continue;
    if (length == HelpLength::kFirst && !entry->first) {
      ++more;
      continue;
    }
    if (entry->group != group) {
      group = entry->group;
      out += "\n" + group + ":\n";
    }
    std::string left = "  " + (entry->positional() ? entry->placeholder : Join(entry->names, ", "));
    if (!entry->flag() && !entry->positional()) left += " " + entry->placeholder;
    left += left.size() + 2 <= kHelpColumn ? std::string(kHelpColumn - left.size(), ' ')
                                           : "\n" + std::string(kHelpColumn, ' ');
    std::string text = entry->help;
    if (!entry->default_text.empty()) text += " [" + entry->default_text + "]";
    if (entry->required && !entry->positional()) text += " Required.";
    out += left + Wrapped(text, kHelpColumn, kHelpColumn) + "\n";
  }
  const auto line = [](std::string name, const std::string& help) {
    name.resize(kHelpColumn, ' ');
    return name + help + "\n";
  };
  out += line("  --help, -h", "This text.");
  if (more > 0) out += line("  --help=all", StrCat("The same with ", more, " more options."));
  return out;
}

std::vector<OptionTable::Row> OptionTable::Rows() const {
  std::vector<Row> rows;
  for (const auto& entry : impl_->entries) {
    if (entry->hidden) continue;
    rows.push_back({Join(entry->names, ", "), entry->group, entry->placeholder, entry->help, entry->default_text});
  }
  return rows;
}

void OptionTable::NameField(const std::string& field, const std::string& name) {
  impl_->field_names.emplace_back(field, name);
}

bool OptionTable::Gives(const std::string& name) const {
  const Impl::Entry* entry = impl_->FindEntry(name);
  CROSSTALK_DCHECK(entry != nullptr);
  return !entry->texts.empty() || entry->file_value.has_value();
}

std::string OptionTable::Impl::OptionOf(const std::string& field) const {
  for (const auto& [own, name] : field_names) {
    if (own == field) return name;
  }
  for (const auto& entry : entries) {
    if (!entry->positional() && entry->Key() == field) return entry->names[0];
  }
  return "";
}

std::string OptionTable::Impl::WithOptionNames(const std::string& text) const {
  std::vector<std::string> words;
  bool advice = false, named = false;
  for (const std::string& word : Split(text, ' ')) {
    if (advice && named && word == "=") continue;  // "clip = 1" is --clip 1
    const size_t begin = word.starts_with('(') ? 1 : 0;
    const std::string field = word.substr(begin, word.find_last_not_of(".,;:)") + 1 - begin);
    const bool listed = !words.empty() && words.back().empty() && word.ends_with(':');  // "\n  attention: …"
    const std::string name = advice || listed || field.find('_') != std::string::npos ? OptionOf(field) : "";
    named = !name.empty();
    words.push_back(named ? word.substr(0, begin) + name + word.substr(begin + field.size()) : word);
    advice = advice || word == "Try";
  }
  return Join(words, " ");
}

std::string OptionTable::MessageOf(const Error& error) const {
  const std::string message = error.what();
  if (error.kind() == ErrorKind::kNumerical) return impl_->WithOptionNames(message);
  if (error.field().empty() || !message.starts_with(error.field())) return message;
  const std::string name = impl_->OptionOf(error.field()), rest = message.substr(error.field().size());
  return (name.empty() ? error.field() : name) +
         (error.kind() == ErrorKind::kUsage ? impl_->WithOptionNames(rest) : rest);
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
