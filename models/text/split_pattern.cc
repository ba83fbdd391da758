#define PCRE2_CODE_UNIT_WIDTH 8
#include "crosstalk/models/text/split_pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kMaxPattern = 16 << 10;  // bytes

// Inside of a class. PCRE2's own \s has U+180E too, and its \w has no marks. Oniguruma's
// has the superscripts and fractions of Latin-1, and no others.
constexpr std::string_view kSpaceClass =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaceClass =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWordClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHexClass = "0-9a-fA-F";

// An Oniguruma pattern as one for PCRE2.
class Translation {
 public:
  Translation(std::string_view pattern, const std::string& source) : in_(pattern), source_(source) {}

  std::string Run() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        Escape();
      } else if (depth_ > 0) {
        InClass();
      } else {
        OutsideClass();
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void Refuse(std::string_view what) const {
    Fail(ErrorKind::kData, source_, ": ", Quoted(in_), ": ", what, " is not understood");
  }
  bool Here(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void Copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ = std::min(at_ + count, in_.size());
  }
  // One of a set of characters, or of all others.
  void Set(std::string_view set, std::string_view others, std::string_view name) {
    if (depth_ == 0) {
      out_ += StrCat(others.empty() ? "[" : "[^", set, "]");
    } else if (others.empty()) {
      out_ += set;
    } else if (others == kNoSpaceClass) {
      out_ += others;
    } else {
      Refuse(StrCat(name, " within a class"));
    }
  }

  void Escape() {
    if (at_ + 1 >= in_.size()) return Copy(1);  // PCRE2 refuses it
    const char c = in_[at_ + 1];
    const size_t begin = at_;
    at_ += 2;
    switch (c) {
      case 's':
        return Set(kSpaceClass, "", "");
      case 'S':
        return Set(kSpaceClass, kNoSpaceClass, "");
      case 'w':
        return Set(kWordClass, "", "");
      case 'W':
        return Set(kWordClass, "other", "\\W");
      case 'h':
        return Set(kHexClass, "", "");
      case 'H':
        return Set(kHexClass, "other", "\\H");
      case 'b':
      case 'B': {
        if (depth_ > 0) return void(out_ += "\\x{8}");
        const std::string word = StrCat("[", kWordClass, "]");
        const bool edge = c == 'b';
        out_ +=
            StrCat("(?:(?<=", word, edge ? ")(?!" : ")(?=", word, ")|(?<!", word, edge ? ")(?=" : ")(?!", word, "))");
        return;
      }
      case 'u':
        if (at_ + 4 > in_.size()) Refuse("\\u without four digits");
        out_ += StrCat("\\x{", in_.substr(at_, 4), "}");
        at_ += 4;
        return;
      case 'p':
      case 'P':
      case 'x':
        at_ = begin;
        Copy(2);
        if (Here("{")) Copy(in_.find('}', at_) == std::string_view::npos ? 1 : in_.find('}', at_) + 1 - at_);
        return;
      default:
        at_ = begin;
        return Copy(2);
    }
  }

  void InClass() {
    const char c = in_[at_];
    if (c == '[') {
      if (Here("[:") || Here("[^")) Refuse(StrCat(in_.substr(at_, 2), " within a class"));
      ++depth_;
      ++at_;
    } else if (c == ']' && --depth_ > 0) {
      ++at_;
    } else if (Here("&&")) {
      Refuse("&& within a class");
    } else {
      Copy(1);
    }
  }

  void OutsideClass() {
    if (in_[at_] == '[') {
      ++depth_;
      Copy(Here("[^") ? 2 : 1);
      if (Here("]")) Copy(1);  // the first one is a character
    } else if (Here("(*")) {
      Refuse("(*");
    } else if (Here("(?")) {
      Copy(2);
      size_t end = at_;
      while (end < in_.size() && (IsAsciiLetter(in_[end]) || in_[end] == '-')) ++end;
      if (in_.substr(at_, end - at_).find_first_not_of("ix-") != std::string_view::npos) {
        Refuse(StrCat("(?", in_.substr(at_, end - at_)));
      }
    } else if (in_[at_] == '{') {
      // PCRE2's + after a quantifier in braces makes it possessive; Oniguruma's repeats it.
      const size_t end = in_.find_first_not_of("0123456789,", at_ + 1);
      if (end != std::string_view::npos && in_.substr(end).starts_with("}+")) Refuse("a + after {\u2026}");
      if (Here("{,")) out_ += "{0", ++at_;
      if (at_ < in_.size()) Copy(1);
    } else {
      Copy(1);
    }
  }

  std::string_view in_;
  const std::string& source_;
  std::string out_;
  size_t at_ = 0;
  int depth_ = 0;  // of classes
};

