#include "crosstalk/models/tasks/encoder_rows.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

void EncoderTaskOptions::Validate() const {
  const auto at_least_1 = [](const char* name, int64_t value) {
    CROSSTALK_CHECK_FIELD(value >= 1, name, value, " is less than 1");
  };
  CROSSTALK_CHECK_FIELD(input_length >= 3, "input_length", input_length,
                        " is less than 3, the special tokens of a pair of texts");
  at_least_1("window_stride", window_stride);
  CROSSTALK_CHECK_FIELD(query_length >= 0, "query_length", query_length, " is less than 0");
  at_least_1("answer_length", answer_length);
  at_least_1("best_ends", best_ends);
}

std::vector<PassageWindow> LayWindows(int64_t tokens, int64_t room, int64_t stride) {
  CROSSTALK_DCHECK(room >= 1 && stride >= 1);
  std::vector<PassageWindow> windows;
  for (int64_t begin = 0;; begin += std::min(room, stride)) {
    windows.push_back({begin, std::min(tokens, begin + room)});
    if (windows.back().end == tokens) return windows;
  }
}

EncoderRows::EncoderRows(const Tokenizer& tokenizer, const EncoderTaskOptions& options)
    : tokenizer_(tokenizer), options_(options) {
  options_.Validate();
  const SpecialTokens& tokens = tokenizer.special_tokens();
  for (const auto& [name, id] : {std::pair("[CLS]", tokens.begin), {"[SEP]", tokens.separator}}) {
    CROSSTALK_CHECK_FIELD(id != kNoToken, "tokenizer", "the ", tokenizer.kind(), " tokenizer has no ", name,
                          " token, which an encoder's rows need");
  }
}

EncodedPair EncoderRows::Texts(std::span<const TokenSpan> first,
                               std::optional<std::span<const TokenSpan>> second) const {
  return JoinPair(tokenizer_, first, second,
                  {.max_length = options_.input_length, .truncation = Truncation::kLongestFirst});
}

std::vector<PassageWindow> EncoderRows::Windows(int64_t question, int64_t passage) const {
  const int64_t taken = PassageAt(question) + 1;
  CROSSTALK_CHECK_FIELD(taken < options_.input_length, "input_length", options_.input_length,
                        " leaves no room for a passage: a question of ", Asked(question),
                        " tokens and the special ones take ", taken);
  return LayWindows(passage, options_.input_length - taken, options_.window_stride);
}

EncodedPair EncoderRows::Window(std::span<const TokenSpan> question, std::span<const TokenSpan> passage,
                                const PassageWindow& window) const {
  const auto asked = static_cast<size_t>(Asked(std::ssize(question)));
  return JoinPair(tokenizer_, question.first(asked),
                  passage.subspan(static_cast<size_t>(window.begin), static_cast<size_t>(window.end - window.begin)),
                  {.max_length = options_.input_length});
}

std::optional<PassageWindow> TokensOf(std::span<const TokenSpan> tokens, int64_t begin, int64_t end) {
  const auto shares = [&](const TokenSpan& token) { return token.begin < end && token.end > begin; };
  const auto first = std::find_if(tokens.begin(), tokens.end(), shares);
  if (first == tokens.end()) return std::nullopt;
  const auto last = std::find_if(tokens.rbegin(), tokens.rend(), shares).base();
  return PassageWindow{first - tokens.begin(), last - tokens.begin()};
}

namespace {

// The places of the `count` largest, the largest first, of equal ones the earlier.
std::vector<int64_t> Likeliest(const std::vector<double>& logits, int64_t count) {
  std::vector<int64_t> places(logits.size());
  std::iota(places.begin(), places.end(), 0);
  const auto end = places.begin() + std::min(count, std::ssize(places));
  std::partial_sort(places.begin(), end, places.end(),
                    [&](int64_t a, int64_t b) { return std::tuple(-logits[a], a) < std::tuple(-logits[b], b); });
  places.erase(end, places.end());
  return places;
}

// The best pair of the `count` likeliest of each window, into `best`.
void FindAmong(std::span<const WindowScores> windows, const std::vector<int64_t>& most_context, int64_t count,
               int64_t answer_length, BestSpan* best) {
  for (size_t w = 0; w < windows.size(); ++w) {
    const WindowScores& scores = windows[w];
    const PassageWindow& window = scores.window;
    const std::vector<int64_t> ends = Likeliest(scores.ends, count);
    for (const int64_t start_place : Likeliest(scores.starts, count)) {
      const int64_t start = window.begin + start_place - scores.passage_at;
      if (start < window.begin || start >= window.end || most_context[start] != static_cast<int64_t>(w)) continue;
      for (const int64_t end_place : ends) {
        const int64_t end = window.begin + end_place - scores.passage_at + 1;
        if (end <= start || end > window.end || end - start > answer_length) continue;
        const double score = scores.starts[start_place] + scores.ends[end_place];
        if (!best->tokens ||
            std::tuple(-score, start, end) < std::tuple(-best->score, best->tokens->begin, best->tokens->end)) {
          best->tokens = PassageWindow{start, end};
          best->score = score;
        }
      }
    }
  }
}

bool IsMark(const TracedCharacter& character) {
  TracedText text = {character};
  Apply({RewriteKind::kRemoveMarks}, &text);
  return text.empty();
}

}  // namespace

std::vector<int64_t> WindowsOfMostContext(std::span<const WindowScores> windows) {
  std::vector<int64_t> best(windows.empty() ? 0 : windows.back().window.end);
  std::vector<int64_t> context(best.size(), -1);
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto [begin, end] = windows[w].window;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t here = 100 * std::min(i - begin, end - 1 - i) + (end - begin);
      if (here <= context[i]) continue;
      context[i] = here;
      best[i] = static_cast<int64_t>(w);
    }
  }
  return best;
}

BestSpan FindBestSpan(std::span<const WindowScores> windows, const EncoderTaskOptions& options) {
  CROSSTALK_DCHECK(!windows.empty());
  BestSpan best;
  best.none = windows[0].starts[0] + windows[0].ends[0];
  for (const WindowScores& window : windows) best.none = std::min(best.none, window.starts[0] + window.ends[0]);
  const std::vector<int64_t> most_context = WindowsOfMostContext(windows);
  FindAmong(windows, most_context, options.best_ends, options.answer_length, &best);
  if (!best.tokens) FindAmong(windows, most_context, INT64_MAX, options.answer_length, &best);
  return best;
}

std::string SpanText(std::string_view passage, std::span<const TokenSpan> tokens, const PassageWindow& span) {
  int64_t begin = tokens[span.begin].begin, end = tokens[span.end - 1].end;
  const int64_t size = std::ssize(passage);
  while (begin > 0 && begin < size && IsUtf8Continuation(passage[begin])) --begin;
  while (end < size && IsUtf8Continuation(passage[end])) ++end;
  const int64_t next = span.end < std::ssize(tokens) ? std::max(end, tokens[span.end].begin) : size;
  for (const TracedCharacter& character : TraceText(passage, end, next)) {
    if (!IsMark(character)) break;
    end = character.end;
  }
  const TracedText text = TraceText(passage, begin, end);
  const auto is_text = [](const TracedCharacter& character) { return !IsWhiteSpace(character.code); };
  const auto first = std::find_if(text.begin(), text.end(), is_text);
  if (first == text.end()) return "";
  begin = first->begin;
  end = std::find_if(text.rbegin(), text.rend(), is_text)->end;
  return std::string(passage.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

}  // namespace crosstalk
