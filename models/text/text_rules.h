// A published tokenizer's rewriting of a text before its vocabulary applies: special tokens that stand literally in
// it are cut out, and the rest is rewritten.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

template <>
struct EnumNames<RewriteKind> {
  static constexpr EnumName<RewriteKind> kTable[] = {
      {RewriteKind::kClean, "clean"},
      {RewriteKind::kSpaces, "spaces"},
      {RewriteKind::kSpaceChinese, "space-chinese"},
      {RewriteKind::kDecompose, "nfd"},
      {RewriteKind::kDecomposeCompatible, "nfkd"},
      {RewriteKind::kCompose, "nfc"},
      {RewriteKind::kComposeCompatible, "nfkc"},
      {RewriteKind::kRemoveNonspacingMarks, "remove-nonspacing-marks"},
      {RewriteKind::kRemoveMarks, "remove-marks"},
      {RewriteKind::kRemoveCombining, "remove-combining"},
      {RewriteKind::kLowerCase, "lower-case"},
      {RewriteKind::kStripBegin, "strip-begin"},
      {RewriteKind::kStripEnd, "strip-end"},
      {RewriteKind::kReplace, "replace"},
      {RewriteKind::kPrepend, "prepend"},
  };
};

// A token that is recognised in text by its letters, whatever stands around it: "[MASK]" in a text is that one token.
// Hugging Face's tokenizers call these added tokens.
struct LiteralToken {
  std::string text;
  int32_t id;
  bool takes_space_before = false, takes_space_behind = false;  // white space there belongs to it
  bool rewritten = false;   // it is looked for in the rewritten text, as its text rewritten
  bool whole_word = false;  // it is none beside a letter, digit, mark or _

  friend bool operator==(const LiteralToken&, const LiteralToken&) = default;
};

// What a tokenizer may have, whichever form it is read from: what a published file says, a run keeps in its own form
// and must be able to read again.
inline constexpr size_t kMaxPieceBytes = 512;

// The mark of a space in a piece.
inline constexpr std::string_view kSpaceMark = "\u2581";
inline constexpr size_t kMaxVocabulary = 2'000'000;
inline constexpr size_t kMaxRewrites = 16;
inline constexpr size_t kMaxReplaced = 64;  // characters that one replacement takes

// Finds literal tokens: the leftmost, and of those that begin there the longest. Where that one is no whole word and
// must be, the search goes on after it. A token may begin in the white space that the one before takes: the two
// sections overlap then.
class LiteralTokens {
 public:
  LiteralTokens() = default;
  // `texts` with their tokens; the texts are of 1 to kMaxPieceBytes bytes and distinct.
  explicit LiteralTokens(const std::vector<LiteralToken>& tokens);

  bool empty() const { return tokens_.empty(); }
  struct Section {
    int64_t begin, end;
    int32_t id;  // kNoToken: text between them, which is not empty
  };
  std::vector<Section> Cut(std::string_view text) const;

 private:
  const LiteralToken* LongestAt(std::string_view text, size_t at) const;

  std::unordered_map<std::string, LiteralToken> tokens_;
  std::vector<size_t> lengths_;                        // of their texts, each once, the longest first
  std::vector<bool> begins_ = std::vector<bool>(256);  // by first byte
};

// The space before the first word of a text, or of the part of it after a literal token. Except with kModel, white
// space before a rewritten token is a space too.
enum class SpaceBefore {
  kModel,  // what the SentencePiece model does: it has one before each, or none (add_dummy_prefix)
  kStart,  // one at the start of the text; elsewhere that which is there
  kKept,   // that which is there
  kEach,   // one before each
};
template <>
struct EnumNames<SpaceBefore> {
  static constexpr EnumName<SpaceBefore> kTable[] = {{SpaceBefore::kModel, "model"},
                                                     {SpaceBefore::kStart, "start"},
                                                     {SpaceBefore::kKept, "kept"},
                                                     {SpaceBefore::kEach, "each"}};
};

struct TextRules {
  std::vector<Rewrite> rewrites = {};
  std::vector<LiteralToken> literal = {};
  // Rules of SentencePiece models.
  bool split_numbers = false;  // text is read as WithoutNumbersBeforeCommas does
  SpaceBefore space_before = SpaceBefore::kModel;
  bool space_after = false;  // white space at the end is a space too

  friend bool operator==(const TextRules&, const TextRules&) = default;
};

// Whether they are the same rules: the order of literal tokens is none of them.
bool SameRules(TextRules a, TextRules b);

// Applies them. Thread-safe once made.
class RuledText {
 public:
  RuledText() = default;
  // `charsmap` is the table that the SentencePiece model applies to what is left of a text ("": none); rewritten tokens
  // are found in its result.
  explicit RuledText(TextRules rules, std::string charsmap = "");

  const TextRules& rules() const { return rules_; }
  struct Part {
    int32_t id;          // kNoToken: text
    int64_t begin, end;  // of the token
    TracedText text;
    bool before_rewritten = false;  // a rewritten token follows
  };
  std::vector<Part> Parts(std::string_view text) const;
  // Whether they only cut literal tokens out of a text as it stands, as Cut does.
  bool OnlyCuts() const { return rules_.rewrites.empty() && (rewritten_.empty() || charsmap_.empty()); }
  std::vector<LiteralTokens::Section> Cut(std::string_view text) const;
  // Rewrites a text without special tokens.
  void Rewrite(TracedText* text) const;

 private:
  TextRules rules_;
  std::string charsmap_;
  LiteralTokens original_, rewritten_;
};

// As a kept tokenizer has them: {"rewrites": ["nfkd", {"from": "``", "by": "\""}], "literal": [{"text": …, "id": …}]}.
// Literal tokens' ids are in [0, vocabulary).
Json ToJson(const TextRules& rules);
TextRules TextRulesFromJson(const JsonReader& reader, int64_t vocabulary, const std::string& name);

// A replacement takes 1 to kMaxReplaced characters and makes no more of them: what is wrong with one, or "".
std::string WhatIsWrong(const Rewrite& replacement);

// The texts of literal tokens must be UTF-8 of 1 to kMaxPieceBytes bytes, each once: what is wrong with them, or "".
std::string WhatIsWrong(const std::vector<LiteralToken>& tokens);

// A vocabulary's pieces, and what has ids above them, are at most kMaxVocabulary texts of 1 to kMaxPieceBytes bytes of
// UTF-8: Error(kData) with `name`. `also` is called with each and its id, in the ids' order.
void CheckPieces(const std::vector<std::string>& pieces, const std::vector<std::string>& more, const std::string& name,
                 const std::function<void(const std::string& piece, size_t id)>& also);

// Texts that these rules, and few others, make something of: see Tokenizer::RuleTexts.
std::vector<std::string> RuleTexts(const TextRules& rules);

}  // namespace crosstalk
