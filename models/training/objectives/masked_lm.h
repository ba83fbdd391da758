// Masked language modelling, the pretraining objective of BERT and ALBERT: which tokens of a row are hidden and what
// stands in their place, and how a pair of segments is cut to length. Source: the create_pretraining_data of BERT's and
// ALBERT's published code, restated in our words; docs/objectives.md has the rules in full.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/random.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Tokens to hide of a row of `length` tokens, special ones counted as in the published code: round half to even of
// length·density, at least 1, at most `most` and `candidates`, the tokens that are not special.
int64_t CountMasked(int64_t length, int64_t candidates, double noise_density, int64_t most);

// Tokens [begin, end) of a row.
struct TokenRun {
  int64_t begin;
  int64_t end;
};

// `count` of the tokens in `runs`, each as likely, ascending. count is at most what the runs hold.
std::vector<int64_t> ChooseTokens(std::span<const TokenRun> runs, int64_t count, RandomSequence& random);

// The words of a segment in a row: from each token of `run` that begins a word (its first always does) to the next.
std::vector<TokenRun> WordsOf(const TokenRun& run, const std::vector<bool>& word_starts);

inline constexpr int64_t kLongestNgram = 3;  // words
// n-grams of whole words that cover at most `budget` tokens, in the order in which they were chosen. Each word in turn,
// in random order, opens one: its length n in 1, 2, 3 is drawn with probability ∝ 1/n (fewer words at a segment's end);
// where it does not fit in what is left of the budget, n falls until it does, and else, or where it meets a token that
// is covered, the word is passed over. An n-gram stays within its segment.
std::vector<TokenRun> ChooseNgrams(std::span<const std::vector<TokenRun>> words_of_segments, int64_t budget,
                                   RandomSequence& random);

// Each token at `positions` for itself: 80 % become `mask`, 10 % one of `ordinary`, each as likely, 10 % stay.
void HideTokens(std::span<const int64_t> positions, int32_t mask, std::span<const int32_t> ordinary,
                RandomSequence& random, std::span<int32_t> ids);
// The ids that may replace a hidden token: all but special tokens and sentinels.
std::vector<int32_t> OrdinaryIds(const Tokenizer& tokenizer);

// Takes one token after the other from the longer one (of equals from b), from either end alike, until both together
// have at most `most`.
void TruncatePair(int64_t most, RandomSequence& random, std::vector<int32_t>& a, std::vector<int32_t>& b);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Masked language modelling as an objective. A row is "[CLS] A [SEP] B [SEP]", or without a sentence task
// "[CLS] A [SEP]", in which tokens of the segments A and B are hidden:
//   inputs            int32[b, n]  n = input_length; padded
//   segments          int32[b, n]  0 up to the first [SEP], 1 from there to the last; 0 at padding
//   masked_positions  int32[b, p]  ascending; 0 after the last
//   masked_targets    int32[b, p]  the tokens that were there; padding after the last
//   sentence_labels   int32[b]     with a sentence task: 0, or 1 where B is from elsewhere or the two are swapped
// p is the most tokens that are hidden in a row, MostMasked(config).

// The field most_masked, or if none is given ⌈noise_density · input_length⌉.
int64_t MostMasked(const ObjectiveConfig& config);

}  // namespace crosstalk
