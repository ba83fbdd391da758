// A step's trace as a table of text.
#pragma once

#include <string>

#include "tools/lab/bench/step_trace.h"

namespace crosstalk {

std::string TraceText(const StepTrace& trace);

// "46.2 ms, 4.03 GFLOP, 39.0 % of the peak".
std::string TraceSummary(const StepTrace& trace);
// Of the gradients of other ranks, where there are some: "38.0 ms, 42.7 MB, 97.1 % of the time overlapped with
// backward".
std::string MessagesText(const StepTrace& trace);
// "12.3 %".
std::string PercentText(double share);
// Of the group's products, of the time that they take: "81.2 %", empty where there are none.
std::string ProductShareText(const StepTrace& trace, const OpGroup& group);

}  // namespace crosstalk
