// Training of a byte-pair encoding: byte-level, with GPT-2's pattern.
#pragma once

#include <cstdint>
#include <memory>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

inline constexpr int kSmallestBpeVocabulary = 262;  // 5 special tokens, 256 bytes and a merge

struct BpeTraining {
  int vocab_size = 1000;                  // ids before the sentinels are added; fewer come out of a poor text
  int64_t max_sample_bytes = 64'000'000;  // bound on the text that is looked at
  MaskTokens mask_tokens = MaskTokens::kNo;
};

// Learns one on a part of a corpus (the training part), on all of it or on evenly spread segments, as TrainTokenizer
// (sentencepiece_training.h) does. The ids are <pad> 0 and </s> 1, [CLS], [SEP] and [MASK] where asked for, the 256
// bytes in the order of their alphabet's characters, the pieces that merges make, and the sentinels on top.
//
// Each step merges the two pieces that stand beside each other most often within the words of GPT-2's pattern; of equal
// counts the pair with the lowest left id, then right id. A run of three equal pieces counts as two such pairs. It ends
// where no pair stands there twice. One thread does it, so that the result is the same on every machine.
//
// Error(kUsage) of the field "vocabulary" for an impossible size, Error(kData) if the sample has no text, Interrupted
// where `stop` says so.
std::shared_ptr<const Tokenizer> TrainBpeTokenizer(const TextSource& source, const BpeTraining& options,
                                                   int num_sentinels = kDefaultSentinels, const StopRequest& stop = {});

}  // namespace crosstalk
