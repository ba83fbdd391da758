#include "crosstalk/models/text/wordpiece_tokenizer.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Decode puts no space before these.
constexpr std::string_view kAttached[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};

class WordPieceTokenizer : public Tokenizer {
 public:
  WordPieceTokenizer(WordPieceModel model, const SpecialTokens& special_tokens, int num_sentinels)
      : Tokenizer(special_tokens, static_cast<int>(model.pieces.size() + model.more.size()), num_sentinels),
        model_(std::move(model)),
        ruled_(model_.rules) {
    first_.reserve(model_.pieces.size());
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const std::string_view piece = model_.pieces[i];
      const auto id = static_cast<int32_t>(i);
      first_.emplace(piece, id);
      longest_piece_ = std::max(longest_piece_, piece.size());
      if (piece.size() > model_.prefix.size() && piece.starts_with(model_.prefix)) {
        next_.emplace(piece.substr(model_.prefix.size()), id);
      }
    }
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (const TokenSpan& span : EncodeSpans(text)) ids.push_back(span.id);
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    std::vector<TokenSpan> spans;
    for (const RuledText::Part& part : ruled_.Parts(text)) {
      if (part.id != kNoToken) {
        spans.push_back({part.id, part.begin, part.end});
      } else {
        AppendText(part.text, &spans);
      }
    }
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      CheckId(id);
      if (IsNoText(id) && !IsSentinel(id)) continue;
      const std::string piece = IsSentinel(id)                   ? SentinelText(id)
                                : id == special_tokens().unknown ? std::string(kUnknownText)
                                                                 : PieceText(id);
      if (Continues(id)) {
        text += piece.substr(text.empty() ? 0 : model_.prefix.size());
        continue;
      }
      const bool attached = model_.clean_up && std::any_of(std::begin(kAttached), std::end(kAttached),
                                                           [&](std::string_view a) { return piece.starts_with(a); });
      if (!text.empty() && !attached) text += ' ';
      text += piece;
    }
    return text;
  }

  std::string TokenText(int32_t id) const override {
    CheckId(id);
    return IsSentinel(id) ? SentinelText(id) : PieceText(id);
  }

  std::string kind() const override { return "wordpiece"; }
  std::vector<std::string> RuleTexts() const override {
    std::vector<std::string> texts = crosstalk::RuleTexts(model_.rules);
    const auto [word, more] = SpelledWord();
    if (more.empty()) return texts;
    const auto characters = static_cast<int64_t>(ToUtf32(more).size());
    std::string longest = word;
    for (auto length = static_cast<int64_t>(ToUtf32(word).size()); length + characters <= model_.longest_word;
         length += characters) {
      longest += more;
    }
    texts.push_back(longest + " " + longest + more);
    return texts;
  }
  std::vector<PublishedFile> PublishedFiles() const override {
    if (!IsOfVocabularyLines()) {
      return {{"tokenizer.json", PublishedJson(model_, *this).DumpPretty()},
              {"tokenizer_config.json", PublishedJsonConfig(*this, model_.rules)}};
    }
    const BertRules rules = *BertRulesOf(model_.rules.rewrites);
    const Json config = Json::MakeObject({{"do_lower_case", rules.lower_case},
                                          {"strip_accents", rules.strip_accents},
                                          {"tokenize_chinese_chars", rules.space_chinese},
                                          {"tokenizer_class", "BertTokenizer"}});
    return {{"vocab.txt", VocabularyLines()}, {"tokenizer_config.json", config.DumpPretty()}};
  }
  std::string FileName() const override { return "tokenizer.json"; }
  std::string FileContents() const override {
    Json pieces = Json::MakeArray(), more = Json::MakeArray();
    for (const std::string& piece : model_.pieces) pieces.Append(piece);
    for (const std::string& token : model_.more) more.Append(token);
    return Json::MakeObject({{"kind", kind()},
                             {"sentinels", num_sentinels()},
                             {"rules", ToJson(model_.rules)},
                             {"split", Name(model_.split)},
                             {"unknown", model_.unknown},
                             {"pad", model_.pad},
                             {"begin", model_.begin},
                             {"separator", model_.separator},
                             {"mask", model_.mask},
                             {"prefix", model_.prefix},
                             {"longest_word", model_.longest_word},
                             {"clean_up", model_.clean_up},
                             {"pieces", std::move(pieces)},
                             {"more", std::move(more)}})
        .DumpPretty();
  }

 private:
  std::string VocabularyLines() const { return Join(model_.pieces, "\n") + "\n"; }
  // Whether the lines of a vocab.txt, with what tokenizer_config.json says beside it, give this model.
  bool IsOfVocabularyLines() const {
    const std::optional<BertRules> rules = BertRulesOf(model_.rules.rewrites);
    const WordPieceModel usual;
    const auto ends_lines = [](const std::string& piece) { return piece.find_first_of("\r\n") != std::string::npos; };
    const auto names = [](const WordPieceModel& m) { return std::tie(m.unknown, m.pad, m.begin, m.separator, m.mask); };
    return rules && rules->clean &&
           SameRules({.literal = model_.rules.literal}, {.literal = BertLiteralTokens(model_)}) &&
           model_.more.empty() && model_.split == usual.split && names(model_) == names(usual) &&
           model_.prefix == usual.prefix && model_.longest_word == usual.longest_word &&
           model_.clean_up == usual.clean_up && std::none_of(model_.pieces.begin(), model_.pieces.end(), ends_lines);
  }
  // The shortest piece that begins a word, and the shortest that goes on with it; "" if there is none.
  std::pair<std::string, std::string> SpelledWord() const {
    const auto shortest = [this](const std::unordered_map<std::string_view, int32_t>& pieces,
                                 const std::string& before) {
      std::string found;
      int32_t found_id = kNoToken;
      for (const auto& [piece, id] : pieces) {
        const bool shorter = found_id == kNoToken || std::pair(piece.size(), id) < std::pair(found.size(), found_id);
        if (IsNoText(id) || !shorter) continue;
        const std::vector<int32_t> ids = Encode(before + std::string(piece));
        if (ids.empty() || ids.back() != id || ids.size() != (before.empty() ? 1 : 2)) continue;
        found = piece;
        found_id = id;
      }
      return found;
    };
    const std::string word = shortest(first_, "");
    return {word, word.empty() ? "" : shortest(next_, word)};
  }
  bool ContinuesWord(int32_t, int32_t id) const override { return Continues(id); }
  bool Continues(int32_t id) const {
    return static_cast<size_t>(id) < model_.pieces.size() &&
           model_.pieces[static_cast<size_t>(id)].size() > model_.prefix.size() &&
           model_.pieces[static_cast<size_t>(id)].starts_with(model_.prefix);
  }
  const std::string& PieceText(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return i < model_.pieces.size() ? model_.pieces[i] : model_.more[i - model_.pieces.size()];
  }

  // Whether a word that begins with `first` goes on with a character that is no white space.
  bool GoesOn(char32_t first, char32_t next) const {
    switch (model_.split) {
      case WordSplit::kPunctuation:
        return !IsPunctuation(first) && !IsPunctuation(next);
      case WordSplit::kSpace:
        return true;
      case WordSplit::kRuns:
        return IsWordOrMark(first) == IsWordOrMark(next);
    }
    return false;
  }

  void AppendText(const TracedText& text, std::vector<TokenSpan>* spans) const {
    for (size_t i = 0; i < text.size();) {
      if (IsWhiteSpace(text[i].code)) {
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < text.size() && !IsWhiteSpace(text[end].code) && GoesOn(text[i].code, text[end].code)) ++end;
      AppendWord(std::span<const TracedCharacter>(text).subspan(i, end - i), spans);
      i = end;
    }
  }

  void AppendWord(std::span<const TracedCharacter> word, std::vector<TokenSpan>* spans) const {
    const size_t before = spans->size();
    const auto give_up = [&] {
      spans->resize(before);
      spans->push_back({special_tokens().unknown, word.front().begin, word.back().end});
    };
    if (static_cast<int64_t>(word.size()) > model_.longest_word) return give_up();
    std::string letters;
    std::vector<size_t> starts;  // of each character in letters, and its end
    starts.reserve(word.size() + 1);
    for (const TracedCharacter& c : word) {
      starts.push_back(letters.size());
      AppendUtf8(c.code, &letters);
    }
    starts.push_back(letters.size());
    for (size_t begin = 0; begin < word.size();) {
      const std::unordered_map<std::string_view, int32_t>& pieces = begin == 0 ? first_ : next_;
      size_t end = word.size();
      int32_t id = kNoToken;
      for (; end > begin; --end) {
        const size_t bytes = starts[end] - starts[begin];
        if (bytes > longest_piece_) continue;
        const auto found = pieces.find(std::string_view(letters).substr(starts[begin], bytes));
        if (found == pieces.end()) continue;
        id = found->second;
        break;
      }
      if (id == kNoToken) return give_up();
      spans->push_back({id, word[begin].begin, word[end - 1].end});
      begin = end;
    }
  }

  const WordPieceModel model_;
  const RuledText ruled_;
  std::unordered_map<std::string_view, int32_t> first_, next_;  // into model_; next_ without the prefix
  size_t longest_piece_ = 0;
};

