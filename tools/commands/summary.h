// A table's reproducibility summary: what was claimed, how it was tested and what was found, under the headings that
// reproducibility venues ask for.
#pragma once

#include <string>

#include "tools/lab/experiment/results.h"

namespace crosstalk {

// Markdown.
std::string ReproducibilitySummary(const TableResult& result);

}  // namespace crosstalk
