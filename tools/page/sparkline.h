// A curve in one line of a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "tools/page/curve.h"

namespace crosstalk {

enum class SparklineStyle { kBlocks, kAscii };

// "▇▅▃▂▁": at most `width` characters, each the mean of its part of the x axis, from the least to the largest. A part
// without a value is between its neighbours, and a space after one that is not finite. Empty of a series without any.
std::string Sparkline(const Series& series, size_t width, SparklineStyle style);

// Blocks where the locale's characters are UTF-8 (LC_ALL, LC_CTYPE, LANG).
SparklineStyle SparklineStyleOfLocale();

}  // namespace crosstalk
