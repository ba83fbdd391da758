// Several settings, each trained with several seeds, as tables.
#pragma once

#include <string>
#include <vector>

#include "tools/page/run_record.h"

namespace crosstalk {

// Runs that differ in their seed alone are one setting: its last held-out scores as mean and standard deviation, and
// the differences between settings over the seeds that both have. Only runs that took all of their steps count. Empty
// unless some setting has two of them.
std::string SettingsSection(const std::vector<RunRecord>& runs);

}  // namespace crosstalk