std::string Pcre2Message(int error) {
  PCRE2_UCHAR8 message[256] = {};
  pcre2_get_error_message_8(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

MatchMemory::MatchMemory() : data_(pcre2_match_data_create_8(1, nullptr)) {
  if (data_ == nullptr) throw std::bad_alloc();
}
MatchMemory::~MatchMemory() { pcre2_match_data_free_8(static_cast<pcre2_match_data_8*>(data_)); }

SplitPattern::SplitPattern(SplitRule rule, std::string source) : rule_(std::move(rule)), source_(std::move(source)) {
  const std::string& given = rule_.pattern;
  if (given.empty()) Fail(ErrorKind::kData, source_, ": the pattern is empty");
  if (given.size() > kMaxPattern) {
    Fail(ErrorKind::kData, source_, ": the pattern has ", given.size(), " bytes, more than the ", kMaxPattern,
         " allowed");
  }
  if (FindInvalidUtf8(given) != std::string::npos) Fail(ErrorKind::kData, source_, ": the pattern is not UTF-8");
  const std::string pattern = rule_.literal ? given : Translation(given, source_).Run();
  const uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK |
                           (rule_.literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  const std::unique_ptr<pcre2_compile_context_8, decltype(&pcre2_compile_context_free_8)> context(
      pcre2_compile_context_create_8(nullptr), &pcre2_compile_context_free_8);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_ = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), options, &error, &at,
                          context.get());
  if (code_ == nullptr) Fail(ErrorKind::kData, source_, ": ", Quoted(given), ": ", Pcre2Message(error));
  // Where the system gives no memory for code, patterns are interpreted: to the same matches.
  pcre2_jit_compile_8(static_cast<pcre2_code_8*>(code_), PCRE2_JIT_COMPLETE);
}

SplitPattern::SplitPattern(SplitPattern&& other) noexcept
    : rule_(std::move(other.rule_)), source_(std::move(other.source_)), code_(std::exchange(other.code_, nullptr)) {}

SplitPattern::~SplitPattern() { pcre2_code_free_8(static_cast<pcre2_code_8*>(code_)); }

template <typename Visit>
void SplitPattern::ForEachMatch(std::string_view text, MatchMemory* memory, const Visit& visit) const {
  const auto* code = static_cast<const pcre2_code_8*>(code_);
  auto* data = static_cast<pcre2_match_data_8*>(memory->data_);
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer_8(data);
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  size_t at = 0, last = std::string_view::npos;  // the end of the last match
  while (at <= text.size()) {
    int result = pcre2_match_8(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data, nullptr);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match_8(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, nullptr);
    }
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (result < 0) {
      Fail(ErrorKind::kData, source_, ": ", Quoted(rule_.pattern), " cannot be matched with a text of ", text.size(),
           " bytes: ", Pcre2Message(result));
    }
    // \K within a lookahead ends a match before it begins.
    const size_t begin = found[0], end = std::max(found[0], found[1]);
    if (begin == end && end == last) {
      at += at < text.size() ? Utf8Length(text, at) : 1;
      continue;
    }
    visit(begin, end);
    at = last = end;
  }
}

void SplitPattern::Cut(std::string_view text, PieceRange range, MatchMemory* memory,
                       std::vector<PieceRange>* pieces) const {
  const size_t first = pieces->size();
  bool after_match = false;
  const auto open = [&](PieceRange part) { pieces->push_back({range.begin + part.begin, range.begin + part.end}); };
  const auto join = [&](PieceRange part) {
    if (pieces->size() > first) {
      pieces->back().end = range.begin + part.end;
    } else {
      open(part);
    }
  };
  const auto add = [&](PieceRange part, bool is_match) {
    is_match = is_match != rule_.invert;
    switch (rule_.behavior) {
      case SplitBehavior::kRemoved:
        if (!is_match) open(part);
        break;
      case SplitBehavior::kIsolated:
        open(part);
        break;
      case SplitBehavior::kMergedWithPrevious:
        is_match && !after_match ? join(part) : open(part);
        break;
      case SplitBehavior::kMergedWithNext:
        !is_match&& after_match ? join(part) : open(part);
        break;
      case SplitBehavior::kContiguous:
        is_match == after_match ? join(part) : open(part);
        break;
    }
    after_match = is_match;
  };
  size_t done = 0;
  const std::string_view part = text.substr(range.begin, range.end - range.begin);
  ForEachMatch(part, memory, [&](size_t begin, size_t end) {
    if (begin > done) add({done, begin}, false);
    add({begin, end}, true);
    done = end;
  });
  if (done < part.size()) add({done, part.size()}, false);
  pieces->erase(std::remove_if(pieces->begin() + static_cast<std::ptrdiff_t>(first), pieces->end(),
                               [](const PieceRange& piece) { return piece.begin == piece.end; }),
                pieces->end());
}

}  // namespace crosstalk
