// How much of a machine's processors the process may use: its affinity mask, and the quotas of its control groups.
#pragma once

#include <optional>
#include <string>

namespace crosstalk {

// The processors in the affinity mask, also where OpenMP has bound the calling thread to some of them.
int ProcessorsOfMask();

// The processors whose time the control groups of this process grant it, 1.5 for one: the least of its own group's
// quota and those of the groups above, by cpu.max (version 2) or cpu.cfs_quota_us (version 1). None where nothing
// limits it, or that cannot be told. `root` comes before the system's paths.
std::optional<double> ProcessorQuota(const std::string& root = "");

}  // namespace crosstalk
