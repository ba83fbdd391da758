// A command whose work several ranks share, as mpirun starts them: rank 0 is the command, the others help it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "tools/cli/option_table.h"
#include "tools/mpi/plugin.h"

namespace crosstalk {

// MpiTransport: the ranks that mpirun or srun has started. MPI itself is in a library that is loaded only then,
// libcrosstalk_mpi.so (tools/mpi/plugin.h), so that the command needs none.
//
// Environment that Open MPI reads: OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 let root start it (or
// mpirun --allow-run-as-root); --oversubscribe starts more ranks than cores, and --bind-to none leaves a rank's threads
// all cores; OMPI_MCA_btl_vader_single_copy_mechanism=none is for containers that refuse process_vm_readv.

// How many ranks this process was started as one of, by the variables that mpirun, mpiexec and srun set: 1 where none
// of them did. Starts no MPI.
int MpiSizeFromEnvironment();
// Whether they are several.
bool StartedByMpi();

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(const CrosstalkMpi& mpi) : mpi_(mpi) {}
  // Waits until every rank has come to this, and ends MPI: none can be opened again. A rank that ends while others
  // still want something of it calls Abort instead.
  ~MpiTransport() override { mpi_.close(); }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return mpi_.rank(); }
  int size() const override { return mpi_.size(); }
  // Ranks on this rank's host, itself too.
  int local_size() const { return mpi_.local_size(); }
  std::string host(int rank) const override;

  // Error(kUsage) for a rank or a tag that there is not.
  Request Send(int to, int tag, std::span<const std::byte> bytes) override;
  Request Receive(int from, int tag, std::span<std::byte> bytes) override;
  size_t Wait(Request request) override;
  bool Test(Request request) override { return mpi_.test(request) != 0; }

  [[noreturn]] void Abort(int code) override;

 private:
  void CheckPeer(int rank, int tag) const;

  const CrosstalkMpi& mpi_;
};

// Longer messages go in several; the same on every rank.
constexpr size_t kMpiPieceBytes = size_t{1} << 30;

// Loads the library, from lib/ beside the executable, ../lib/crosstalk/ or ../lib/, and starts MPI. Once in a process,
// by every rank. A rank that says nothing for timeout_seconds (0: however long) ends all of them, with exit code 1 and
// a line on standard error. Error(kUsage) where the library is missing or of another version, Error(kFailure) where MPI
// does not start or knows nothing of the other ranks.
std::unique_ptr<MpiTransport> OpenMpiTransport(double timeout_seconds, size_t piece_bytes = kMpiPieceBytes);

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