int32_t FindPiece(const WordPieceModel& model, std::string_view text) {
  const auto in = [&](const std::vector<std::string>& list) { return std::find(list.begin(), list.end(), text); };
  if (const auto at = in(model.pieces); at != model.pieces.end()) {
    return static_cast<int32_t>(at - model.pieces.begin());
  }
  if (const auto at = in(model.more); at != model.more.end()) {
    return static_cast<int32_t>(model.pieces.size()) + static_cast<int32_t>(at - model.more.begin());
  }
  return kNoToken;
}

std::vector<std::string> Strings(const JsonReader& reader, const char* key) {
  std::vector<std::string> strings;
  for (const Json& one : reader.Array(key)) {
    if (!one.is_string()) reader.FailAt(key, "must hold strings");
    strings.push_back(one.AsString());
  }
  return strings;
}

}  // namespace

std::vector<Rewrite> RewritesOf(const BertRules& rules) {
  std::vector<Rewrite> rewrites;
  if (rules.clean) rewrites.push_back({RewriteKind::kClean});
  if (rules.space_chinese) rewrites.push_back({RewriteKind::kSpaceChinese});
  if (rules.strip_accents) {
    rewrites.push_back({RewriteKind::kDecompose});
    rewrites.push_back({RewriteKind::kRemoveNonspacingMarks});
  }
  if (rules.lower_case) rewrites.push_back({RewriteKind::kLowerCase});
  return rewrites;
}

