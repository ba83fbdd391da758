#include "crosstalk/models/text/traced_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kDottedCapitalI = 0x130;  // the one whose lower case is two characters
constexpr int kMostDecomposed = 32;          // characters that one becomes; Unicode's longest is 18

utf8proc_category_t CategoryOf(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }
int CombiningClass(char32_t code) {
  return code < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

// Decodes a character of valid UTF-8.
char32_t Decode(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0xFFu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

char32_t LowerCase(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

// Letters in circles and squares, of the category So.
bool IsEnclosedLetter(char32_t code) {
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

// Unicode's property Cased, of characters that are not case-ignorable.
bool IsCased(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT) return true;
  // Ordinals, Roman numbers and enclosed letters.
  return code == 0xAA || code == 0xBA || (code >= 0x2160 && code <= 0x217F) || IsEnclosedLetter(code);
}

// Unicode's property Case_Ignorable: marks, modifiers, formats, and what may stand within a word (MidLetter, MidNumLet,
// Single_Quote).
bool IsCaseIgnorable(char32_t code) {
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::u32string_view(
                 U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A")
                 .find(code) != std::u32string_view::npos;
  }
}

// Whether the Σ at text[i] ends a word: a letter stands before it, and none after (Unicode's Final_Sigma).
bool IsFinalSigma(std::u32string_view text, size_t i) {
  size_t before = i, after = i + 1;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return before > 0 && IsCased(text[before - 1]) && (after == text.size() || !IsCased(text[after]));
}

bool IsSpace(const TracedCharacter& c) { return IsWhiteSpace(c.code); }

template <typename Remove>
void RemoveIf(TracedText* text, const Remove& remove) {
  text->erase(std::remove_if(text->begin(), text->end(),
                             [&](const TracedCharacter& c) { return c.code >= 0x80 && remove(c.code); }),
              text->end());
}

void Clean(TracedText* text) {
  size_t kept = 0;
  for (TracedCharacter c : *text) {
    if (c.code < 0x20 || c.code >= 0x7F) {
      if (c.code == '\t' || c.code == '\n' || c.code == '\r') {
        c.code = ' ';
      } else {
        const utf8proc_category_t category = CategoryOf(c.code);
        if (c.code == kReplacement || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
            category == UTF8PROC_CATEGORY_CO) {
          continue;
        }
        if (IsWhiteSpace(c.code)) c.code = ' ';
      }
    }
    (*text)[kept++] = c;
  }
  text->resize(kept);
}

void SpaceChinese(TracedText* text) {
  if (std::none_of(text->begin(), text->end(), [](const TracedCharacter& c) { return IsChinese(c.code); })) return;
  TracedText spaced;
  spaced.reserve(2 * text->size());
  for (const TracedCharacter& c : *text) {
    const bool chinese = IsChinese(c.code);
    if (chinese) spaced.push_back({' ', c.begin, c.begin});
    spaced.push_back(c);
    if (chinese) spaced.push_back({' ', c.end, c.end});
  }
  *text = std::move(spaced);
}

// Canonical order: within a run of characters of combining classes other than 0, by class. Where that changes anything,
// each of the run has the bytes of all, so that places in the original never fall.
void OrderMarks(TracedText* text) {
  const auto end = text->end();
  for (auto at = text->begin(); at != end;) {
    const auto is_mark = [](const TracedCharacter& c) { return CombiningClass(c.code) != 0; };
    at = std::find_if(at, end, is_mark);
    const auto run = at;
    at = std::find_if_not(at, end, is_mark);
    const auto before = [](const TracedCharacter& a, const TracedCharacter& b) {
      return CombiningClass(a.code) < CombiningClass(b.code);
    };
    if (std::is_sorted(run, at, before)) continue;
    const int64_t begin = run->begin, last = std::prev(at)->end;
    std::stable_sort(run, at, before);
    for (auto mark = run; mark != at; ++mark) mark->begin = begin, mark->end = last;
  }
}

void Decompose(TracedText* text, int options) {
  if (std::all_of(text->begin(), text->end(), [](const TracedCharacter& c) { return c.code < 0x80; })) return;
  TracedText decomposed;
  decomposed.reserve(text->size() + text->size() / 4);
  for (const TracedCharacter& c : *text) {
    if (c.code < 0x80) {
      decomposed.push_back(c);
      continue;
    }
    utf8proc_int32_t codes[kMostDecomposed];
    int last_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), codes, kMostDecomposed,
                                static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | options), &last_class);
    if (count <= 0 || count > kMostDecomposed) {
      decomposed.push_back(c);
      continue;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      decomposed.push_back({static_cast<char32_t>(codes[i]), c.begin, c.end});
    }
  }
  OrderMarks(&decomposed);
  *text = std::move(decomposed);
}

