// The functions of plugin.h.
#include "tools/mpi/plugin.h"

#include <cstdio>
#include <exception>
#include <string>

#include "tools/mpi/ending.h"
#include "tools/mpi/progress.h"

namespace crosstalk::mpi {
namespace {

Progress* progress = nullptr;

uint64_t Post(Request::Kind kind, int peer, int tag, void* bytes, size_t size) {
  return progress->requests().Post(kind, peer, tag, static_cast<std::byte*>(bytes), size);
}

const char* Wait(uint64_t request, size_t* received) {
  thread_local std::string error;
  *received = progress->requests().Wait(request, &error);
  return error.empty() ? nullptr : error.c_str();
}

const CrosstalkMpi kFunctions = {
    .version = CROSSTALK_MPI_VERSION,
    .rank = [] { return progress->rank(); },
    .size = [] { return progress->size(); },
    .local_size = [] { return progress->local_size(); },
    .host = [](int rank) { return progress->host(rank).c_str(); },
    .largest_tag = [] { return progress->largest_tag(); },
    .send = [](int to, int tag, const void* bytes,
               size_t size) { return Post(Request::Kind::kSend, to, tag, const_cast<void*>(bytes), size); },
    .receive = [](int from, int tag, void* bytes,
                  size_t size) { return Post(Request::Kind::kReceive, from, tag, bytes, size); },
    .wait = Wait,
    .test = [](uint64_t request) { return progress->requests().Test(request) ? 1 : 0; },
    .abort = [](int code) { progress->Abort(code); },
    .close = [] { progress->Close(); },
};

}  // namespace
}  // namespace crosstalk::mpi

extern "C" __attribute__((visibility("default"))) const CrosstalkMpi* crosstalk_mpi_open(
    const CrosstalkMpiOptions* options, char* error, size_t error_size, int* code) {
  using namespace crosstalk::mpi;  // NOLINT: the function stands in no namespace
  *code = 1;
  if (options->version != CROSSTALK_MPI_VERSION) {
    std::snprintf(error, error_size, "it is of interface %d, not %d", CROSSTALK_MPI_VERSION, options->version);
    return nullptr;
  }
  if (progress != nullptr) {
    std::snprintf(error, error_size, "MPI was started before, and starts once in a process");
    return nullptr;
  }
  try {
    progress = Progress::Start({options->timeout_seconds, options->piece_bytes});
    return &kFunctions;
  } catch (const std::exception& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    *code = CodeOf(failure);
    return nullptr;
  }
}