std::optional<BertRules> BertRulesOf(const std::vector<Rewrite>& rewrites) {
  for (int bits = 0; bits < 16; ++bits) {
    const BertRules rules{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    if (RewritesOf(rules) == rewrites) return rules;
  }
  return std::nullopt;
}

bool IsUncased(const std::vector<std::string>& pieces) {
  return std::none_of(pieces.begin(), pieces.end(), [](const std::string& piece) {
    if (piece.starts_with('[') || piece.starts_with('<')) return false;
    const std::u32string codes = ToUtf32(piece);
    return std::any_of(codes.begin(), codes.end(), IsUpperCase);
  });
}

std::vector<std::string> ReadVocabularyLines(std::string_view contents, const std::string& name) {
  std::vector<std::string> pieces;
  if (contents.starts_with("\xEF\xBB\xBF")) {
    Fail(ErrorKind::kData, name, ": begins with a byte order mark, which would be part of its first piece; save it ",
         "without one");
  }
  for (size_t begin = 0; begin < contents.size();) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    std::string_view line = contents.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty())
      Fail(ErrorKind::kData, name, ": line ", pieces.size() + 1, " is empty; a vocabulary has a piece a line");
    if (FindInvalidUtf8(line) != std::string_view::npos) {
      Fail(ErrorKind::kData, name, ": line ", pieces.size() + 1, " is not UTF-8: ", Quoted(line));
    }
    if (pieces.size() == kMaxVocabulary)
      Fail(ErrorKind::kData, name, ": more than the ", kMaxVocabulary, " lines allowed");
    pieces.emplace_back(line);
    begin = end + 1;
  }
  return pieces;
}

