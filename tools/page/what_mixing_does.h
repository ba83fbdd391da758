// What the mixing of heads does in a trained model, for someone who sees it for the first time: how much of what the
// heads say crosses to others, and the most mixed head on a sentence, J → L → W → U.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/task_results.h"

namespace crosstalk {

// Plain sentences; "" of a model without static head projections.
std::string CrossingText(const RunMixing& mixing);

// HTML for Page::AddSection: those sentences, and maps of what `model` makes of `text`; "" where there is no
// CrossingText. The text is cut to some two dozen tokens; without one, or without a tokenizer, there are no maps.
std::string WhatMixingDoes(const RunMixing& mixing, const Model& model,
                           const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& text);

}  // namespace crosstalk