constexpr char32_t kFirstThatJoins = 0x300;  // no character below composes with one before it
constexpr char32_t kFirstThatNeverDoes = 0x30000;

// By code: whether a canonical decomposition has the character after its first.
const std::vector<bool>& Seconds() {
  static const std::vector<bool>& seconds = *[] {
    auto* found = new std::vector<bool>(kFirstThatNeverDoes);
    for (char32_t code = 0xC0; code < kFirstThatNeverDoes; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      utf8proc_int32_t codes[kMostDecomposed];
      int last_class = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), codes,
                                                             kMostDecomposed, UTF8PROC_DECOMPOSE, &last_class);
      for (utf8proc_ssize_t i = 1; i < count; ++i) (*found)[static_cast<size_t>(codes[i])] = true;
    }
    return found;
  }();
  return seconds;
}

// Whether it may become one with the character before it, or change places with it.
bool Joins(char32_t code) {
  if (code < kFirstThatJoins) return false;
  return CombiningClass(code) != 0 || (code < kFirstThatNeverDoes && Seconds()[code]);
}

// NFC or, with UTF8PROC_COMPAT, NFKC: of each character with those after it that may join it. What changes has the
// bytes of all of them.
void Compose(TracedText* text, int options) {
  const char32_t least = options == 0 ? kFirstThatJoins : 0xA0;
  if (std::all_of(text->begin(), text->end(), [&](const TracedCharacter& c) { return c.code < least; })) return;
  TracedText composed, region;
  std::vector<utf8proc_int32_t> codes;
  composed.reserve(text->size());
  for (auto at = text->begin(); at != text->end();) {
    const auto first = at;
    at = std::find_if_not(at + 1, text->end(), [](const TracedCharacter& c) { return Joins(c.code); });
    if (at - first == 1 && first->code < least) {
      composed.push_back(*first);
      continue;
    }
    region.assign(first, at);
    Decompose(&region, options);
    codes.clear();
    for (const TracedCharacter& c : region) codes.push_back(static_cast<utf8proc_int32_t>(c.code));
    if (codes.size() > 1) {
      codes.resize(static_cast<size_t>(utf8proc_normalize_utf32(
          codes.data(), std::ssize(codes), static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE))));
    }
    const bool same = std::equal(codes.begin(), codes.end(), first, at, [](int32_t code, const TracedCharacter& c) {
      return c.code == static_cast<char32_t>(code);
    });
    if (same) {
      composed.insert(composed.end(), first, at);
      continue;
    }
    for (const utf8proc_int32_t code : codes) {
      composed.push_back({static_cast<char32_t>(code), first->begin, std::prev(at)->end});
    }
  }
  *text = std::move(composed);
}

void Prepend(const std::u32string& added, TracedText* text) {
  if (text->empty()) return;
  const int64_t begin = text->front().begin;
  TracedText before;
  for (const char32_t code : added) before.push_back({code, begin, begin});
  text->insert(text->begin(), before.begin(), before.end());
}

void LowerCaseAll(TracedText* text) {
  TracedText dotted;
  const bool is_dotted =
      std::any_of(text->begin(), text->end(), [](const TracedCharacter& c) { return c.code == kDottedCapitalI; });
  if (!is_dotted) {
    for (TracedCharacter& c : *text) c.code = LowerCase(c.code);
    return;
  }
  for (const TracedCharacter& c : *text) {
    if (c.code == kDottedCapitalI) {
      dotted.push_back({'i', c.begin, c.end});
      dotted.push_back({0x307, c.begin, c.end});
    } else {
      dotted.push_back({LowerCase(c.code), c.begin, c.end});
    }
  }
  *text = std::move(dotted);
}

void Replace(const std::u32string& from, const std::u32string& by, TracedText* text) {
  if (from.empty()) return;
  TracedText replaced;
  size_t copied = 0;  // how much of `text` is in `replaced`
  for (size_t i = 0; i + from.size() <= text->size();) {
    const bool here = std::equal(from.begin(), from.end(), text->begin() + static_cast<std::ptrdiff_t>(i),
                                 [](char32_t code, const TracedCharacter& c) { return code == c.code; });
    if (!here) {
      ++i;
      continue;
    }
    const int64_t begin = (*text)[i].begin, end = (*text)[i + from.size() - 1].end;
    replaced.insert(replaced.end(), text->begin() + static_cast<std::ptrdiff_t>(copied),
                    text->begin() + static_cast<std::ptrdiff_t>(i));
    for (const char32_t code : by) replaced.push_back({code, begin, end});
    i += from.size();
    copied = i;
  }
  if (copied == 0) return;
  replaced.insert(replaced.end(), text->begin() + static_cast<std::ptrdiff_t>(copied), text->end());
  *text = std::move(replaced);
}

}  // namespace

