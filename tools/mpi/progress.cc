#include "tools/mpi/progress.h"

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/mpi/ending.h"
#include "tools/mpi/watch.h"

namespace crosstalk::mpi {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// The thread's own message to the other ranks: one byte under the tag after largest_tag().
constexpr char kBeat = 'b';     // it is there
constexpr char kGoodbye = 'g';  // it sends nothing more but beats
constexpr char kBegun = 'r';    // it has begun to receive a large message
constexpr char kNothing = 0;    // not such a byte

// The receiver of a larger message says when it begins, for the sender must then poll quickly too.
constexpr size_t kLargeBytes = 64 << 10;

// Between beats; with a short time-out they are more frequent.
constexpr std::chrono::milliseconds kMostBeatTime(1000);
constexpr double kBeatsInTimeout = 5;
// A rank that has ended lets go of what it has received before this is over.
constexpr std::chrono::seconds kEndTime(1);
// How long a poll follows the last without a pause.
constexpr microseconds kYieldTime(20), kYieldTimeOfWaiter(200);
// The pauses afterwards: while a message moves, while a caller waits, and while callers compute.
constexpr microseconds kPauseOfMoving(20), kLeastPauseOfWaiter(20), kMostPauseOfWaiter(500);
constexpr microseconds kLeastPause(100), kMostPauseOfPending(1000), kMostPauseOfIdle(10000);

}  // namespace

class Progress::Thread {
 public:
  explicit Thread(Progress& shared);

  // Until every rank has called Close.
  void Work();

 private:
  struct Peer {
    bool beat_under_way = false;
    bool ended = false;
    Clock::time_point end;  // where it has ended
  };
  struct Arrival {
    MPI_Message message;
    size_t size;
  };
  // A rank's messages under one tag: one of the two is empty.
  struct Stream {
    std::deque<Arrival> arrivals;
    std::deque<Request*> receives;
  };
  // A pending operation of MPI.
  struct Operation {
    Request* request;  // of which it is a piece; nullptr: of none, or of one that was given up
    int peer;
    char own;  // the byte of the thread's own that it sends
    size_t size;
  };

  bool TakePosted();
  bool TakeArrivals();
  bool TakeCompleted();
  void Pause(Clock::time_point now);
  void BeatAndWatch(Clock::time_point now);
  void SayGoodbye();
  void End(Request* request, std::string error);

  void StartSend(Request* request);
  void Match(int peer, Stream& stream);
  void TellPeer(int peer, char what);
  void HearPeer(int peer, char what);
  void Complete(const Operation& operation, int error);
  void EndReceivesFrom(int peer);
  void EndSendsToEnded(Clock::time_point now);

  std::string NameOf(int peer) const { return "rank " + std::to_string(peer) + " (" + shared_.host(peer) + ")"; }
  int size() const { return shared_.size(); }
  int control_tag() const { return shared_.largest_tag_ + 1; }
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }

  Progress& shared_;
  Clock::duration beat_time_ = kMostBeatTime;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::vector<Peer> peers_;
  SilenceWatch watch_;

  std::vector<MPI_Request> active_;
  std::vector<Operation> operations_;  // of active_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::map<std::pair<int, int>, Stream> streams_;  // by peer, tag
  int64_t receives_pending_ = 0;
  // Large messages that move: those received here, and those of which a receiver said so.
  int64_t moving_ = 0;

  Clock::time_point last_turn_, last_event_, next_beat_;
  bool said_goodbye_ = false;
};

Progress::Thread::Thread(Progress& shared) : shared_(shared), watch_(shared.size(), shared.options_.timeout_seconds) {
  Check(MPI_Comm_dup(MPI_COMM_WORLD, &world_));
  Check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
  peers_.resize(static_cast<size_t>(size()));
  if (const double timeout = shared_.options_.timeout_seconds; timeout > 0) {
    const std::chrono::duration<double> often(timeout / kBeatsInTimeout);
    beat_time_ = std::min(beat_time_, std::chrono::duration_cast<Clock::duration>(often));
  }
  last_turn_ = last_event_ = next_beat_ = Clock::now();
}

