#include "tools/mpi/requests.h"

#include <sched.h>

#include <utility>

namespace crosstalk::mpi {
namespace {

// A caller yields for so long before it sleeps: to be woken takes longer than most messages that are on their way.
constexpr std::chrono::microseconds kYieldTime(100);

}  // namespace

Request* RequestTable::Find(Id id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

void RequestTable::NoteCall() {
  called_since_sleep_ = true;
  called_.notify_one();  // costs nothing where the thread is awake
}

RequestTable::Id RequestTable::Post(Request::Kind kind, int peer, int tag, std::byte* bytes, size_t size) {
  auto request = std::make_unique<Request>();
  request->kind = kind;
  request->peer = peer;
  request->tag = tag;
  request->bytes = bytes;
  request->size = size;
  const std::lock_guard lock(mutex_);
  posted_.push_back(request.get());
  requests_.emplace(++last_, std::move(request));
  has_posted_.store(true, std::memory_order_release);
  NoteCall();
  return last_;
}

size_t RequestTable::Wait(Id id, std::string* error) {
  std::unique_lock lock(mutex_);
  Request* request = Find(id);
  if (request == nullptr) {
    *error = "a request that nobody has made, or that was waited for before";
    return 0;
  }
  if (!request->done.load(std::memory_order_acquire)) {
    waiting_.fetch_add(1);
    NoteCall();  // it polls more often for who waits
    lock.unlock();
    const auto end = std::chrono::steady_clock::now() + kYieldTime;
    while (!request->done.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end) sched_yield();
    lock.lock();
    finished_.wait(lock, [&] { return request->done.load(std::memory_order_acquire); });
    waiting_.fetch_sub(1);
  }
  *error = std::move(request->error);
  const size_t moved = request->moved;
  requests_.erase(id);
  return moved;
}

bool RequestTable::Test(Id id) {
  const std::lock_guard lock(mutex_);
  const Request* request = Find(id);
  return request == nullptr || request->done.load(std::memory_order_acquire);
}

std::vector<Request*> RequestTable::TakePosted() {
  if (!has_posted_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  has_posted_.store(false, std::memory_order_relaxed);
  return std::exchange(posted_, {});
}

void RequestTable::Finish(Request* request) {
  const std::lock_guard lock(mutex_);
  request->done.store(true, std::memory_order_release);
  if (someone_waits()) finished_.notify_all();
}

bool RequestTable::Sleep(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  if (!called_since_sleep_) called_.wait_for(lock, time, [&] { return called_since_sleep_; });
  return std::exchange(called_since_sleep_, false);
}

size_t RequestTable::open() {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

void RequestTable::Wake() {
  const std::lock_guard lock(mutex_);
  NoteCall();
}

}  // namespace crosstalk::mpi
