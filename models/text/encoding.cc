#include "crosstalk/models/text/encoding.h"

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// A's and B's lengths, cut down to `most` together.
void Truncate(int64_t most, Truncation truncation, int64_t* first, int64_t* second) {
  const int64_t excess = *first + *second - most;
  if (excess <= 0) return;
  const auto refuse = [&](const auto&... parts) {
    FailField(ErrorKind::kUsage, "max_length", "the text is ", excess, " tokens too long", parts...);
  };
  switch (truncation) {
    case Truncation::kNone:
      return refuse();
    case Truncation::kOnlyFirst:
      if (*first < excess) refuse(", and its first part has only ", *first, " to give");
      *first -= excess;
      return;
    case Truncation::kOnlySecond:
      if (*second < excess) refuse(", and its second part has only ", *second, " to give");
      *second -= excess;
      return;
    case Truncation::kLongestFirst: {
      if (most < 0) refuse(": its special tokens alone are");
      int64_t* longer = *first > *second ? first : second;
      int64_t* shorter = longer == first ? second : first;
      *longer -= std::min(excess, *longer - *shorter);
      const int64_t left = *first + *second - most;
      if (left <= 0) return;
      *first -= left / 2;
      *second -= left - left / 2;
      return;
    }
  }
}

}  // namespace

PairTemplate TemplateOf(const Tokenizer& tokenizer, int texts) {
  CROSSTALK_CHECK(texts == 1 || texts == 2, "pair encoding: ", texts, " texts; must be 1 or 2");
  PairTemplate own = tokenizer.OwnTemplate(texts);
  return own.empty() ? TemplateOf(tokenizer.special_tokens(), texts) : own;
}

PairTemplate TemplateOf(const SpecialTokens& special, int texts) {
  const bool bert = special.begin != kNoToken && special.separator != kNoToken;
  PairTemplate form;
  if (bert) form.push_back({-1, special.begin, 0});
  for (int text = 0; text < texts; ++text) {
    const int32_t segment = bert ? text : 0;
    form.push_back({text, kNoToken, segment});
    form.push_back({-1, bert ? special.separator : special.end, segment});
  }
  return form;
}

std::vector<int32_t> TokensBeforeText(const Tokenizer& tokenizer) {
  std::vector<int32_t> before;
  for (const TemplatePart& part : tokenizer.OwnTemplate(1)) {
    if (part.text >= 0) break;
    before.push_back(part.id);
  }
  return before;
}

EncodedPair JoinPair(const Tokenizer& tokenizer, std::span<const TokenSpan> first,
                     std::optional<std::span<const TokenSpan>> second, const PairOptions& options) {
  const PairTemplate form = TemplateOf(tokenizer, second ? 2 : 1);
  const std::span<const TokenSpan> texts[2] = {first, second.value_or(std::span<const TokenSpan>())};
  EncodedPair pair;
  pair.kept[0] = static_cast<int64_t>(texts[0].size());
  pair.kept[1] = static_cast<int64_t>(texts[1].size());
  if (options.max_length) {
    const int64_t special = std::count_if(form.begin(), form.end(), [](const TemplatePart& p) { return p.text < 0; });
    Truncate(*options.max_length - special, options.truncation, &pair.kept[0], &pair.kept[1]);
  }
  for (const TemplatePart& part : form) {
    if (part.text < 0) {
      pair.tokens.push_back({part.id, part.segment, -1, 0, 0});
      continue;
    }
    const auto kept = static_cast<size_t>(pair.kept[part.text]);
    for (const TokenSpan& token : texts[part.text].first(kept)) {
      pair.tokens.push_back({token.id, part.segment, part.text, token.begin, token.end});
    }
  }
  return pair;
}

EncodedPair EncodePair(const Tokenizer& tokenizer, std::string_view first, std::optional<std::string_view> second,
                       const PairOptions& options) {
  const std::vector<TokenSpan> a = tokenizer.EncodeSpans(first);
  if (!second) return JoinPair(tokenizer, a, std::nullopt, options);
  const std::vector<TokenSpan> b = tokenizer.EncodeSpans(*second);
  return JoinPair(tokenizer, a, b, options);
}

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
