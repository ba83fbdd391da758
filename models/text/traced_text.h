// Text that is rewritten before it is tokenised: characters, each with its bytes of the original.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

// Several characters may have the same bytes (½ is decomposed to 1⁄2) and one may have none (a space that is put in).
struct TracedCharacter {
  char32_t code;
  int64_t begin;
  int64_t end;
};
using TracedText = std::vector<TracedCharacter>;

// The characters of the bytes [begin, end) of `text`; U+FFFD for each byte that is part of none.
TracedText TraceText(std::string_view text, int64_t begin, int64_t end);

struct Utf8Text {
  std::string text;
  std::vector<int64_t> character;  // of each byte, its character's place; at the end, their number
};
Utf8Text ToUtf8(const TracedText& text);
void AppendUtf8(char32_t code, std::string* text);

// Unicode's properties of characters, by utf8proc (its version decides which characters there are).
bool IsWhiteSpace(char32_t code);  // the property White_Space
inline constexpr std::u32string_view kWhiteSpace =
    U"\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029"
    U"\u202F\u205F\u3000";            // all of it
bool IsPunctuation(char32_t code);    // the categories P, and ASCII's symbols such as $ + < ^ `
bool IsUpperCase(char32_t code);      // has another character as its lower case
bool IsDigit(char32_t code);          // the category Nd
bool IsWordCharacter(char32_t code);  // the categories L and N, and _: \w of Python's regular expressions
bool IsWordOrMark(char32_t code);     // \w of Unicode's (UTS 18): letters, marks, decimal digits, connectors, joiners
bool IsChinese(char32_t code);        // the blocks that BERT calls Chinese: ideographs, no kana and no hangul

// One step of rewriting.
enum class RewriteKind {
  kClean,                  // BERT's: no U+0000, U+FFFD, Cc, Cf, Co (unassigned ones stay); white space becomes a space
  kSpaces,                 // white space becomes a space
  kSpaceChinese,           // a space before and after each Chinese character
  kDecompose,              // NFD
  kDecomposeCompatible,    // NFKD
  kCompose,                // NFC
  kComposeCompatible,      // NFKC
  kRemoveNonspacingMarks,  // category Mn: BERT's accents
  kRemoveMarks,            // categories Mn, Mc, Me: "StripAccents" of a tokenizer.json
  kRemoveCombining,        // combining class other than 0: ALBERT's accents
  kLowerCase,              // of each character by itself: Σ is σ at the end of a word too
  kStripBegin,             // no white space at the beginning
  kStripEnd,               // none at the end
  kReplace,                // each `from`, from left to right, by `by`
  kPrepend,                // `by` before a text that is not empty
};
struct Rewrite {
  RewriteKind kind;
  std::u32string from = {}, by = {};  // of kReplace; kPrepend has `by` alone

  friend bool operator==(const Rewrite&, const Rewrite&) = default;
};
void Apply(const Rewrite& rewrite, TracedText* text);

// Unicode's lower case of a whole text: Σ at the end of a word is ς, İ two characters.
std::u32string LowerCaseOf(std::u32string_view text);

std::u32string ToUtf32(std::string_view text);
std::string ToUtf8(std::u32string_view text);

}  // namespace crosstalk
