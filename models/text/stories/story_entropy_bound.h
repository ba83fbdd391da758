// StoryEntropyBound: a lower bound on the loss of any model that restores hidden tokens of a built-in story.
#pragma once

#include <vector>

#include "crosstalk/models/text/stories/story_writer.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// Lower bound, in expectation, on the total negative log-likelihood that any model can reach on the targets of a
// corrupted example cut from the beginning of `story`: hidden[i] says whether token tokens[i] was hidden.
// It is the entropy of the words drawn whose every mention in the tokens is hidden, given everything else that was
// drawn, the places of the spans, and the number of tokens of each word: information that a model does not have in
// full. Left out, so the bound is not tight: hidden choices of what kind of sentence comes next, words half hidden,
// counts that also occur in a sum, and where each hidden span ends.
class StoryEntropyBound {
 public:
  explicit StoryEntropyBound(const Tokenizer& tokenizer);
  double Nats(const Story& story, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden) const;

 private:
  std::vector<std::vector<std::vector<int>>> token_counts_;  // [table][row][form]
};

}  // namespace crosstalk
