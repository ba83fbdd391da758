#include "crosstalk/models/text/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr const char* kRoles[] = {"unk_token",  "pad_token", "cls_token", "sep_token",
                                  "mask_token", "bos_token", "eos_token"};

// The keys of tokenizer_config.json that are no matter of ids.
constexpr std::string_view kOfNoEffect[] = {"auto_map",
                                            "backend",
                                            "chat_template",
                                            "clean_up_tokenization_spaces",
                                            "from_slow",
                                            "full_tokenizer_file",
                                            "is_local",
                                            "local_files_only",
                                            "max_len",
                                            "max_length",
                                            "model_input_names",
                                            "model_max_length",
                                            "name_or_path",
                                            "pad_to_multiple_of",
                                            "pad_token_type_id",
                                            "padding",
                                            "padding_side",
                                            "processor_class",
                                            "return_token_type_ids",
                                            "special_tokens_map_file",
                                            "stride",
                                            "tokenizer_file",
                                            "truncation",
                                            "truncation_side",
                                            "truncation_strategy",
                                            "use_fast",
                                            "vocab_file"};

struct FamilyName {
  std::string_view name;
  TokenizerFamily family;
};
// By the beginning of tokenizer_class; the end may be "Fast".
constexpr FamilyName kClasses[] = {
    {"PreTrainedTokenizer", TokenizerFamily::kGeneral}, {"TokenizersBackend", TokenizerFamily::kGeneral},
    {"BertTokenizer", TokenizerFamily::kBert},          {"DistilBertTokenizer", TokenizerFamily::kBert},
    {"ElectraTokenizer", TokenizerFamily::kBert},       {"MobileBertTokenizer", TokenizerFamily::kBert},
    {"AlbertTokenizer", TokenizerFamily::kAlbert},      {"T5Tokenizer", TokenizerFamily::kT5},
    {"ByT5Tokenizer", TokenizerFamily::kByT5},          {"LlamaTokenizer", TokenizerFamily::kLlama},
    {"GPT2Tokenizer", TokenizerFamily::kGpt2},          {"RobertaTokenizer", TokenizerFamily::kRoberta},
    {"BartTokenizer", TokenizerFamily::kRoberta},       {"LongformerTokenizer", TokenizerFamily::kRoberta},
    {"Qwen2Tokenizer", TokenizerFamily::kQwen}};
// By model_type, where no class is said.
constexpr FamilyName kModelTypes[] = {{"bert", TokenizerFamily::kBert},     {"distilbert", TokenizerFamily::kBert},
                                      {"electra", TokenizerFamily::kBert},  {"mobilebert", TokenizerFamily::kBert},
                                      {"albert", TokenizerFamily::kAlbert}, {"t5", TokenizerFamily::kT5},
                                      {"mt5", TokenizerFamily::kT5},        {"umt5", TokenizerFamily::kT5},
                                      {"llama", TokenizerFamily::kLlama},   {"mistral", TokenizerFamily::kLlama},
                                      {"gpt2", TokenizerFamily::kGpt2},     {"roberta", TokenizerFamily::kRoberta},
                                      {"bart", TokenizerFamily::kRoberta},  {"longformer", TokenizerFamily::kRoberta},
                                      {"qwen2", TokenizerFamily::kQwen},    {"qwen3", TokenizerFamily::kQwen}};

// A file of the folder as an object, where it is there.
class SideFile {
 public:
  SideFile(const std::filesystem::path& folder, const char* name) : path_((folder / name).string()) {
    if (KindOf(path_) != PathKind::kNothing) json_ = ReadJsonFile(path_);
    if (json_ && !json_->is_object()) Fail(ErrorKind::kData, path_, ": is not an object");
  }

