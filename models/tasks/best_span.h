// The best valid span over the windows of a passage, from what a span head says of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// A window's row. [CLS] is its first token.
struct WindowScores {
  PassageWindow window;
  int64_t passage_at = 0;            // the place in the row of the window's first token
  std::vector<double> starts, ends;  // logits of the row's tokens, padding left out
};

struct BestSpan {
  std::optional<PassageWindow> tokens;  // of the passage; nothing where that has none
  double score = 0;                     // its start's logit + its end's
  double none = 0;                      // the least start + end logit of [CLS], of all windows
};

// Of a window, the options.best_ends likeliest starts of the whole row are paired with as many ends. A pair is valid if
// it is within the passage, its start not after its end, no longer than answer_length, and its start has most context
// in this window. (As in BERT's code: its end may have more in another, else no answer could reach from one such region
// to the next.) Where no window has a valid pair, all starts are paired with all ends. The best has the highest score,
// then the earliest start, then the earliest end. Of equal logits the earlier place is the likelier.
BestSpan FindBestSpan(std::span<const WindowScores> windows, const EncoderTaskOptions& options);

// The window in which each token of the passage has most context, as published: the tokens on its shorter side + 0.01 ·
// the window's; of equal ones the earlier.
std::vector<int64_t> WindowsOfMostContext(std::span<const WindowScores> windows);

// The passage's text at these tokens, in its own characters: whole ones, with the accents after them that no token
// covers, without white space around.
std::string SpanText(std::string_view passage, std::span<const TokenSpan> tokens, const PassageWindow& span);

}  // namespace crosstalk
