// Progress: the one thread that calls MPI. It posts what callers ask for, takes what arrives, and watches the other
// ranks, while the callers compute.
//
// It takes a message from MPI only once its envelope is there (MPI_Improbe), so it knows what is under way and what has
// not come yet: it polls quickly for the one, and seldom for the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "tools/mpi/requests.h"

namespace crosstalk::mpi {

struct ProgressOptions {
  double timeout_seconds;
  size_t piece_bytes;
};

class Progress {
 public:
  // Starts the thread and MPI, and returns once both run; the object is never destroyed. Throws std::runtime_error,
  // std::bad_alloc, or std::system_error where the system has no thread to give.
  static Progress* Start(const ProgressOptions& options);

  RequestTable& requests() { return requests_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  int local_size() const { return local_size_; }
  int largest_tag() const { return largest_tag_; }
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }

  // See CrosstalkMpi.
  [[noreturn]] void Abort(int code);
  void Close();

 private:
  class Thread;  // what only the thread uses

  explicit Progress(const ProgressOptions& options) : options_(options) {}
  void Run();
  void Finalize();

  enum class State { kStarting, kRunning, kFailed, kClosed };
  void SetState(State state);

  const ProgressOptions options_;
  RequestTable requests_;

  // Written before kRunning.
  int rank_ = 0;
  int local_size_ = 1;
  int largest_tag_ = 0;
  std::vector<std::string> hosts_;
  std::exception_ptr error_;  // of kFailed

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kStarting;
  std::atomic<bool> closing_ = false;
  std::atomic<int> abort_code_ = -1;  // -1: nobody has asked for it
};

}  // namespace crosstalk::mpi
