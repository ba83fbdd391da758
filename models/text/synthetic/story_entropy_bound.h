// A lower bound on the loss of any model that restores hidden tokens of a built-in story.
#pragma once

#include <vector>

#include "crosstalk/models/text/synthetic/story_writer.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// In nats: a lower bound, in expectation, on the negative log-likelihood that any model can reach on the hidden ones of
// `tokens`, which are cut from the beginning of `story`; hidden[i] says whether tokens[i] is hidden.
// It is the entropy of the words drawn whose every mention in the tokens is hidden, given everything else that was
// drawn, which tokens are hidden, and the number of tokens of each word: information that a model does not have in
// full. Left out, so the bound is not tight: hidden choices of what kind of sentence comes next, words half hidden,
// counts that also occur in a sum, and where each hidden span ends.
double StoryEntropyBound(const Story& story, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden,
                         const Tokenizer& tokenizer);

}  // namespace crosstalk
