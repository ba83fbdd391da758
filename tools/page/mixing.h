// How a model's heads mix, on a page.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/task_results.h"

namespace crosstalk {

// The head projections of a model as a section of a page: P_l, P_w and P_l·P_w of every layer as heat maps, with what
// linear algebra says of them, and the sizes of the dynamic projections.

// HTML for Page::AddSection; "" of a model without head projections. At most about 3 MB, however many heads there are:
// of large matrices the means of blocks are drawn, and the section says so.
std::string MixingSection(const RunMixing& mixing);

// What the mixing of heads does in a trained model, for someone who sees it for the first time: the share of
// P_l·P_w off its diagonal, and the most mixed head on a sentence, J → L → W → U.

// Two lines of sentences; "" of a model without static head projections.
std::string CrossingText(const RunMixing& mixing);

// HTML for Page::AddSection: those sentences, and maps of what `model` makes of `text`; "" without
// CrossingText. The text is cut to some two dozen tokens; without one, or without a tokenizer, there are no maps.
std::string WhatMixingDoes(const RunMixing& mixing, const Model& model,
                           const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& text);

}  // namespace crosstalk
