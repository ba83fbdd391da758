#include "tools/cli/ranks.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/processors.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {
namespace {

// A variable's positive number, or 0.
int NumberIn(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return 0;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? number : 0;
}

std::filesystem::path PluginPath() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"lib", "../lib/crosstalk", "../lib"}) {
    const std::filesystem::path path = folder / place / "libcrosstalk_mpi.so";
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  Fail(ErrorKind::kUsage, "this is one of ", MpiSizeFromEnvironment(),
       " processes that mpirun or srun has started, but there is no libcrosstalk_mpi.so in ", (folder / "lib").string(),
       " or ", (folder / "../lib/crosstalk").lexically_normal().string(),
       "; the package crosstalk-mpi has it, and `make mpi` builds it (it needs the packages libopenmpi-dev and "
       "openmpi-bin), or start crosstalk by itself");
}

}  // namespace

int MpiSizeFromEnvironment() {
  // Open MPI's mpirun; MPICH's mpiexec and others of its family.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const int size = NumberIn(variable); size > 0) return size;
  }
  // srun --mpi=pmix. Without PMIx its tasks know nothing of each other.
  if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("PMIX_RANK") != nullptr) {
    if (const int size = NumberIn("SLURM_STEP_NUM_TASKS"); size > 0) return size;
  }
  return 1;
}

bool StartedByMpi() { return MpiSizeFromEnvironment() > 1; }

std::string MpiTransport::host(int rank) const {
  CheckPeer(rank, 0);
  return mpi_.host(rank);
}

void MpiTransport::CheckPeer(int rank, int tag) const {
  CROSSTALK_CHECK(rank >= 0 && rank < size(), "there is no rank ", rank, " among ", size());
  CROSSTALK_CHECK(tag >= 0 && tag <= mpi_.largest_tag(), "the tag ", tag, " is not one of 0 to ", mpi_.largest_tag());
}

Transport::Request MpiTransport::Send(int to, int tag, std::span<const std::byte> bytes) {
  CheckPeer(to, tag);
  return mpi_.send(to, tag, bytes.data(), bytes.size());
}

Transport::Request MpiTransport::Receive(int from, int tag, std::span<std::byte> bytes) {
  CheckPeer(from, tag);
  return mpi_.receive(from, tag, bytes.data(), bytes.size());
}

size_t MpiTransport::Wait(Request request) {
  size_t received = 0;
  if (const char* error = mpi_.wait(request, &received)) Fail(ErrorKind::kFailure, "MPI: ", error);
  return received;
}

void MpiTransport::Abort(int code) {
  mpi_.abort(code);
  std::_Exit(code);
}

std::unique_ptr<MpiTransport> OpenMpiTransport(double timeout_seconds, size_t piece_bytes) {
  CROSSTALK_CHECK(timeout_seconds >= 0, "a rank's time-out of ", timeout_seconds, " s is negative");
  CROSSTALK_CHECK(piece_bytes >= 1 && piece_bytes <= kMpiPieceBytes, "pieces of ", piece_bytes, " bytes");
  const std::string path = PluginPath().string();
  // MPI's own plug-ins look for its symbols among those that everybody sees.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    Fail(ErrorKind::kUsage, "cannot load ", path, ": ", dlerror(),
         "; is MPI installed (the package openmpi-bin), and is it the one that `make mpi` was built with?");
  }
  const auto open = reinterpret_cast<decltype(&crosstalk_mpi_open)>(dlsym(library, "crosstalk_mpi_open"));
  CROSSTALK_CHECK(open != nullptr, path, " is not a plug-in of crosstalk; `make mpi` builds it");
  const CrosstalkMpiOptions options = {CROSSTALK_MPI_VERSION, timeout_seconds, piece_bytes};
  char error[512] = "";
  int code = 0;
  const CrosstalkMpi* mpi = open(&options, error, sizeof error, &code);
  if (mpi == nullptr) Fail(code == 5 ? ErrorKind::kResource : ErrorKind::kFailure, path, ": ", error);
  auto transport = std::make_unique<MpiTransport>(*mpi);
  if (const int size = MpiSizeFromEnvironment(); transport->size() != size) {
    Fail(ErrorKind::kFailure, "this process was started as one of ", size, ", but MPI knows of ", transport->size(),
         "; start it with the mpirun of the MPI that `make mpi` was built with, or with srun --mpi=pmix");
  }
  return transport;
}

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

// Each rank's share of the processors that this process may use, of so many ranks on the machine: all, if each is
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