TracedText TraceText(std::string_view text, int64_t begin, int64_t end) {
  TracedText traced;
  traced.reserve(static_cast<size_t>(end - begin));
  const std::string_view part = text.substr(0, static_cast<size_t>(end));
  for (auto i = static_cast<size_t>(begin); i < part.size();) {
    const size_t length = Utf8Length(part, i);
    const size_t next = i + (length == 0 ? 1 : length);
    traced.push_back({length == 0 ? kReplacement : Decode(part.substr(i, length)), static_cast<int64_t>(i),
                      static_cast<int64_t>(next)});
    i = next;
  }
  return traced;
}

void AppendUtf8(char32_t code, std::string* text) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
    return;
  }
  const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
  constexpr unsigned char kLead[] = {0, 0xC0, 0xE0, 0xF0};
  *text += static_cast<char>(kLead[tail] | code >> (6 * tail));
  for (int i = tail - 1; i >= 0; --i) *text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

Utf8Text ToUtf8(const TracedText& text) {
  Utf8Text utf8;
  utf8.text.reserve(text.size());
  utf8.character.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    AppendUtf8(text[i].code, &utf8.text);
    utf8.character.resize(utf8.text.size(), static_cast<int64_t>(i));
  }
  utf8.character.push_back(static_cast<int64_t>(text.size()));
  return utf8;
}

std::u32string LowerCaseOf(std::u32string_view text) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  std::u32string lower;
  lower.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kDottedCapitalI) {
      lower += U"i\u0307";
    } else {
      lower += text[i] == kSigma && IsFinalSigma(text, i) ? kFinalSigma : LowerCase(text[i]);
    }
  }
  return lower;
}

std::string ToUtf8(std::u32string_view text) {
  std::string utf8;
  for (const char32_t code : text) AppendUtf8(code, &utf8);
  return utf8;
}

std::u32string ToUtf32(std::string_view text) {
  std::u32string codes;
  for (const TracedCharacter& c : TraceText(text, 0, static_cast<int64_t>(text.size()))) codes += c.code;
  return codes;
}

bool IsWhiteSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= 0x21 && code <= 0x2F) || (code >= 0x3A && code <= 0x40) || (code >= 0x5B && code <= 0x60) ||
           (code >= 0x7B && code <= 0x7E);
  }
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsUpperCase(char32_t code) { return LowerCase(code) != code; }

bool IsDigit(char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_ND; }

bool IsWordCharacter(char32_t code) {
  if (code < 0x80)
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  const utf8proc_category_t category = CategoryOf(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

// The property Alphabetic is the categories L, Nl and M, and letters in circles and squares.
bool IsWordOrMark(char32_t code) {
  if (code < 0x80) return IsWordCharacter(code);
  const utf8proc_category_t category = CategoryOf(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
         code == 0x200C || code == 0x200D || IsEnclosedLetter(code);
}

bool IsChinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

void Apply(const Rewrite& rewrite, TracedText* text) {
  switch (rewrite.kind) {
    case RewriteKind::kClean:
      return Clean(text);
    case RewriteKind::kSpaces:
      for (TracedCharacter& c : *text) {
        if (IsWhiteSpace(c.code)) c.code = ' ';
      }
      return;
    case RewriteKind::kSpaceChinese:
      return SpaceChinese(text);
    case RewriteKind::kDecompose:
      return Decompose(text, 0);
    case RewriteKind::kDecomposeCompatible:
      return Decompose(text, UTF8PROC_COMPAT);
    case RewriteKind::kCompose:
      return Compose(text, 0);
    case RewriteKind::kComposeCompatible:
      return Compose(text, UTF8PROC_COMPAT);
    case RewriteKind::kRemoveNonspacingMarks:
      return RemoveIf(text, [](char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_MN; });
    case RewriteKind::kRemoveMarks:
      return RemoveIf(text, [](char32_t code) {
        const utf8proc_category_t category = CategoryOf(code);
        return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
      });
    case RewriteKind::kRemoveCombining:
      return RemoveIf(text, [](char32_t code) { return CombiningClass(code) != 0; });
    case RewriteKind::kLowerCase:
      return LowerCaseAll(text);
    case RewriteKind::kStripBegin:
      text->erase(text->begin(), std::find_if_not(text->begin(), text->end(), IsSpace));
      return;
    case RewriteKind::kStripEnd:
      text->erase(std::find_if_not(text->rbegin(), text->rend(), IsSpace).base(), text->end());
      return;
    case RewriteKind::kReplace:
      return Replace(rewrite.from, rewrite.by, text);
    case RewriteKind::kPrepend:
      return Prepend(rewrite.by, text);
  }
}

}  // namespace crosstalk
