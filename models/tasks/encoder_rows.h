// How a task's texts become an encoder's rows, to learn from and to answer alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/tokenizer.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The defaults of spans are the published ones.
struct EncoderTaskOptions {
  int64_t input_length = 384;   // tokens of a row, special ones counted
  int64_t window_stride = 128;  // tokens of a passage from the begin of a window to that of the next
  int64_t query_length = 64;    // of a question; the rest is cut off
  int64_t answer_length = 30;   // of an answer that is found
  int64_t best_ends = 20;       // of a window, the likeliest starts, and as many ends, that are paired

  // Error(kUsage) of the field that cannot be.
  void Validate() const;
};

// Tokens [begin, end) of a passage.
struct PassageWindow {
  int64_t begin, end;
};

// Windows of up to `room` tokens, `stride` apart, or `room` if that is less, until one ends with the passage. An
// empty passage has an empty one. As in BERT's code.
std::vector<PassageWindow> LayWindows(int64_t tokens, int64_t room, int64_t stride);

// A tokenizer and the form of its rows. Both must outlive it. Error(kUsage) of the field "tokenizer" for one without
// [CLS] or [SEP].
class EncoderRows {
 public:
  EncoderRows(const Tokenizer& tokenizer, const EncoderTaskOptions& options);

  // [CLS] A [SEP] or [CLS] A [SEP] B [SEP], cut from the longer one's end.
  EncodedPair Texts(std::span<const TokenSpan> first, std::optional<std::span<const TokenSpan>> second) const;

  // The windows of a question and a passage. Error(kUsage) of the field "input_length" if no token of a passage fits.
  std::vector<PassageWindow> Windows(int64_t question, int64_t passage) const;  // their numbers of tokens
  // [CLS] question [SEP] window [SEP].
  EncodedPair Window(std::span<const TokenSpan> question, std::span<const TokenSpan> passage,
                     const PassageWindow& window) const;
  // Where a window's first token stands in its row.
  int64_t PassageAt(int64_t question) const { return 2 + Asked(question); }

 private:
  // Tokens of a question that are read.
  int64_t Asked(int64_t question) const { return question < options_.query_length ? question : options_.query_length; }

  const Tokenizer& tokenizer_;
  EncoderTaskOptions options_;
};

// The tokens that share a byte with [begin, end) of their text; nothing where none does.
std::optional<PassageWindow> TokensOf(std::span<const TokenSpan> tokens, int64_t begin, int64_t end);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The best valid span over the windows of a passage, from what a span head says of each.

// A window's row. [CLS] is its first token.
struct WindowScores {
  PassageWindow window;
  int64_t passage_at = 0;            // the place in the row of the window's first token
  std::vector<double> starts, ends;  // logits of the row's tokens, padding left out
};

struct BestSpan {
  std::optional<PassageWindow> tokens;  // of the passage; nothing if that has none
  double score = 0;                     // its start's logit + its end's
  double none = 0;                      // the least start + end logit of [CLS], of all windows
};

// In each window, the options.best_ends likeliest starts of the whole row are paired with as many ends. A pair is valid
// if it is within the passage, its start not after its end, no longer than answer_length, and its start has most
// context in this window. (As in BERT's code: its end may have more in another, else no answer could reach from one
// such region to the next.) Where no window has a valid pair, all starts are paired with all ends. The best has the
// highest score, then the earliest start, then the earliest end. Of equal logits the earlier place is the likelier.
BestSpan FindBestSpan(std::span<const WindowScores> windows, const EncoderTaskOptions& options);

// The window in which each token of the passage has most context, as published: the tokens on its shorter side + 0.01 ·
// the window's; of equal ones the earlier.
std::vector<int64_t> WindowsOfMostContext(std::span<const WindowScores> windows);

// The passage's text at these tokens, in its own characters: whole ones, with the accents after them that no token
// covers, without white space around.
std::string SpanText(std::string_view passage, std::span<const TokenSpan> tokens, const PassageWindow& span);

}  // namespace crosstalk