void Progress::Thread::Work() {
  for (;;) {
    if (const int code = shared_.abort_code_; code >= 0) EndAllRanks(code);
    if (shared_.closing_ && !said_goodbye_) SayGoodbye();
    bool event = TakePosted();
    event |= TakeArrivals();
    event |= TakeCompleted();
    const Clock::time_point now = Clock::now();
    watch_.Advance(std::chrono::duration<double>(now - last_turn_).count());
    last_turn_ = now;
    if (now >= next_beat_) BeatAndWatch(now);
    if (event) last_event_ = now;
    const auto ended = [&](const Peer& one) { return one.ended; };
    if (said_goodbye_ && active_.empty() && std::count_if(peers_.begin(), peers_.end(), ended) == size() - 1) {
      return;
    }
    if (!event) Pause(now);
  }
}

// ---- What callers ask for ----

bool Progress::Thread::TakePosted() {
  const std::vector<Request*> posted = shared_.requests_.TakePosted();
  for (Request* request : posted) {
    if (request->kind == Request::Kind::kSend) {
      StartSend(request);
      continue;
    }
    const auto [at, _] = streams_.try_emplace({request->peer, request->tag});
    at->second.receives.push_back(request);
    ++receives_pending_;
    Match(request->peer, at->second);
    if (at->second.receives.empty() && at->second.arrivals.empty()) {
      streams_.erase(at);
    } else if (!at->second.receives.empty() && peer(request->peer).ended) {
      EndReceivesFrom(request->peer);
    }
  }
  return !posted.empty();
}

// The last piece is the only one that is shorter than piece_bytes, and may be empty.
void Progress::Thread::StartSend(Request* request) {
  const size_t most = shared_.options_.piece_bytes;
  for (size_t begin = 0; begin <= request->size; begin += most) {
    const size_t size = std::min(most, request->size - begin);
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Isend(request->bytes + begin, static_cast<int>(size), MPI_BYTE, request->peer, request->tag,
                               world_, &started);
    if (code != MPI_SUCCESS) {
      request->error = TextOf(code);
      break;
    }
    ++request->pieces_under_way;
    active_.push_back(started);
    operations_.push_back({request, request->peer, kNothing, size});
  }
  request->moved = request->size;
  request->all_pieces = true;
  if (request->pieces_under_way == 0) End(request, request->error);
}

void Progress::Thread::End(Request* request, std::string error) {
  request->error = std::move(error);
  shared_.requests_.Finish(request);
}

// ---- What arrives ----

bool Progress::Thread::TakeArrivals() {
  bool any = false;
  for (;;) {
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    Check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &there, &message, &status));
    if (!there) return any;
    const int from = status.MPI_SOURCE;
    watch_.Hear(from);
    if (status.MPI_TAG == control_tag()) {
      char what = 0;
      Check(MPI_Mrecv(&what, 1, MPI_BYTE, &message, MPI_STATUS_IGNORE));
      HearPeer(from, what);
      any |= what != kBeat;
      continue;
    }
    any = true;
    int size = 0;
    Check(MPI_Get_count(&status, MPI_BYTE, &size));
    const auto [at, _] = streams_.try_emplace({from, status.MPI_TAG});
    at->second.arrivals.push_back({message, static_cast<size_t>(size)});
    Match(from, at->second);
    if (at->second.receives.empty() && at->second.arrivals.empty()) streams_.erase(at);
  }
}

void Progress::Thread::Match(int peer, Stream& stream) {
  while (!stream.arrivals.empty() && !stream.receives.empty()) {
    Arrival arrival = stream.arrivals.front();
    stream.arrivals.pop_front();
    Request* request = stream.receives.front();
    const size_t room = std::min(arrival.size, request->size - request->moved);
    std::byte* to = request->bytes + request->moved;
    if (room < arrival.size) {
      // Open MPI 4.1 may write more than it is told where it copies from the other process's memory.
      request->error = "a message of " + NameOf(peer) + " is longer than what it is for";
      request->spare.resize(std::max(request->spare.size(), arrival.size));
      to = request->spare.data();
    }
    MPI_Request started = MPI_REQUEST_NULL;
    Check(MPI_Imrecv(to, static_cast<int>(arrival.size), MPI_BYTE, &arrival.message, &started));
    active_.push_back(started);
    operations_.push_back({request, peer, kNothing, arrival.size});
    request->moved += room;
    ++request->pieces_under_way;
    if (arrival.size >= kLargeBytes) {
      ++moving_;
      TellPeer(peer, kBegun);
    }
    if (arrival.size < shared_.options_.piece_bytes) {
      request->all_pieces = true;
      stream.receives.pop_front();
      --receives_pending_;
    }
  }
}