  const std::string& path() const { return path_; }
  const Json::Object& members() const {
    static const Json::Object& none = *new Json::Object();
    return json_ ? json_->AsObject() : none;
  }
  // Null if there is no such key, or it is null.
  const Json* Find(const char* key) const {
    const Json* value = json_ ? json_->Find(key) : nullptr;
    return value != nullptr && !value->is_null() ? value : nullptr;
  }
  JsonReader reader() const { return JsonReader(*json_, path_); }
  std::optional<bool> Bool(const char* key) const {
    return Find(key) == nullptr ? std::nullopt : std::optional(reader().Bool(key));
  }
  std::string String(const char* key) const { return Find(key) == nullptr ? "" : reader().String(key); }
  template <typename... Parts>
  [[noreturn]] void FailAt(std::string_view key, const Parts&... parts) const {
    Fail(ErrorKind::kData, path_, ": ", Excerpt(key), ": ", parts...);
  }

 private:
  std::string path_;
  std::optional<Json> json_;
};

// A special token: its text, or that and its flags.
AddedToken ReadSpecial(const Json& value, const SideFile& file, const std::string& key) {
  const std::string source = StrCat(file.path(), ": ", Excerpt(key));
  if (value.is_string()) return {{value.AsString(), kNoToken}, true, source};
  if (!value.is_object()) file.FailAt(key, "must be a token: a text or an object");
  AddedToken token = ReadAddedToken(JsonReader(value, source), kNoToken, source);
  token.special = true;
  if (value.Find("normalized") == nullptr) token.literal.rewritten = false;
  return token;
}

// The special tokens of "additional_special_tokens" and its like: a list, or an object of names and tokens.
void ReadSpecials(const SideFile& file, const char* key, std::vector<AddedToken>* tokens) {
  const Json* value = file.Find(key);
  if (value == nullptr) return;
  if (value->is_object()) {
    for (const auto& [name, token] : value->AsObject()) tokens->push_back(ReadSpecial(token, file, key));
    return;
  }
  if (!value->is_array()) file.FailAt(key, "must be a list of tokens");
  for (const Json& token : value->AsArray()) tokens->push_back(ReadSpecial(token, file, key));
}

int32_t IdFrom(std::string_view text, const SideFile& file, const char* key) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id > static_cast<int32_t>(kMaxVocabulary)) {
    file.FailAt(key, Quoted(text), " is no id");
  }
  return id;
}

void ReadFamily(const SideFile& config, const SideFile& model, TokenizerSettings* settings) {
  const auto find = [&](const auto& table, const std::string& name, std::string_view end) {
    for (const FamilyName& row : table) {
      if (name == row.name || name == StrCat(row.name, end)) return row.family;
    }
    return TokenizerFamily::kUnknown;
  };
  const std::string tokenizer_class = config.String("tokenizer_class"), model_type = model.String("model_type");
  if (!tokenizer_class.empty()) {
    settings->family = find(kClasses, tokenizer_class, "Fast");
    settings->family_source = StrCat(config.path(), ": tokenizer_class: ", Quoted(tokenizer_class));
  } else if (!model_type.empty()) {
    settings->family = find(kModelTypes, model_type, "");
    settings->family_source = StrCat(model.path(), ": model_type: ", Quoted(model_type));
  }
}

// The names of tokenizer_config.json and special_tokens_map.json, which must agree.
void ReadRoles(const SideFile& config, const SideFile& map, TokenizerSettings* settings) {
  for (const char* role : kRoles) {
    for (const SideFile* file : {&config, &map}) {
      const Json* value = file->Find(role);
      if (value == nullptr) continue;
      AddedToken token = ReadSpecial(*value, *file, role);
      // ByT5's own code gives a token that is only named the space around it.
      if (settings->family == TokenizerFamily::kByT5 && value->is_string()) {
        token.literal.takes_space_before = token.literal.takes_space_behind = true;
      }
      const auto [said, is_new] = settings->roles.emplace(role, token);
      if (!is_new && said->second.literal.text != token.literal.text) {
        file->FailAt(role, "is ", Quoted(token.literal.text), ", but ", Quoted(said->second.literal.text), " in ",
                     config.path());
      }
    }
  }
}

