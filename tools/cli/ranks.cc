#include "tools/cli/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/processors.h"
#include "tools/cli/mpi_transport.h"
#include "tools/cli/output.h"
#include "tools/cli/signals.h"

namespace crosstalk {

namespace {

struct RankSettings {
  double timeout = 60;
};

FieldTable<RankSettings> RankFields() {
  return {MakeOption("--rank-timeout", &RankSettings::timeout, "SECONDS",
                     "With several ranks (mpirun): one without a sign of life for so long is lost, and all end.",
                     {.range = {1, 1e6}})};
}

// Every rank, or none, throws.
void CheckSameCommand(RankGroup& group, const OptionTable& options) {
  const std::vector<std::string> versions = group.AllGather(Version());
  const std::vector<std::string> given = group.AllGather(options.GivenText({"threads", "simd"}));
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto i = static_cast<size_t>(rank);
    CROSSTALK_CHECK(versions[i] == versions[0], group.NameOf(rank), ": is crosstalk ", versions[i], ", and ",
                    group.NameOf(0), " is ", versions[0]);
    CROSSTALK_CHECK(given[i] == given[0], group.NameOf(rank), ": was given other options than ", group.NameOf(0), ": ",
                    given[i].empty() ? "none" : given[i], ", and not ", given[0].empty() ? "none" : given[0]);
  }
}

// The exit code of an error, which is said.
int Say(const OptionTable& options, const std::string& who) {
  try {
    throw;
  } catch (const Error& error) {
    PrintError((who + options.MessageOf(error)).c_str(), "");
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    PrintError(who.c_str(), "out of memory");
    return static_cast<int>(ErrorKind::kResource);
  } catch (const std::exception& error) {
    PrintError(who.c_str(), error.what());
    return static_cast<int>(ErrorKind::kFailure);
  }
}

int Lead(RankGroup& group, const OptionTable& options, const std::function<int(RankGroup* ranks)>& lead) {
  int code = 0;
  try {
    code = lead(&group);
  } catch (const Interrupted&) {
    if (group.together()) EndRanks(group);
    throw;
  } catch (const std::exception&) {
    if (group.together()) {
      EndRanks(group);
      throw;
    }
    code = Say(options, "");
  }
  if (group.together()) {
    EndRanks(group);
  } else {
    group.transport().Abort(code);
  }
  return code;
}

// Signals are rank 0's to obey: it tells the others.
int Help(RankGroup& group, const OptionTable& options) {
  const StopSignals ignored;
  try {
    ServeRanks(group);
    return 0;
  } catch (const std::exception&) {
    const int code = Say(options, group.NameOf(group.rank()) + ": ");
    group.transport().Abort(code);
    return code;
  }
}

// Of the processors that this process may use, the share of each of so many ranks on the machine: all, where each is
// bound to its own. A control group's quota is for all of them.
int ShareOfProcessors(int ranks_here) {
  const int of_mask = ProcessorsOfMask();
  const bool bound = int64_t{of_mask} * ranks_here <= sysconf(_SC_NPROCESSORS_ONLN);
  const int share = bound ? of_mask : of_mask / ranks_here;
  const std::optional<double> quota = ProcessorQuota();
  const double of_quota = quota ? std::ceil(*quota / ranks_here) : share;
  return std::max(1, std::min(share, static_cast<int>(of_quota)));
}

void SayThatThreadsAreTooMany(int share, int ranks_here) {
  const std::optional<double> quota = ProcessorQuota();
  const bool by_quota = quota && *quota < ProcessorsOfMask();
  PrintMessage("warning: --threads ", NumThreads(), ": ", ranks_here == 1 ? "this process" : "a rank", " may use ",
               share, share == 1 ? " processor" : " processors",
               by_quota ? StrCat(" (its control group has a quota of ", *quota, ")") : "",
               ", on which more threads are slower");
}

}  // namespace

void AddRankOptions(OptionTable& options) { options.AddFields(RankFields()); }

std::string RanksText(const RankGroup* ranks) { return ranks == nullptr ? "" : StrCat(ranks->size(), " ranks of "); }

void SettleThreads(const OptionTable& options, int ranks_here, Warn warn) {
  const int share = ShareOfProcessors(ranks_here);
  if (options.Given("--threads") == nullptr) {
    SetNumThreads(share);
  } else if (warn == Warn::kYes && NumThreads() > share) {
    SayThatThreadsAreTooMany(share, ranks_here);
  }
}

int WithRanks(const OptionTable& options, const std::function<int(RankGroup* ranks)>& lead) {
  if (!StartedByMpi()) return lead(nullptr);
  const std::unique_ptr<MpiTransport> transport = OpenMpiTransport(options.Over(RankFields()).timeout);
  RankGroup group(*transport);
  SettleThreads(options, transport->local_size(), group.leads() ? Warn::kYes : Warn::kNo);
  CheckSameCommand(group, options);
  return group.leads() ? Lead(group, options, lead) : Help(group, options);
}

}  // namespace crosstalk
