#include "crosstalk/models/text/blanks.h"

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Stands for a blank while the whole is cut into tokens.
constexpr std::string_view kPlaceholder = "\uFFFC";

struct Range {
  int64_t begin, end;
};

}  // namespace

std::vector<std::string> SplitAtBlanks(std::string_view text) {
  std::vector<std::string> texts;
  size_t at = 0;
  while (true) {
    const size_t blank = text.find(kBlank, at);
    texts.emplace_back(text.substr(at, blank - at));
    if (blank == std::string_view::npos) return texts;
    at = std::min(text.find_first_not_of('_', blank), text.size());
  }
}

std::vector<int32_t> EncodeBlanks(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  const auto blanks = static_cast<int>(texts.size()) - 1;
  CROSSTALK_CHECK_FIELD(blanks <= tokenizer.num_sentinels(), "text", "has ", blanks, " blanks, but the model knows ",
                        tokenizer.num_sentinels(), " sentinels");
  std::string whole;
  std::vector<Range> ranges;  // of the blanks, spaces before them included
  for (size_t k = 0; k < texts.size(); ++k) {
    whole += texts[k];
    if (k + 1 == texts.size()) break;
    const size_t last = whole.find_last_not_of(' ');
    const auto begin = static_cast<int64_t>(last == std::string::npos ? 0 : last + 1);
    whole += kPlaceholder;
    ranges.push_back({begin, static_cast<int64_t>(whole.size())});
  }
  std::vector<int32_t> ids;
  size_t next = 0;  // blank
  for (const TokenSpan& token : tokenizer.EncodeSpans(whole)) {
    while (next < ranges.size() && token.end > ranges[next].begin) {
      ids.push_back(tokenizer.Sentinel(static_cast<int>(next++)));
    }
    const bool hidden = next > 0 && token.begin < ranges[next - 1].end;
    if (!hidden) ids.push_back(token.id);
  }
  while (next < ranges.size()) ids.push_back(tokenizer.Sentinel(static_cast<int>(next++)));
  ids.push_back(tokenizer.special_tokens().end);
  return ids;
}

std::string MakeBlanks(const std::string& text) {
  constexpr size_t kPassage = 240, kWordsBetween = 6, kShortest = 3;  // bytes; words; bytes of a word
  std::string passage;
  size_t words = 0;
  for (size_t i = 0; i < text.size() && passage.size() < kPassage;) {
    size_t end = i;
    while (end < text.size() && !IsAsciiSpace(text[end])) ++end;
    // The word without what stands around its letters.
    size_t first = i, last = end;
    const auto is_letter = [&](size_t at) {
      const auto c = static_cast<unsigned char>(text[at]);
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
    };
    while (first < last && !is_letter(first)) ++first;
    while (last > first && !is_letter(last - 1)) --last;
    const bool blank = ++words > kWordsBetween && last - first >= kShortest;
    if (blank) words = 0;
    passage += text.substr(i, first - i);
    passage += blank ? std::string(kBlank) : text.substr(first, last - first);
    passage += text.substr(last, end - last);
    while (end < text.size() && IsAsciiSpace(text[end])) ++end;
    if (end < text.size()) passage += ' ';
    i = end;
  }
  while (!passage.empty() && passage.back() == ' ') passage.pop_back();
  return passage;
}

}  // namespace crosstalk