void ReadAdded(const SideFile& config, const SideFile& map, const SideFile& added, TokenizerSettings* settings) {
  std::vector<AddedToken> specials;
  for (const auto& [role, token] : settings->roles) specials.push_back(token);
  for (const SideFile* file : {&config, &map}) {
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) ReadSpecials(*file, key, &specials);
  }
  std::vector<AddedToken> decoder, listed;
  if (const Json* value = config.Find("added_tokens_decoder")) {
    if (!value->is_object()) config.FailAt("added_tokens_decoder", "must be an object of ids and tokens");
    for (const auto& [id, token] : value->AsObject()) {
      const std::string source = StrCat(config.path(), ": added_tokens_decoder: ", Excerpt(id));
      decoder.push_back(ReadAddedToken(JsonReader(token, source), IdFrom(id, config, "added_tokens_decoder"), source));
    }
  }
  for (const auto& [text, id] : added.members()) {
    const std::string source = StrCat(added.path(), ": ", Excerpt(text));
    if (!id.is_int()) Fail(ErrorKind::kData, source, ": must be an id");
    AddedToken token{{text, static_cast<int32_t>(JsonReader(Json::MakeObject({{"id", id}}), source)
                                                     .Int("id", 0, static_cast<int64_t>(kMaxVocabulary)))},
                     false,
                     source};
    const auto named = std::find_if(specials.begin(), specials.end(),
                                    [&](const AddedToken& one) { return one.literal.text == token.literal.text; });
    // This file says only ids. A token that is not special is found in the rewritten text.
    if (named != specials.end()) {
      const int32_t own_id = token.literal.id;
      token.literal = named->literal;
      token.literal.id = own_id;
      token.special = true;
    } else {
      token.literal.rewritten = true;
    }
    listed.push_back(std::move(token));
  }
  settings->added = std::move(decoder);
  settings->listed = Merged(std::move(listed), specials);
}

void RefuseWhatChangesIds(const SideFile& config, const TokenizerSettings& settings) {
  if (const Json* kwargs = config.Find("sp_model_kwargs"); kwargs != nullptr && *kwargs != Json::MakeObject()) {
    config.FailAt("sp_model_kwargs", Excerpt(kwargs->Dump()), " is not computed; only {} is");
  }
  if (const std::optional<bool> remove = config.Bool("remove_space"); remove && !*remove) {
    config.FailAt("remove_space", "false is not computed; repeated spaces are one");
  }
  for (const char* key : {"word_tokenizer_type", "subword_tokenizer_type"}) {
    const std::string type = config.String(key);
    if (!type.empty() && type != "basic" && type != "wordpiece") {
      config.FailAt(key, Quoted(type), " is not computed");
    }
  }
  const Json* never_split = config.Find("never_split");
  if (never_split == nullptr) return;
  if (!never_split->is_array()) config.FailAt("never_split", "must be a list of texts");
  for (const Json& text : never_split->AsArray()) {
    const auto is_it = [&](const AddedToken& token) { return token.special && text == Json(token.literal.text); };
    if (std::none_of(settings.added.begin(), settings.added.end(), is_it) &&
        std::none_of(settings.listed.begin(), settings.listed.end(), is_it)) {
      config.FailAt("never_split", Excerpt(text.Dump()), " is no special token; other texts that are never split are ",
                    "not computed");
    }
  }
}

void RemarkOnOtherKeys(const SideFile& config, TokenizerSettings* settings) {
  static const std::set<std::string_view>& known = *[] {
    auto* keys = new std::set<std::string_view>(std::begin(kOfNoEffect), std::end(kOfNoEffect));
    keys->insert({"tokenizer_class", "do_lower_case", "strip_accents", "tokenize_chinese_chars", "keep_accents",
                  "do_basic_tokenize", "never_split", "legacy", "add_prefix_space", "split_special_tokens", "extra_ids",
                  "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "sp_model_kwargs",
                  "remove_space", "word_tokenizer_type", "subword_tokenizer_type"});
    keys->insert(std::begin(kRoles), std::end(kRoles));
    return keys;
  }();
  std::vector<std::string> others;
  for (const auto& [key, value] : config.members()) {
    const bool read =
        (key == "add_bos_token" && settings->adds_begin) || (key == "add_eos_token" && settings->adds_end);
    if (!known.contains(key) && !read && !value.is_null()) others.push_back(Excerpt(key));
  }
  if (!others.empty()) settings->remarks.push_back(StrCat(config.path(), ": not computed: ", Join(others, ", ")));
}

}  // namespace

