// RequestTable: what callers hand to the thread that owns MPI, and how they wait for it. Knows nothing of MPI.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace crosstalk::mpi {

struct Request {
  enum class Kind { kSend, kReceive };

  Kind kind;
  int peer;
  int tag;
  std::byte* bytes;  // of a send: only read
  size_t size;

  // The thread's, until done.
  size_t moved = 0;              // bytes
  int pieces_under_way = 0;      // in MPI
  bool all_pieces = false;       // are under way or there
  std::vector<std::byte> spare;  // for what there is no room for
  std::string error;
  std::atomic<bool> done = false;
};

class RequestTable {
 public:
  using Id = uint64_t;

  // ---- Any thread ----
  Id Post(Request::Kind kind, int peer, int tag, std::byte* bytes, size_t size);
  // The bytes moved. An error's text is empty if there is none.
  size_t Wait(Id id, std::string* error);
  bool Test(Id id);

  // ---- The thread that owns MPI ----
  // Requests posted since the last call, in order. A request stays until Finish and a caller's Wait.
  std::vector<Request*> TakePosted();
  void Finish(Request* request);
  // Returns after the time, or true as soon as a caller posts, waits or wakes.
  bool Sleep(std::chrono::nanoseconds time);
  bool someone_waits() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  // Requests that nobody has waited for yet.
  size_t open();

  // Any thread: ends a Sleep.
  void Wake();

 private:
  // The lock is held.
  Request* Find(Id id);
  void NoteCall();

  std::mutex mutex_;
  std::condition_variable called_, finished_;
  Id last_ = 0;
  std::unordered_map<Id, std::unique_ptr<Request>> requests_;
  std::vector<Request*> posted_;
  std::atomic<bool> has_posted_ = false;
  std::atomic<int> waiting_ = 0;
  bool called_since_sleep_ = false;
};

}  // namespace crosstalk::mpi
