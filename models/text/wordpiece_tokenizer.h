// WordPiece, the tokenizer of BERT.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

inline constexpr int64_t kMaxWordCharacters = 10'000;  // the most that WordPieceModel::longest_word may be

// What a word is.
enum class WordSplit {
  kPunctuation,  // BERT's: the text between white space, and each punctuation mark by itself
  kSpace,        // the text between white space
  kRuns,         // of the text between white space each run of letters, marks, digits and _, and each run of others
};
template <>
struct EnumNames<WordSplit> {
  static constexpr EnumName<WordSplit> kTable[] = {
      {WordSplit::kPunctuation, "punctuation"}, {WordSplit::kSpace, "space"}, {WordSplit::kRuns, "runs"}};
};

// The rules are those of Hugging Face's "tokenizers" library, which all of BERT's descendants are trained with today;
// they differ from the original's Python in corners only, of which (1) and (2) are the ones that real text may meet:
//   special tokens  that stand literally in a text are those tokens: "[MASK]" is one, whatever is around it
//   cleaning        no U+0000, U+FFFD and control, format and private characters; white space is a space.
//                   (1) Unassigned characters stay, as in Google's code; Hugging Face's Python drops them
//   Chinese         a character of BERT's eight blocks is a word by itself
//   accents         NFD, then without category Mn
//   lower case      (2) of each character alone: Σ at the end of a word is σ, where Python makes it ς
//   words           are the text between white space, and each punctuation mark by itself (WordSplit)
//   pieces          of a word: the longest piece of the vocabulary that it begins with, then the longest of those with
//                   the prefix "##" that the rest begins with, and so on; the unknown token for the whole of it if it
//                   cannot be had so or has more than `longest_word` characters
// Which characters there are is Unicode 15's choice (utf8proc's); a library with older tables knows fewer marks and
// punctuation. U+2B820 to U+2B91F are Chinese, as Google's code says and "tokenizers" leaves out.
struct WordPieceModel {
  std::vector<std::string> pieces;  // by id
  std::vector<std::string> more;    // literal tokens with ids above those, which are no pieces
  TextRules rules;
  WordSplit split = WordSplit::kPunctuation;
  std::string unknown = "[UNK]";
  std::string pad = "[PAD]", begin = "[CLS]", separator = "[SEP]", mask = "[MASK]";
  std::string prefix = "##";
  int64_t longest_word = 100;  // characters, after rewriting
  bool clean_up = true;        // Decode: no space before . , ? ! and n't 's 'm 've 're
};

// The steps of BERT's rewriting, in this order.
struct BertRules {
  bool clean = true;
  bool space_chinese = true;
  bool strip_accents = true;
  bool lower_case = true;
};
std::vector<Rewrite> RewritesOf(const BertRules& rules);
// The inverse; nullopt of rewriting that is not BERT's.
std::optional<BertRules> BertRulesOf(const std::vector<Rewrite>& rewrites);

// True unless a piece has an upper-case letter; "[CLS]" and all others in brackets are not looked at. What the
// vocabulary itself says of whether text is to be lower-cased.
bool IsUncased(const std::vector<std::string>& pieces);

// The pieces of a `vocab.txt`, one a line. Error(kData) with `name` for an empty line, and as MakeWordPieceTokenizer.
std::vector<std::string> ReadVocabularyLines(std::string_view contents, const std::string& name);

// The special tokens [PAD], [UNK], [CLS], [SEP] and [MASK], whatever the model calls them, found literally.
std::vector<LiteralToken> BertLiteralTokens(const WordPieceModel& model);

// decoder_start is pad, and end the separator. The sentinels follow all else. Error(kData) with `name` for a special
// token that is missing (it is named), a piece that is there twice, empty, not UTF-8 or longer than kMaxPieceBytes, and
// for more than kMaxVocabulary pieces.
std::shared_ptr<const Tokenizer> MakeWordPieceTokenizer(WordPieceModel model, const std::string& name,
                                                        int num_sentinels);

// From a kept descriptor, {"kind": "wordpiece", …}.
std::shared_ptr<const Tokenizer> WordPieceFromJson(const JsonReader& reader, const std::string& name,
                                                   int num_sentinels);

}  // namespace crosstalk