void Progress::Thread::TellPeer(int peer, char what) {
  static constexpr char kWhats[] = {kBeat, kGoodbye, kBegun};  // MPI reads it later
  const char* byte = std::find(std::begin(kWhats), std::end(kWhats), what);
  MPI_Request started = MPI_REQUEST_NULL;
  Check(MPI_Isend(byte, 1, MPI_BYTE, peer, control_tag(), world_, &started));
  active_.push_back(started);
  operations_.push_back({nullptr, peer, what, 1});
}

void Progress::Thread::HearPeer(int from, char what) {
  if (what == kBegun) ++moving_;
  if (what != kGoodbye) return;
  peer(from).ended = true;
  peer(from).end = Clock::now();
  EndReceivesFrom(from);
}

// All that it has sent is there: MPI keeps the order of a rank's messages.
void Progress::Thread::EndReceivesFrom(int from) {
  for (auto& [key, stream] : streams_) {
    if (key.first != from) continue;
    receives_pending_ -= static_cast<int64_t>(stream.receives.size());
    for (Request* request : std::exchange(stream.receives, {})) End(request, NameOf(from) + " has ended");
  }
  std::erase_if(streams_, [](const auto& one) { return one.second.receives.empty() && one.second.arrivals.empty(); });
}

// A rank that has ended receives nothing more. MPI cannot give up what it sends: its pieces stay.
void Progress::Thread::EndSendsToEnded(Clock::time_point now) {
  std::set<Request*> given_up;
  for (Operation& one : operations_) {
    const Peer& to = peer(one.peer);
    if (!to.ended || now - to.end <= kEndTime || one.own != kNothing) continue;
    if (one.request != nullptr && one.request->kind == Request::Kind::kSend) {
      given_up.insert(std::exchange(one.request, nullptr));
    }
  }
  for (Request* request : given_up) End(request, NameOf(request->peer) + " has ended");
}

// ---- What is done ----

bool Progress::Thread::TakeCompleted() {
  if (active_.empty()) return false;
  const size_t count = active_.size();
  if (indices_.size() < count) {
    indices_.resize(2 * count);
    statuses_.resize(2 * count);
  }
  int completed = 0;
  const int code = MPI_Testsome(static_cast<int>(count), active_.data(), &completed, indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) Check(code);
  if (completed == MPI_UNDEFINED || completed == 0) return false;
  std::sort(indices_.begin(), indices_.begin() + completed);
  for (int i = 0; i < completed; ++i) {
    const int error = code == MPI_ERR_IN_STATUS ? statuses_[static_cast<size_t>(i)].MPI_ERROR : MPI_SUCCESS;
    Complete(operations_[static_cast<size_t>(indices_[static_cast<size_t>(i)])], error);
  }
  for (int i = completed; i-- > 0;) {
    const auto at = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
    active_[at] = active_.back();
    operations_[at] = operations_.back();
    active_.pop_back();
    operations_.pop_back();
  }
  return true;
}

void Progress::Thread::Complete(const Operation& operation, int error) {
  Request* request = operation.request;
  if (operation.size >= kLargeBytes) --moving_;
  if (operation.own == kBeat) peer(operation.peer).beat_under_way = false;
  if (request == nullptr) return;
  if (error != MPI_SUCCESS && request->error.empty()) request->error = TextOf(error);
  --request->pieces_under_way;
  if (request->all_pieces && request->pieces_under_way == 0) End(request, request->error);
}

// ---- Between polls ----

// Beside a thread that computes, a sleep that ends wakes this one at once, while after a yield it would have to wait
// for the end of the other's time slice. A pause grows with the time in which nothing happened: it adds at most a
// sixteenth to what a caller waits, and a poll takes about 12 µs of a caller that computes.
void Progress::Thread::Pause(Clock::time_point now) {
  const bool waiter = shared_.requests_.someone_waits();
  const Clock::duration quiet = now - last_event_;
  if (quiet < (waiter ? kYieldTimeOfWaiter : kYieldTime)) {
    sched_yield();
    return;
  }
  const bool pending = receives_pending_ > 0 || !active_.empty();
  const Clock::duration pause =
      moving_ > 0 ? kPauseOfMoving
      : waiter    ? std::clamp<Clock::duration>(quiet / 16, kLeastPauseOfWaiter, kMostPauseOfWaiter)
                  : std::clamp<Clock::duration>(quiet, kLeastPause, pending ? kMostPauseOfPending : kMostPauseOfIdle);
  if (shared_.requests_.Sleep(pause)) last_event_ = Clock::now();
}

