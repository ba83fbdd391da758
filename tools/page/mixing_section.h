// The head projections of a model as a section of a page: P_l, P_w and P_l·P_w of every layer as heat maps, with what
// linear algebra says of them, and the sizes of the dynamic projections.
#pragma once

#include <string>

#include "crosstalk/models/training/task_results.h"

namespace crosstalk {

// HTML for Page::AddSection; "" of a model without head projections. At most about 3 MB, however many heads there are:
// of large matrices the means of blocks are drawn, and the section says so.
std::string MixingSection(const RunMixing& mixing);

}  // namespace crosstalk
