// The tokenizers of files and folders: which kind a file is of, and whether the files of a folder agree.
#include "crosstalk/models/text/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/text/bpe_tokenizer.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_settings.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kTokenizerJson[] = "tokenizer.json", kTokenizerConfig[] = "tokenizer_config.json";
// Two files that make one tokenizer.
constexpr char kMergedPieces[] = "vocab.json", kMerges[] = "merges.txt";
// The first that is there makes the tokenizer, and the others must agree.
constexpr const char* kFolderFiles[] = {kTokenizerJson, kMergedPieces,     "vocab.txt",
                                        "spiece.model", "tokenizer.model", "sentencepiece.model"};

enum class FileKind { kJson, kModel, kVocabulary, kMerges };

// A `.model` begins with the tag of a field, which is no printing character.
FileKind KindOfFile(std::string_view contents, const std::string& name) {
  if (contents.empty()) Fail(ErrorKind::kData, name, ": the tokenizer file is empty");
  const std::string file = std::filesystem::path(name).filename().string();
  if (file == kMergedPieces || file == kMerges) return FileKind::kMerges;
  if (name.ends_with(".txt")) return FileKind::kVocabulary;
  if (contents[0] == '{' || name.ends_with(".json")) return FileKind::kJson;
  return static_cast<unsigned char>(contents[0]) < 0x20 ? FileKind::kModel : FileKind::kVocabulary;
}

// Whether it is a published one; else a run keeps it.
bool IsPublishedJson(const Json& json) {
  return json.is_object() && json.Find("kind") == nullptr && json.Find("model") != nullptr;
}