void Progress::Thread::BeatAndWatch(Clock::time_point now) {
  next_beat_ = now + beat_time_;
  EndSendsToEnded(now);
  for (int other = 0; other < size(); ++other) {
    if (other == shared_.rank_ || (other != 0 && shared_.rank_ != 0)) continue;  // rank 0 and each other
    if (!std::exchange(peer(other).beat_under_way, true)) TellPeer(other, kBeat);
    if (!watch_.IsLost(other)) continue;
    PrintLine("%s has said nothing for %g s; ending all ranks", NameOf(other).c_str(),
              shared_.options_.timeout_seconds);
    EndAllRanks(1);
  }
}

void Progress::Thread::SayGoodbye() {
  const bool ours_only =
      std::all_of(operations_.begin(), operations_.end(), [](const Operation& one) { return one.own != kNothing; });
  if (!ours_only || shared_.requests_.open() > 0) {
    PrintLine("%s ends while messages are under way; ending all ranks", NameOf(shared_.rank_).c_str());
    EndAllRanks(1);
  }
  said_goodbye_ = true;
  for (int other = 0; other < size(); ++other) {
    if (other != shared_.rank_) TellPeer(other, kGoodbye);
  }
}

// ---- The thread's life ----

Progress* Progress::Start(const ProgressOptions& options) {
  auto* progress = new Progress(options);  // the thread may outlive the program's statics
  // Signals are the program's: neither this thread nor those of MPI take any.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<std::system_error> refused;
  try {
    std::thread([progress] { progress->Run(); }).detach();
  } catch (const std::system_error& error) {
    refused.emplace(error.code(), "cannot start a thread");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (refused) throw *refused;
  std::unique_lock lock(progress->mutex_);
  const auto is_started = [&] { return progress->state_ != State::kStarting; };
  if (options.timeout_seconds <= 0) {
    progress->changed_.wait(lock, is_started);
  } else if (!progress->changed_.wait_for(lock, std::chrono::duration<double>(options.timeout_seconds), is_started)) {
    // Nothing can be told the others, nor the thread that waits for them.
    std::fprintf(stderr, "crosstalk: MPI has not started within %g s: a rank is stopped, missing, or another program\n",
                 options.timeout_seconds);
    std::_Exit(1);
  }
  if (progress->state_ == State::kFailed) std::rethrow_exception(progress->error_);
  return progress;
}

void Progress::Run() {
  try {
    prctl(PR_SET_NAME, "crosstalk-mpi");
    prctl(PR_SET_TIMERSLACK, 1000);  // in ns: sleeps of 20 µs must not become 70
    int level = 0;
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int size = 1, length = 0, found = 0;
    Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    Check(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_Comm host = MPI_COMM_NULL;
    Check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    Check(MPI_Comm_size(host, &local_size_));
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    Check(MPI_Get_processor_name(name, &length));
    std::vector<char> names(static_cast<size_t>(size) * sizeof name);
    Check(MPI_Allgather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR, MPI_COMM_WORLD));
    for (int rank = 0; rank < size; ++rank) hosts_.emplace_back(&names[static_cast<size_t>(rank) * sizeof name]);
    int* largest = nullptr;
    Check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found));
    largest_tag_ = (found ? *largest : 32767) - 1;
    Thread thread(*this);
    SetState(State::kRunning);
    thread.Work();
    Finalize();
    SetState(State::kClosed);
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kStarting) {
        error_ = std::current_exception();
        state_ = State::kFailed;
        changed_.notify_all();
        return;
      }
    }
    PrintLine("rank %d (%s): MPI: %s; ending all ranks", rank_, host(rank_).c_str(), error.what());
    EndAllRanks(CodeOf(error));
  }
}

// Waits for the others, which nobody watches any more.
void Progress::Finalize() {
  char line[512];
  std::snprintf(line, sizeof line, "crosstalk: rank %d (%s) has waited %g s for the end of the others; ending it\n",
                rank_, host(rank_).c_str(), options_.timeout_seconds);
  if (options_.timeout_seconds > 0) {
    Deadline::Set(std::chrono::duration<double>(options_.timeout_seconds), 1, line);
  }
  MPI_Finalize();
  Deadline::Cancel();
}

void Progress::SetState(State state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  changed_.notify_all();
}

void Progress::Abort(int code) {
  abort_code_ = code & 0xff;
  requests_.Wake();
  // The thread ends the process; where MPI hangs, this does.
  std::this_thread::sleep_for(2 * kAbortTime);
  _exit(code);
}

void Progress::Close() {
  closing_ = true;
  requests_.Wake();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ == State::kClosed; });
}

}  // namespace crosstalk::mpi
