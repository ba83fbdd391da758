// How a task's texts become an encoder's rows, to learn from and to answer alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "crosstalk/models/text/pair_encoding.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

// Windows of up to `room` tokens, `stride` apart, or `room` where that is less, until one ends with the passage. An
// empty passage has an empty one. As in BERT's code.
std::vector<PassageWindow> LayWindows(int64_t tokens, int64_t room, int64_t stride);

// A tokenizer and the form of its rows. Both must outlive it. Error(kUsage) of the field "tokenizer" for one without
// [CLS] or [SEP].
class EncoderRows {
 public:
  EncoderRows(const Tokenizer& tokenizer, const EncoderTaskOptions& options);

  // [CLS] A [SEP] or [CLS] A [SEP] B [SEP], cut from the longer one's end.
  EncodedPair Texts(std::span<const TokenSpan> first, std::optional<std::span<const TokenSpan>> second) const;

  // Of a question and a passage. Error(kUsage) of the field "input_length" where no token of a passage fits.
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