std::shared_ptr<const Tokenizer> FromJson(const Json& json, const std::string& name, int num_sentinels,
                                          const TokenizerSettings& settings = {}) {
  if (IsPublishedJson(json)) return PublishedTokenizerFromJson(json, name, num_sentinels, settings);
  const JsonReader reader(json, name);
  const std::string& kind = reader.String("kind");
  const auto sentinels = [&] { return static_cast<int>(reader.Int("sentinels", 0, kMaxSentinels)); };
  const auto mask_tokens = [&] {
    return reader.Has("mask_tokens") && reader.Bool("mask_tokens") ? MaskTokens::kYes : MaskTokens::kNo;
  };
  std::shared_ptr<const Tokenizer> tokenizer;
  if (kind == "bytes" && reader.Has("rules")) {
    const TextRules rules = TextRulesFromJson(reader.Object("rules"), kMaxVocabulary, name);
    if (!rules.rewrites.empty()) reader.FailAt("rules", "rewrites are not computed for bytes");
    tokenizer = MakeByteTokenizer(rules.literal, name);
    if (sentinels() != tokenizer->num_sentinels()) reader.FailAt("sentinels", "are not those of its rules");
  } else if (kind == "bytes") {
    tokenizer = MakeByteTokenizer(sentinels(), mask_tokens());
  } else if (kind == "characters") {
    tokenizer = MakeCharacterTokenizer(reader.String("characters"), name, sentinels(), mask_tokens());
  } else if (kind == "sentencepiece") {
    tokenizer = SentencePieceFromJson(reader, name);
  } else if (kind == "bpe") {
    tokenizer = BpeFromJson(reader, name);
  } else if (kind == "wordpiece") {
    tokenizer = WordPieceFromJson(reader, name, sentinels());
  } else {
    reader.FailAt("kind", "must be \"bytes\", \"characters\", \"sentencepiece\", \"wordpiece\" or \"bpe\", but is ",
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
  std::shared_ptr<const Tokenizer> FromNamed(const std::string& file, std::vector<std::string>* remarks) {
    std::string contradiction;
    try {
      return FromFile(file);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData || !json_) throw;
      contradiction = error.what();
    }
    json_.reset();
    added_.clear();
    std::shared_ptr<const Tokenizer> tokenizer = FromFile(file);
    remarks->push_back(StrCat(contradiction, "; ", (path_ / kTokenizerJson).string(), " is left out"));
    return tokenizer;
  }

  std::shared_ptr<const Tokenizer> FromFile(const std::string& file) const {
    const std::string contents = ReadFile(file, kMaxTokenizerFileBytes);
    if (settings_.family == TokenizerFamily::kByT5 && file == (path_ / kTokenizerConfig).string()) {
      return TokenizerOfBytes(file, settings_);
    }
    const FileKind kind = KindOfFile(contents, file);
    if (kind == FileKind::kJson) return FromJson(ParseJson(contents, file), file, num_sentinels_, settings_);
    TokenizerSettings settings = settings_;
    settings.added = Merged(std::move(settings.added), added_);
    using Family = TokenizerFamily;
    if (kind == FileKind::kMerges) {
      CheckFamily(settings, {Family::kUnsaid, Family::kGeneral, Family::kGpt2, Family::kRoberta, Family::kQwen}, file);
      const auto read = [&](const char* name) {
        const std::string path = (path_ / name).string();
        return Tokenizer::PublishedFile{path, ReadFile(path, kMaxTokenizerFileBytes)};
      };
      return TokenizerFromMerges(read(kMergedPieces), read(kMerges), num_sentinels_, settings);
    }
    if (kind == FileKind::kVocabulary) {
      CheckFamily(settings, {Family::kUnsaid, Family::kGeneral, Family::kBert}, file);
      return TokenizerFromVocabulary(contents, file, num_sentinels_, settings, json_ ? &*json_ : nullptr);
    }
    CheckFamily(settings, {Family::kUnsaid, Family::kGeneral, Family::kT5, Family::kAlbert, Family::kLlama}, file);
    return TokenizerFromModel(contents, file, num_sentinels_, settings);
  }

  // By all of its files that make a tokenizer. Where that is tokenizer.json alone, the files beside it must say no more
  // and nothing else than it does.
  std::shared_ptr<const Tokenizer> FromFiles(const std::vector<std::string>& names,
                                             std::vector<std::string>* remarks) const {
    std::shared_ptr<const Tokenizer> first;
    for (const std::string& name : names) {
      std::shared_ptr<const Tokenizer> tokenizer;
      try {
        tokenizer = FromFile((path_ / name).string());
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kData || names.size() == 1) throw;
        Fail(ErrorKind::kData, error.what(), "; of ", Join(names, " and "), " name the one to use");
      }
      if (first == nullptr) {
        first = std::move(tokenizer);
      } else {
        // A SentencePiece model beside a tokenizer.json of byte pairs (Llama 2's) knows its pieces alone.
        const bool pieces = first->kind() == "bpe" && tokenizer->kind() == "sentencepiece";
        RequireSame(*first, *tokenizer, names.front(), name, pieces ? Compared::kPieces : Compared::kIds);
        const std::string shown = pieces ? "" : NameDifference(*first, *tokenizer);
        if (!shown.empty())
          remarks->push_back(StrCat(path_.string(), ": ", names.front(), " is used; ", name, " ", shown));
      }
    }
    if (json_ && names.size() == 1) {
      const std::shared_ptr<const Tokenizer> by_settings = PublishedTokenizerFromJson(
          *json_, (path_ / kTokenizerJson).string(), num_sentinels_, settings_, Precedence::kSettings);
      RequireSame(*first, *by_settings, kTokenizerJson, "the files beside it", Compared::kIds);
    }
    return first;
  }

 private:
  void RequireSame(const Tokenizer& one, const Tokenizer& other, const std::string& of_one, const std::string& of_other,
                   Compared compared) const {
    const std::string difference = TokenizerDifference(one, other, compared);
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
  const auto has = [&](const std::string& name) { return KindOf(folder + "/" + name) != PathKind::kNothing; };
  for (const char* name : kFolderFiles) {
    if (has(name) && (name != kMergedPieces || has(kMerges))) names.emplace_back(name);
  }
  // One of two files that make a tokenizer together is one that fails by the other's name.
  if (names.empty() && (has(kMergedPieces) || has(kMerges))) names.emplace_back(kMergedPieces);
  // Bytes have no vocabulary's file.
  const std::string config = folder + "/" + kTokenizerConfig;
  if (names.empty() && KindOf(config) == PathKind::kFile) {
    const Json json = ReadJsonFile(config);
    const Json* const said = json.is_object() ? json.Find("tokenizer_class") : nullptr;
    if (said != nullptr && *said == Json("ByT5Tokenizer")) names.emplace_back(kTokenizerConfig);
  }
  return names;
}

}  // namespace

