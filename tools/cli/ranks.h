// A command whose work several ranks share, as mpirun starts them: rank 0 is the command, the others help it.
#pragma once

#include <functional>
#include <string>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

// "--rank-timeout".
void AddRankOptions(OptionTable& options);

enum class Warn { kNo, kYes };
// The threads of a command that computes, on each of so many ranks of this machine: its share of the processors that
// the process may use, unless --threads says more or less. More than that are slower: a line of warning.
void SettleThreads(const OptionTable& options, int ranks_here, Warn warn);

// Alone lead(nullptr). Of several ranks, rank 0 returns lead(group), and each other takes part in what that asks for
// until it ends, and returns 0. Error(kUsage) where the ranks were given different options or are of different
// versions. An error that cuts off what ranks do together ends the processes of all, with its exit code.
int WithRanks(const OptionTable& options, const std::function<int(RankGroup* ranks)>& lead);

// "3 ranks of ", for people; alone nothing.
std::string RanksText(const RankGroup* ranks);

}  // namespace crosstalk
