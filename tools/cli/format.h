// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace crosstalk {

// "43 s", "2 min 05 s", "3 h 12 min".
std::string DurationText(double seconds);
// "8 ms", "3 days", "180 years": an estimate has no more than two digits that mean anything.
std::string EstimateText(double seconds);
// "1,234,567".
std::string CountText(int64_t count);
// "1 step", "4,000 steps".
std::string StepsText(int64_t steps);
// 3.14159 with 2 digits is "3.14", at most 40 digits; 1e15 and more, which have none to show, are "1.23457e+15".
std::string FixedText(double value, int digits);
// "1.5 GB", powers of 1000.
std::string BytesText(int64_t bytes);
// 'a word' as a shell reads it back, whatever stands in it.
std::string ShellQuoted(const std::string& word);

}  // namespace crosstalk