std::shared_ptr<const Tokenizer> LoadTokenizer(std::string_view contents, const std::string& name, int num_sentinels) {
  switch (KindOfFile(contents, name)) {
    case FileKind::kJson:
      return FromJson(ParseJson(contents, name), name, num_sentinels);
    case FileKind::kModel:
      return MakeSentencePieceTokenizer({.bytes = std::string(contents)}, name, num_sentinels);
    case FileKind::kVocabulary:
      return TokenizerFromVocabulary(contents, name, num_sentinels);
    case FileKind::kMerges:
      Fail(ErrorKind::kData, name, ": ", kMergedPieces, " and ", kMerges, " make a tokenizer together, in a folder");
  }
  return nullptr;
}

std::shared_ptr<const Tokenizer> LoadTokenizerFile(const std::string& path, int num_sentinels) {
  return LoadTokenizer(ReadFile(path, kMaxTokenizerFileBytes), path, num_sentinels);
}

bool HoldsTokenizer(const std::string& folder) { return !TokenizerFilesIn(folder).empty(); }

std::shared_ptr<const Tokenizer> OpenTokenizer(const std::string& path, int num_sentinels,
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

namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kTokensPerText = 64;
constexpr size_t kTokensVaried = 1024;  // of a large vocabulary, about as many

// The inputs that tokenizers rewrite, each in the places where it makes a difference: white space, case, accents in
// both forms, compatible characters, marks of every kind, controls, Chinese, numbers, quotes and what looks like
// special tokens.
constexpr std::string_view kShowingTexts[] = {
    ""sv,
    " "sv,
    "a b"sv,
    "  a   b  "sv,
    "a\tb\nc\r\nd\re\vf\fg\n\nh \n i"sv,
    "a\u00A0b\u2003c\u3000d"sv,
    "The Quick BROWN fox"sv,
    "d\u00E9j\u00E0 vu \u00C9A\u0301E\u0301 n\u0303\u00F1 \u00FC\u1E9B\u0323"sv,
    "\u0130stanbul \u03A3\u0391\u03A3 \u03C3\u03C2 Stra\u00DFe \u01C5"sv,
    "\uFB01 \u00BD \u2460 x\u00B2 \uFF21\uFF42 \u2126 \u3392"sv,
    "a\u6F22\u5B57b \u30AB\u30BF\u30AB\u30CA"sv,
    "In 1,000,000 3.14, 12,a 7,"sv,
    "``he'' said \"no\" don't \u2018x\u2019 \u201Cy\u201D\u2026"sv,
    "(a-b) c_d e.f@g #h $5 ~^`|<>="sv,
    "[PAD][UNK] [CLS]x[SEP] [MASK] [mask] <pad></s><s> <unk> <mask> <extra_id_0>a<extra_id_1> <0x41>"sv,
    "\U0001F600 \U0001D400 \u2620"sv,
};
// Where the publisher's own implementations of one tokenizer differ: rare white space, controls, marks that are no
// accents.
constexpr std::string_view kCornerTexts[] = {
    "a\u0085b\u00A0c\u2003d\u2028e\u3000f\u200Bg\uFEFFh"sv,
    "a\0b\a\x1b\x7F\u0080\u00ADc\u200D\uE000\uFFFD"sv,
    "\u0915\u093F \u05D0\u05B8 a\u20DD \uD55C\uAD6D \u1112\u1161\u11AB"sv,
};

std::string UpperCaseAscii(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return upper;
}

// An accent after each letter of ASCII.
std::string Accented(std::string_view text) {
  std::string accented;
  for (const char c : text) {
    accented += c;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) accented += "\u0301";
  }
  return accented;
}

