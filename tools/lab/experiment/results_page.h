// A table's results as a page and as a figure, of the components of tools/page.
#pragma once

#include <string>

#include "tools/lab/experiment/results.h"

namespace crosstalk {

// report.html: the same bytes for the same results.
std::string ResultsPage(const TableResult& result);
// figure.svg: each row's first measure beside the paper's, as differences from the first row. Empty where nothing is
// measured.
std::string ResultsFigure(const TableResult& result);

}  // namespace crosstalk