std::vector<AddedToken> Merged(std::vector<AddedToken> first, const std::vector<AddedToken>& second) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < first.size(); ++i) places.emplace(first[i].literal.text, i);
  for (const AddedToken& token : second) {
    const auto [place, is_new] = places.emplace(token.literal.text, first.size());
    if (is_new) {
      first.push_back(token);
      continue;
    }
    AddedToken& known = first[place->second];
    if (known.literal.id == kNoToken) known.literal.id = token.literal.id;
    if (token.literal.id == kNoToken || token.literal.id == known.literal.id) continue;
    Fail(ErrorKind::kData, token.source, ": ", Quoted(token.literal.text), " has the id ", token.literal.id, ", but ",
         known.literal.id, " in ", known.source);
  }
  return first;
}

AddedToken ReadAddedToken(const JsonReader& reader, int32_t id, const std::string& source) {
  const auto flag = [&](const char* key, bool otherwise) { return reader.Has(key) ? reader.Bool(key) : otherwise; };
  AddedToken token;
  token.source = source;
  token.special = flag("special", false);
  token.literal.text = reader.String("content");
  token.literal.id = id;
  token.literal.whole_word = flag("single_word", false);
  token.literal.takes_space_before = flag("lstrip", false);
  token.literal.takes_space_behind = flag("rstrip", false);
  token.literal.rewritten = flag("normalized", !token.special);
  if (reader.Has("__type")) reader.String("__type");
  reader.RejectUnread();
  return token;
}

TokenizerSettings ReadTokenizerSettings(const std::filesystem::path& folder) {
  const SideFile config(folder, "tokenizer_config.json"), map(folder, "special_tokens_map.json"),
      added(folder, "added_tokens.json"), model(folder, "config.json");
  TokenizerSettings settings;
  ReadFamily(config, model, &settings);
  ReadRoles(config, map, &settings);
  ReadAdded(config, map, added, &settings);
  settings.lower_case = config.Bool("do_lower_case");
  settings.strip_accents = config.Bool("strip_accents");
  settings.space_chinese = config.Bool("tokenize_chinese_chars");
  settings.keep_accents = config.Bool("keep_accents");
  settings.split_punctuation = config.Bool("do_basic_tokenize");
  if (const std::optional<bool> legacy = config.Bool("legacy")) settings.first_space_only = !*legacy;
  if (const std::optional<bool> prefix = config.Bool("add_prefix_space")) settings.no_space = !*prefix;
  settings.special_tokens_are_text = config.Bool("split_special_tokens").value_or(false);
  if (config.Find("extra_ids") != nullptr) {
    settings.extra_ids = static_cast<int>(config.reader().Int("extra_ids", 0, kMaxSentinels));
  }
  // A tokenizer.json has a template, which counts.
  if (settings.family == TokenizerFamily::kLlama &&
      KindOf((folder / "tokenizer.json").string()) == PathKind::kNothing) {
    settings.adds_begin = config.Bool("add_bos_token");
    settings.adds_end = config.Bool("add_eos_token");
  }
  RefuseWhatChangesIds(config, settings);
  RemarkOnOtherKeys(config, &settings);
  return settings;
}

void CheckFamily(const TokenizerSettings& settings, std::initializer_list<TokenizerFamily> understood,
                 const std::string& file) {
  if (std::find(understood.begin(), understood.end(), settings.family) != understood.end()) return;
  std::vector<std::string> names;
  for (const FamilyName& row : kClasses) {
    if (std::find(understood.begin(), understood.end(), row.family) != understood.end()) names.emplace_back(row.name);
  }
  Fail(ErrorKind::kData, settings.family_source, ": is not a tokenizer that ", file, " is read for; ",
       Join(names, ", "), " are");
}

}  // namespace crosstalk