// A character that is no text after the first one of each word.
std::string WithControlInWords(const std::vector<std::string>& words, std::string_view by) {
  std::string text;
  for (const std::string& word : words) {
    const size_t first = word.empty() ? 0 : Utf8Length(word, 0);
    text += StrCat(word.substr(0, first), by, word.substr(first), " ");
  }
  return text;
}

// A token as text has it: without the mark within words, and with its space.
std::string WrittenText(const std::string& shown) {
  constexpr std::string_view kSpace = "\u2581", kWithin = "##";
  return Replaced(shown.starts_with(kWithin) ? shown.substr(kWithin.size()) : shown, kSpace, " ");
}

// The vocabulary as texts, and a part of it that is spread over it with what rules may change.
void AppendVocabularyTexts(const Tokenizer& tokenizer, std::vector<std::string>* texts) {
  std::vector<std::string> written, varied;
  const auto size = static_cast<size_t>(tokenizer.vocab_size());
  const size_t stride = std::max<size_t>(1, size / kTokensVaried);
  const auto take = [](std::vector<std::string>* tokens, size_t most, const auto& use) {
    if (tokens->size() < most || tokens->empty()) return;
    use(*tokens);
    tokens->clear();
  };
  const auto as_text = [&](const std::vector<std::string>& tokens) {
    for (const char* between : {"", " "}) texts->push_back(Join(tokens, between));
  };
  const auto with_changes = [&](const std::vector<std::string>& tokens) {
    const std::string words = Join(tokens, " ");
    texts->insert(texts->end(), {UpperCaseAscii(words), Accented(words), UpperCaseAscii(Accented(words))});
    for (const char* between : {"  ", "\n", "\r\n\t", "\u00A0", "\u6F22"}) texts->push_back(Join(tokens, between));
    for (const char* control : {"\x07", "\u200B"}) texts->push_back(WithControlInWords(tokens, control));
  };
  for (size_t id = 0; id < size; ++id) {
    written.push_back(WrittenText(tokenizer.TokenText(static_cast<int32_t>(id))));
    if (id % stride == 0) varied.push_back(written.back());
    take(&written, kTokensPerText, as_text);
    take(&varied, kTokensPerText, with_changes);
  }
  take(&written, 0, as_text);
  take(&varied, 0, with_changes);
}

std::vector<std::string> TextsThatShow(const Tokenizer& a, const Tokenizer& b, Compared compared) {
  std::vector<std::string> texts(std::begin(kShowingTexts), std::end(kShowingTexts));
  if (compared == Compared::kAll) texts.insert(texts.end(), std::begin(kCornerTexts), std::end(kCornerTexts));
  for (const Tokenizer* one : {&a, &b}) {
    for (const std::string& text : one->RuleTexts()) texts.insert(texts.end(), {text, UpperCaseAscii(text)});
  }
  AppendVocabularyTexts(a, &texts);
  return texts;
}

// A short part of a text with which two tokenizers do different things: halves at a space, while one of them will do.
std::string DifferentPart(std::string text, const Tokenizer& one, const Tokenizer& other) {
  const auto differ = [&](const std::string& part) { return one.Encode(part) != other.Encode(part); };
  for (size_t space = text.find(' ', text.size() / 2); space != std::string::npos;
       space = text.find(' ', text.size() / 2)) {
    const std::string first = text.substr(0, space), second = text.substr(space + 1);
    const bool in_first = differ(first);
    if (!in_first && !differ(second)) break;
    text = in_first ? first : second;
  }
  return text;
}

