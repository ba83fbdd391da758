// The runs of a command that differ in their seed alone, FOLDER/seed-1, seed-2, …, and the summary of their scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The inputs that decide a run's bits besides its configuration, as its run.json has it: the text or rows, and the
// weights that it began with.
std::string InputsOf(const Json& run_file);

std::string SeedFolder(const std::string& folder, uint64_t seed);

// Error where the folder holds anything but runs of seeds and their summary (kUsage), or a run whose configuration is
// another than `config`, the seed aside (kData, as of any run).
void CheckFolderOfSeeds(const std::string& folder, const TrainingConfig& config);

// A finished run.
struct SeedRun {
  uint64_t seed;
  std::string folder;
  Json scores;  // its scores.json, checked
};
SeedRun FinishedRun(uint64_t seed, const std::string& folder);
// `done` and the other finished runs of the folder that saw the same rows and began with the same weights, by seed.
// Says which are left out.
std::vector<SeedRun> WithEarlierSeeds(const std::string& folder, std::vector<SeedRun> done);

// {"score": {"mean", "deviation", "seeds"}, "tasks": {NAME: {MEASURE: {"mean", …}, …, "constant_guess"}}, "runs": […]};
// "seeds" is how many have the measure; null where none has.
Json SeedsJson(const std::vector<SeedRun>& runs);
// The same as a table.
std::string SeedsText(const Json& summary);

}  // namespace crosstalk
