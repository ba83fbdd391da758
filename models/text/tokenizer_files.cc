// The tokenizers of files and folders: which kind a file is of, and whether the files of a folder agree.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_comparison.h"
#include "crosstalk/models/text/tokenizer_settings.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kTokenizerJson[] = "tokenizer.json";
// The first that is there makes the tokenizer, and the others must agree.
constexpr const char* kFolderFiles[] = {kTokenizerJson, "vocab.txt", "spiece.model", "tokenizer.model",
                                        "sentencepiece.model"};

enum class FileKind { kJson, kModel, kVocabulary };

// A `.model` begins with the tag of a field, which is no printing character.
FileKind KindOfFile(std::string_view contents, const std::string& name) {
  if (contents.empty()) Fail(ErrorKind::kData, name, ": the tokenizer file is empty");
  if (name.ends_with(".txt")) return FileKind::kVocabulary;
  if (contents[0] == '{' || name.ends_with(".json")) return FileKind::kJson;
  return static_cast<unsigned char>(contents[0]) < 0x20 ? FileKind::kModel : FileKind::kVocabulary;
}

// Whether it is a published one; else a run keeps it.
bool IsPublishedJson(const Json& json) {
  return json.is_object() && json.Find("kind") == nullptr && json.Find("model") != nullptr;
}

std::unique_ptr<Tokenizer> FromJson(const Json& json, const std::string& name, int num_sentinels,
                                    const TokenizerSettings& settings = {}) {
  if (IsPublishedJson(json)) return PublishedTokenizerFromJson(json, name, num_sentinels, settings);
  const JsonReader reader(json, name);
  const std::string& kind = reader.String("kind");
  const auto sentinels = [&] { return static_cast<int>(reader.Int("sentinels", 0, kMaxSentinels)); };
  const auto mask_tokens = [&] {
    return reader.Has("mask_tokens") && reader.Bool("mask_tokens") ? MaskTokens::kYes : MaskTokens::kNo;
  };
  std::unique_ptr<Tokenizer> tokenizer;
  if (kind == "bytes") {
    tokenizer = MakeByteTokenizer(sentinels(), mask_tokens());
  } else if (kind == "characters") {
    tokenizer = MakeCharacterTokenizer(reader.String("characters"), name, sentinels(), mask_tokens());
  } else if (kind == "sentencepiece") {
    tokenizer = SentencePieceFromJson(reader, name);
  } else if (kind == "wordpiece") {
    tokenizer = WordPieceFromJson(reader, name, sentinels());
  } else {
    reader.FailAt("kind", "must be \"bytes\", \"characters\", \"sentencepiece\" or \"wordpiece\", but is ",
                  Quoted(kind));
  }
  reader.RejectUnread();
  return tokenizer;
}

// A folder with what lies in it beside a tokenizer's file.
class TokenizerFolder {
 public:
  TokenizerFolder(std::filesystem::path path, int num_sentinels)
      : path_(std::move(path)), num_sentinels_(num_sentinels), settings_(ReadTokenizerSettings(path_)) {
    const std::string file = (path_ / kTokenizerJson).string();
    if (KindOf(file) != PathKind::kFile) return;
    Json json = ParseJson(ReadFile(file, kMaxTokenizerFileBytes), file);
    if (!IsPublishedJson(json)) return;
    added_ = PublishedAddedTokens(json, file);
    json_ = std::move(json);
  }

  const std::vector<std::string>& remarks() const { return settings_.remarks; }