// The first of them, for a message.
std::string IdsOf(const std::vector<int32_t>& ids) {
  constexpr size_t kShown = 12;
  std::string text = ids.empty() ? "no token" : "";
  for (size_t i = 0; i < ids.size() && i < kShown; ++i) text += StrCat(i == 0 ? "" : " ", ids[i]);
  return ids.size() > kShown ? text + " \u2026" : text;
}

// How they differ in what stands around the pieces of a vocabulary; "" where in nothing.
std::string FrameDifference(const Tokenizer& expected, const Tokenizer& other) {
  if (other.vocab_size() != expected.vocab_size()) {
    return StrCat("has ", other.vocab_size(), " ids, not ", expected.vocab_size());
  }
  if (other.num_sentinels() != expected.num_sentinels()) {
    return StrCat("has ", other.num_sentinels(), " sentinels, not ", expected.num_sentinels());
  }
  if (other.special_tokens() != expected.special_tokens()) {
    return StrCat("has the special tokens ", ToJson(other.special_tokens()).Dump(), ", not ",
                  ToJson(expected.special_tokens()).Dump());
  }
  for (const int texts : {1, 2}) {
    if (TemplateOf(other, texts) != TemplateOf(expected, texts)) {
      return StrCat("has other special tokens around ", texts == 1 ? "a text" : "two texts");
    }
  }
  return "";
}

}  // namespace

std::string NameDifference(const Tokenizer& expected, const Tokenizer& other) {
  for (int32_t id = 0; id < std::min(expected.vocab_size(), other.vocab_size()); ++id) {
    const std::string here = other.TokenText(id), there = expected.TokenText(id);
    if (here != there) return StrCat("has ", Quoted(here), " as the id ", id, ", not ", Quoted(there));
  }
  return "";
}

std::string TokenizerDifference(const Tokenizer& expected, const Tokenizer& other, Compared compared) {
  if (compared != Compared::kPieces) {
    if (std::string difference = FrameDifference(expected, other); !difference.empty()) return difference;
  }
  if (compared == Compared::kAll) {
    if (std::string difference = NameDifference(expected, other); !difference.empty()) return difference;
  }
  for (const std::string& text : TextsThatShow(expected, other, compared)) {
    if (compared != Compared::kAll) {
      // As in kCornerTexts; and bytes that are no text.
      if (text.find("\u0085") != std::string::npos || FindInvalidUtf8(text) != std::string::npos) continue;
      if (other.Encode(text) == expected.Encode(text)) continue;
      const std::string part = DifferentPart(text, expected, other);
      return StrCat("makes ", IdsOf(other.Encode(part)), " of ", Quoted(part), ", not ", IdsOf(expected.Encode(part)));
    }
    const std::vector<TokenSpan> here = other.EncodeSpans(text), there = expected.EncodeSpans(text);
    if (here != there) {
      const auto at = std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first - here.begin();
      return StrCat("reads ", Quoted(text), " otherwise, from its token ", at, " on");
    }
    std::vector<int32_t> ids;
    for (const TokenSpan& span : there) ids.push_back(span.id);
    const std::string written = expected.Decode(ids);
    if (other.Decode(ids) != written) return StrCat("writes ", Quoted(written), " otherwise");
  }
  return "";
}

void CheckKept(const Tokenizer& tokenizer, int num_sentinels) {
  const std::string name = tokenizer.FileName();
  const auto refuse = [&](const auto&... reason) {
    FailField(ErrorKind::kData, "tokenizer", "it cannot be kept, for its file ", reason...);
  };
  const std::string contents = tokenizer.FileContents();
  if (contents.size() > kMaxTokenizerFileBytes) {
    refuse("would have ", contents.size(), " bytes, more than the ", kMaxTokenizerFileBytes, " that are read");
  }
  std::string difference;
  try {
    difference = TokenizerDifference(tokenizer, *LoadTokenizer(contents, name, num_sentinels));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    refuse("would not be read again: ", error.what());
  }
  if (!difference.empty()) refuse("would give one that ", difference);
}

}  // namespace crosstalk
