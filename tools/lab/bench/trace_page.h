// A step's trace as a page: one bar an operation, in the order of time, and below it what each thread does.
#pragma once

#include <string>

#include "tools/lab/bench/step_trace.h"

namespace crosstalk {

// `subject`: "t5, talking, 16 heads"; plain text.
std::string TracePage(const StepTrace& trace, const std::string& subject);

}  // namespace crosstalk