  // By a file that a user names. A tokenizer.json beside it that contradicts it is left out.
  std::unique_ptr<Tokenizer> FromNamed(const std::string& file, std::vector<std::string>* remarks) {
    std::string contradiction;
    try {
      return FromFile(file);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData || !json_) throw;
      contradiction = error.what();
    }
    json_.reset();
    added_.clear();
    std::unique_ptr<Tokenizer> tokenizer = FromFile(file);
    remarks->push_back(StrCat(contradiction, "; ", (path_ / kTokenizerJson).string(), " is left out"));
    return tokenizer;
  }

  std::unique_ptr<Tokenizer> FromFile(const std::string& file) const {
    const std::string contents = ReadFile(file, kMaxTokenizerFileBytes);
    const FileKind kind = KindOfFile(contents, file);
    if (kind == FileKind::kJson) return FromJson(ParseJson(contents, file), file, num_sentinels_, settings_);
    TokenizerSettings settings = settings_;
    settings.added = Merged(std::move(settings.added), added_);
    using Family = TokenizerFamily;
    if (kind == FileKind::kVocabulary) {
      CheckFamily(settings, {Family::kUnsaid, Family::kGeneral, Family::kBert}, file);
      return TokenizerFromVocabulary(contents, file, num_sentinels_, settings, json_ ? &*json_ : nullptr);
    }
    CheckFamily(settings, {Family::kUnsaid, Family::kGeneral, Family::kT5, Family::kAlbert, Family::kPlain}, file);
    return TokenizerFromModel(contents, file, num_sentinels_, settings);
  }

  // By all of its files that make a tokenizer. Where that is tokenizer.json alone, the files beside it must say no more
  // and nothing else than it does.
  std::unique_ptr<Tokenizer> FromFiles(const std::vector<std::string>& names, std::vector<std::string>* remarks) const {
    std::unique_ptr<Tokenizer> first;
    for (const std::string& name : names) {
      std::unique_ptr<Tokenizer> tokenizer;
      try {
        tokenizer = FromFile((path_ / name).string());
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kData || names.size() == 1) throw;
        Fail(ErrorKind::kData, error.what(), "; of ", Join(names, " and "), " name the one to use");
      }
      if (first == nullptr) {
        first = std::move(tokenizer);
      } else {
        RequireSame(*first, *tokenizer, names.front(), name);
        const std::string shown = NameDifference(*first, *tokenizer);
        if (!shown.empty())
          remarks->push_back(StrCat(path_.string(), ": ", names.front(), " is used; ", name, " ", shown));
      }
    }
    if (json_ && names.size() == 1) {
      const std::unique_ptr<Tokenizer> by_settings = PublishedTokenizerFromJson(
          *json_, (path_ / kTokenizerJson).string(), num_sentinels_, settings_, Precedence::kSettings);
      RequireSame(*first, *by_settings, kTokenizerJson, "the files beside it");
    }
    return first;
  }

 private:
  void RequireSame(const Tokenizer& one, const Tokenizer& other, const std::string& of_one,
                   const std::string& of_other) const {
    const std::string difference = TokenizerDifference(one, other, Compared::kIds);
    if (difference.empty()) return;
    Fail(ErrorKind::kData, path_.string(), ": ", of_one, " and ", of_other, " are not the same tokenizer: that of ",
         of_other, " ", difference, "; name the file to use");
  }

  std::filesystem::path path_;
  int num_sentinels_;
  TokenizerSettings settings_;
  std::optional<Json> json_;       // a published tokenizer.json
  std::vector<AddedToken> added_;  // its own
};

std::vector<std::string> TokenizerFilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const char* name : kFolderFiles) {
    if (KindOf(folder + "/" + name) != PathKind::kNothing) names.emplace_back(name);
  }
  return names;
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizer(std::string_view contents, const std::string& name, int num_sentinels) {
  switch (KindOfFile(contents, name)) {
    case FileKind::kJson:
      return FromJson(ParseJson(contents, name), name, num_sentinels);
    case FileKind::kModel:
      return MakeSentencePieceTokenizer({.bytes = std::string(contents)}, name, num_sentinels);
    case FileKind::kVocabulary:
      return TokenizerFromVocabulary(contents, name, num_sentinels);
  }
  return nullptr;
}

std::unique_ptr<Tokenizer> LoadTokenizerFile(const std::string& path, int num_sentinels) {
  return LoadTokenizer(ReadFile(path, kMaxTokenizerFileBytes), path, num_sentinels);
}

bool HoldsTokenizer(const std::string& folder) { return !TokenizerFilesIn(folder).empty(); }

std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& path, int num_sentinels,
                                         std::vector<std::string>* remarks) {
  const bool is_folder = KindOf(path) == PathKind::kDirectory;
  TokenizerFolder folder(is_folder ? std::filesystem::path(path) : std::filesystem::path(path).parent_path(),
                         num_sentinels);
  std::vector<std::string> unheard;
  if (remarks == nullptr) remarks = &unheard;
  remarks->insert(remarks->end(), folder.remarks().begin(), folder.remarks().end());
  if (!is_folder) return folder.FromNamed(path, remarks);
  const std::vector<std::string> names = TokenizerFilesIn(path);
  if (names.empty()) {
    Fail(ErrorKind::kData, path, ": the folder holds no tokenizer: none of ",
         Join({std::begin(kFolderFiles), std::end(kFolderFiles)}, ", "));
  }
  return folder.FromFiles(names, remarks);
}

}  // namespace crosstalk
