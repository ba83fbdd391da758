// Runs' configurations as tables, by the rows of TrainingFields().
#pragma once

#include <string>
#include <vector>

#include "tools/page/run_record.h"

namespace crosstalk {

// The fields that differ from their defaults, then all of them. Empty where they are not known.
std::string ConfigurationTable(const RunRecord& run);

// The fields in which runs differ, a column each; a sentence where they do in none.
std::string ConfigurationDifferences(const std::vector<RunRecord>& runs);
// Those in which they do not.
std::string SharedConfiguration(const std::vector<RunRecord>& runs);

}  // namespace crosstalk
