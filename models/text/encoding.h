// One text or two as a model reads them: with special tokens, segments and a bounded length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// What stands where. A published tokenizer may have a template of its own (Tokenizer::OwnTemplate); of the others one
// with a begin and a separator token has BERT's form, and any other T5's:
//   BERT  [CLS] A [SEP]   [CLS] A [SEP] B [SEP]   segment 1 from B on
//   T5    A </s>          A </s> B </s>           segment 0
PairTemplate TemplateOf(const Tokenizer& tokenizer, int texts);  // 1 or 2 texts

// What a decoder reads before a text: the tokens that a published template of its own puts there (Llama's <s>), or
// none.
std::vector<int32_t> TokensBeforeText(const Tokenizer& tokenizer);

// The cut of one or two texts that are too long, at their ends.
enum class Truncation {
  kNone,          // nothing: too long is Error(kUsage) of the field "max_length"
  kLongestFirst,  // token by token from the longer one, from B where they are equally long (as in BERT's pretraining)
  kOnlyFirst,
  kOnlySecond,  // Error(kUsage) where all of the other is too long already
};
template <>
struct EnumNames<Truncation> {
  static constexpr EnumName<Truncation> kTable[] = {{Truncation::kNone, "none"},
                                                    {Truncation::kLongestFirst, "longest-first"},
                                                    {Truncation::kOnlyFirst, "only-first"},
                                                    {Truncation::kOnlySecond, "only-second"}};
};

struct PairOptions {
  std::optional<int64_t> max_length;  // tokens, special ones counted
  Truncation truncation = Truncation::kNone;
};

struct EncodedPair {
  struct Token {
    int32_t id;
    int32_t segment;
    int text;            // which one it is of: 0 or 1; -1 for a special token of the template
    int64_t begin, end;  // its bytes of that text; 0, 0 for those special tokens
  };
  std::vector<Token> tokens;
  int64_t kept[2];  // tokens of A and of B that are left
};

// The same for texts that are encoded already; `second` is nullopt for one alone. This is where a window over a long
// text is laid: a part of its spans is a text.
EncodedPair JoinPair(const Tokenizer& tokenizer, std::span<const TokenSpan> first,
                     std::optional<std::span<const TokenSpan>> second, const PairOptions& options = {});

EncodedPair EncodePair(const Tokenizer& tokenizer, std::string_view first,
                       std::optional<std::string_view> second = std::nullopt, const PairOptions& options = {});

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Texts with blanks, and how a T5 reads them: as span corruption shows it hidden spans, a sentinel for each.

inline constexpr std::string_view kBlank = "___";

// What the special tokens alone make of it.
PairTemplate TemplateOf(const SpecialTokens& special, int texts);

// The texts between the blanks of `text`, one more than there are: a blank is three underscores or more.
std::vector<std::string> SplitAtBlanks(std::string_view text);

// Token ids of the texts with Sentinel(k) between number k and k + 1, and the end token. The tokens of a text are those
// that it has in the whole, with spaces before a blank hidden with it. Error(kUsage) of the field "text" if there
// are more blanks than sentinels.
std::vector<int32_t> EncodeBlanks(const std::vector<std::string>& texts, const Tokenizer& tokenizer);

// Some words of a passage of `text` as blanks.
std::string MakeBlanks(const std::string& text);

}  // namespace crosstalk
