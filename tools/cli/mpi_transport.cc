#include "tools/cli/mpi_transport.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "crosstalk/runtime/check.h"

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

}  // namespace crosstalk
