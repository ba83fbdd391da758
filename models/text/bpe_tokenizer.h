// Byte-pair encoding: a text is cut into pieces by patterns, a piece into bytes or characters, and of these the two
// that stand beside each other and have the lowest rank are merged, the leftmost first, until no merge applies. GPT-2's
// byte-level form, that of its descendants (RoBERTa, Llama 3, Qwen), and Llama 2's with ▁ for spaces and pieces for
// single bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/text/split_pattern.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// Which sections of a text, between literal tokens, get a space before them. The names are those of tokenizer.json.
enum class PrefixScheme { kNever, kFirst, kAlways };
template <>
struct EnumNames<PrefixScheme> {
  static constexpr EnumName<PrefixScheme> kTable[] = {
      {PrefixScheme::kNever, "never"}, {PrefixScheme::kFirst, "first"}, {PrefixScheme::kAlways, "always"}};
};

struct BpeModel {
  std::vector<std::string> pieces;                  // by id, as files write them: "Ġthe", "▁the", "<0x0A>"
  std::vector<std::string> more;                    // literal tokens with ids above those, which are no pieces
  std::vector<int32_t> special;                     // ids that are no text
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of two pieces, whose joined text is a piece too; by rank
  bool byte_level = true;      // pieces are bytes in GPT-2's alphabet, in which U+0120 is the space
  bool byte_fallback = false;  // characters that are no pieces become the pieces <0x00> to <0xFF>
  bool whole_pieces = false;   // "ignore_merges": what is a piece as a whole is one token, even if no merge makes it
  std::string unknown;         // what a character without a piece becomes; "": it is left out
  bool fuse_unknown = false;   // several beside each other are one
  TextRules rules;
  // Each section between literal tokens, once it is rewritten, is prepared and cut:
  bool marks_spaces = false;                   // spaces become ▁
  PrefixScheme prefix = PrefixScheme::kNever;  // a space before one that begins with none; ▁ where these are marked
  std::vector<SplitRule> splits;               // cut it one after the other
  // What stands around one text, and around two; empty: what TemplateOf makes of the special tokens.
  PairTemplate single = {{0, kNoToken, 0}};
  PairTemplate pair = {{0, kNoToken, 0}, {1, kNoToken, 1}};
  bool strips_space = false;  // Decode takes the space at the beginning away
  SpecialTokens tokens = {kNoToken, kNoToken, kNoToken, kNoToken};
  std::vector<int32_t> sentinels;  // ids by number, among those above; empty: they are added on top
};

// GPT-2's alphabet: 256 printing characters for the bytes; those of Latin-1 that print are themselves, the others
// U+0100 and up. BytesOf is the inverse: text with any other character is itself.
std::string ToByteAlphabet(std::string_view bytes);
std::string BytesOf(std::string_view text);

// A byte that is no part of a UTF-8 character is a piece of its own; where the vocabulary has none for it, it is read
// as U+FFFD. Decode gives all bytes back. Error(kData) with `name` for a piece that is empty, not UTF-8 or longer than
// kMaxPieceBytes, for more than kMaxVocabulary pieces, a missing byte that text may have, a pattern that cannot be
// used, and special tokens outside the vocabulary.
std::shared_ptr<const Tokenizer> MakeBpeTokenizer(BpeModel model, const std::string& name, int num_sentinels);

// From a kept descriptor, {"kind": "bpe", …}: the published form, and the ids that it has no place for.
std::shared_ptr<const Tokenizer> BpeFromJson(const JsonReader& reader, const std::string& name);

}  // namespace crosstalk
