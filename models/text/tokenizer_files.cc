// The tokenizers of files and folders: which kind a file is of, and what lies beside it.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_model_check.h"
#include "crosstalk/models/text/sentencepiece_proto.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr const char* kFolderFiles[] = {"tokenizer.json", "vocab.txt", "spiece.model", "tokenizer.model"};

enum class FileKind { kJson, kModel, kVocabulary };

// A `.model` begins with the tag of a field, which is no printing character.
FileKind KindOfFile(std::string_view contents, const std::string& name) {
  if (contents.empty()) Fail(ErrorKind::kData, name, ": the tokenizer file is empty");
  if (name.ends_with(".txt")) return FileKind::kVocabulary;
  if (contents[0] == '{') return FileKind::kJson;
  return static_cast<unsigned char>(contents[0]) < 0x20 ? FileKind::kModel : FileKind::kVocabulary;
}

std::unique_ptr<Tokenizer> FromJson(const Json& json, const std::string& name, int num_sentinels) {
  if (json.Find("kind") == nullptr && json.Find("model") != nullptr) {
    return PublishedTokenizerFromJson(json, name, num_sentinels);
  }
  const JsonReader reader(json, name);
  const std::string& kind = reader.String("kind");
  const auto sentinels = static_cast<int>(reader.Int("sentinels", 0, kMaxSentinels));
  const auto mask_tokens = [&] {
    return reader.Has("mask_tokens") && reader.Bool("mask_tokens") ? MaskTokens::kYes : MaskTokens::kNo;
  };
  std::unique_ptr<Tokenizer> tokenizer;
  if (kind == "bytes") {
    tokenizer = MakeByteTokenizer(sentinels, mask_tokens());
  } else if (kind == "characters") {
    tokenizer = MakeCharacterTokenizer(reader.String("characters"), name, sentinels, mask_tokens());
  } else if (kind == "sentencepiece") {
    tokenizer = SentencePieceFromJson(reader, name, sentinels);
  } else if (kind == "wordpiece") {
    tokenizer = WordPieceFromJson(reader, name, sentinels);
  } else {
    reader.FailAt("kind", "must be \"bytes\", \"characters\", \"sentencepiece\" or \"wordpiece\", but is ",
                  Quoted(kind));
  }
  reader.RejectUnread();
  return tokenizer;
}

std::unique_ptr<Tokenizer> FromVocabulary(std::string_view contents, const std::string& name, int num_sentinels,
                                          const std::function<BertRules(BertRules)>& adjust) {
  WordPieceModel model;
  model.pieces = ReadVocabularyLines(contents, name);
  BertRules rules;
  rules.lower_case = rules.strip_accents = IsUncased(model.pieces);
  model.rules = {RewritesOf(adjust(rules)), BertLiteralTokens(model.pieces)};
  return MakeWordPieceTokenizer(std::move(model), name, num_sentinels);
}

// A JSON file beside the tokenizer's, where there is one. Its other keys are not this reader's affair.
class SideFile {
 public:
  SideFile(const std::filesystem::path& folder, const char* file_name) : path_((folder / file_name).string()) {
    if (std::error_code error; std::filesystem::is_regular_file(path_, error)) json_ = ReadJsonFile(path_);
  }

  const std::string& path() const { return path_; }
  const std::optional<Json>& json() const { return json_; }
  // nullopt where there is no such key, or it is null.
  std::optional<bool> Bool(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    return JsonReader(*json_, path_).Bool(key);
  }
  std::string String(const char* key) const {
    return Find(key) == nullptr ? "" : JsonReader(*json_, path_).String(key);
  }

 private:
  const Json* Find(const char* key) const {
    const Json* value = json_ && json_->is_object() ? json_->Find(key) : nullptr;
    return value != nullptr && !value->is_null() ? value : nullptr;
  }
  std::string path_;
  std::optional<Json> json_;
};

std::unique_ptr<Tokenizer> OpenVocabulary(std::string_view contents, const std::string& path, int num_sentinels) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return FromVocabulary(contents, path, num_sentinels, [&](BertRules rules) {
    const SideFile config(folder, "tokenizer_config.json"), published(folder, "tokenizer.json");
    if (published.json()) rules = PublishedBertRules(*published.json(), published.path()).value_or(rules);
    if (const std::optional<bool> lower = config.Bool("do_lower_case")) {
      rules.lower_case = rules.strip_accents = *lower;
    }
    rules.strip_accents = config.Bool("strip_accents").value_or(rules.strip_accents);
    rules.space_chinese = config.Bool("tokenize_chinese_chars").value_or(rules.space_chinese);
    return rules;
  });
}

std::unique_ptr<Tokenizer> OpenModel(const std::string& contents, const std::string& path, int num_sentinels) {
  CheckSentencePieceModel(contents, path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const SideFile config(folder, "tokenizer_config.json"), model_config(folder, "config.json");
  const std::string tokenizer_class = config.String("tokenizer_class"), model_type = model_config.String("model_type");
  std::optional<AlbertRules> rules = LooksLikeAlbert(contents);
  if (!tokenizer_class.empty() || !model_type.empty()) {
    const bool is_albert = tokenizer_class.empty() ? model_type == "albert" : tokenizer_class.starts_with("Albert");
    rules = is_albert ? std::optional(rules.value_or(AlbertRules())) : std::nullopt;
  }
  if (!rules) return MakeSentencePieceTokenizer(contents, path, num_sentinels);
  rules->lower_case = config.Bool("do_lower_case").value_or(rules->lower_case);
  rules->keep_accents = config.Bool("keep_accents").value_or(rules->keep_accents);
  return MakeSentencePieceTokenizer(contents, path, num_sentinels, RulesOf(*rules, contents));
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizer(std::string_view contents, const std::string& name, int num_sentinels) {
  switch (KindOfFile(contents, name)) {
    case FileKind::kJson:
      return FromJson(ParseJson(contents, name), name, num_sentinels);
    case FileKind::kModel:
      return MakeSentencePieceTokenizer(contents, name, num_sentinels);
    case FileKind::kVocabulary:
      return FromVocabulary(contents, name, num_sentinels, [](BertRules rules) { return rules; });
  }
  return nullptr;
}

std::unique_ptr<Tokenizer> LoadTokenizerFile(const std::string& path, int num_sentinels) {
  return LoadTokenizer(ReadFile(path, kMaxTokenizerFileBytes), path, num_sentinels);
}

std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& path, int num_sentinels) {
  std::error_code error;
  std::string file = path;
  if (std::filesystem::is_directory(path, error)) {
    const auto* found = std::find_if(std::begin(kFolderFiles), std::end(kFolderFiles), [&](const char* name) {
      return std::filesystem::exists(std::filesystem::path(path) / name, error);
    });
    if (found == std::end(kFolderFiles)) {
      Fail(ErrorKind::kData, path, ": the folder holds no tokenizer: none of ",
           Join({std::begin(kFolderFiles), std::end(kFolderFiles)}, ", "));
    }
    file = (std::filesystem::path(path) / *found).string();
  }
  const std::string contents = ReadFile(file, kMaxTokenizerFileBytes);
  switch (KindOfFile(contents, file)) {
    case FileKind::kVocabulary:
      return OpenVocabulary(contents, file, num_sentinels);
    case FileKind::kModel:
      return OpenModel(contents, file, num_sentinels);
    case FileKind::kJson:
      return FromJson(ParseJson(contents, file), file, num_sentinels);
  }
  return nullptr;
}

}  // namespace crosstalk