std::vector<LiteralToken> BertLiteralTokens(const WordPieceModel& model) {
  std::vector<LiteralToken> tokens;
  for (const std::string& text : {model.pad, model.unknown, model.begin, model.separator, model.mask}) {
    if (const int32_t id = FindPiece(model, text); id != kNoToken) tokens.push_back({text, id});
  }
  return tokens;
}

std::shared_ptr<const Tokenizer> MakeWordPieceTokenizer(WordPieceModel model, const std::string& name,
                                                        int num_sentinels) {
  std::unordered_map<std::string_view, size_t> seen;
  CheckPieces(model.pieces, model.more, name, [&](const std::string& piece, size_t id) {
    const auto [at, is_new] = seen.emplace(piece, id);
    if (is_new) return;
    Fail(ErrorKind::kData, name, ": the piece of id ", id, " is ", Quoted(piece), ", as the one of id ", at->second,
         " is");
  });
  SpecialTokens ids;
  const auto find = [&](std::string_view text) {
    const int32_t id = FindPiece(model, text);
    if (id == kNoToken) Fail(ErrorKind::kData, name, ": the vocabulary has no ", Quoted(text), ", which BERT needs");
    return id;
  };
  ids.pad = find(model.pad);
  ids.unknown = find(model.unknown);
  ids.begin = find(model.begin);
  ids.separator = find(model.separator);
  ids.mask = find(model.mask);
  ids.end = ids.separator;
  ids.decoder_start = ids.pad;
  for (const int32_t other : {ids.pad, ids.begin, ids.separator, ids.mask}) {
    if (other == ids.unknown)
      Fail(ErrorKind::kData, name, ": ", Quoted(model.unknown), " is the unknown token and another");
  }
  if (model.prefix.empty()) Fail(ErrorKind::kData, name, ": the prefix of pieces within a word is empty");
  return std::make_unique<WordPieceTokenizer>(std::move(model), ids, num_sentinels);
}

std::shared_ptr<const Tokenizer> WordPieceFromJson(const JsonReader& reader, const std::string& name,
                                                   int num_sentinels) {
  WordPieceModel model;
  model.pieces = Strings(reader, "pieces");
  model.more = Strings(reader, "more");
  model.rules =
      TextRulesFromJson(reader.Object("rules"), static_cast<int64_t>(model.pieces.size() + model.more.size()), name);
  model.unknown = reader.String("unknown");
  // Files of version 0.1 may lack these.
  const std::pair<const char*, std::string*> named[] = {
      {"pad", &model.pad}, {"begin", &model.begin}, {"separator", &model.separator}, {"mask", &model.mask}};
  for (const auto& [key, text] : named) {
    if (reader.Has(key)) *text = reader.String(key);
  }
  if (reader.Has("split")) model.split = ParseName<WordSplit>("split", reader.String("split"), ErrorKind::kData);
  model.prefix = reader.String("prefix");
  model.longest_word = reader.Int("longest_word", 1, kMaxWordCharacters);
  model.clean_up = reader.Bool("clean_up");
  return MakeWordPieceTokenizer(std::move(model), name, num_sentinels);
}

}  // namespace crosstalk
