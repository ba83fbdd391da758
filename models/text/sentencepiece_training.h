// Training of a SentencePiece tokenizer, with T5's special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

inline constexpr int kSmallestSentencePieceVocabulary = 320;  // 3 special tokens, 256 bytes and some letters

struct SentencePieceTraining {
  int vocab_size = 1000;                 // ids before the sentinels are added; fewer come out of a poor text
  int64_t max_sample_bytes = 4'000'000;  // bound on the text that is looked at
  LineEnds line_ends = LineEnds::kSpaces;
  MaskTokens mask_tokens = MaskTokens::kNo;  // kYes: the control pieces [CLS] 3, [SEP] 4, [MASK] 5, counted in the size
};
// Trains a unigram model with byte fallback on one thread, deterministically, and returns the `.model` bytes.
// `next_segment(text)` gives the next segment of sample text, false at the end; segments are cut into sentences at
// line ends. Throws Error(kUsage) of the field "vocabulary" for an impossible size, Error(kData)
// if the sample has no text, Interrupted where `stop` says so. The library's training cannot be ended: with a `stop` it
// has a thread, which then goes on alone to its end, and whose result is dropped.
std::string TrainSentencePieceModel(const SentencePieceTraining& options,
                                    const std::function<bool(std::string* text)>& next_segment,
                                    const StopRequest& stop = {});

// Trains a SentencePiece tokenizer on a part of a corpus (the training part, so that nothing of the validation part is
// seen): on all of it, or evenly spread segments if it is longer than options.max_sample_bytes; of a source without
// an end, on at most the first 1,000,000 bytes' worth.
std::shared_ptr<const Tokenizer> TrainTokenizer(const TextSource& source, const SentencePieceTraining& options,
                                                int num_sentinels = kDefaultSentinels, const StopRequest& stop = {});

}  // namespace crosstalk
#pragma GCC visibility pop
