// transport_check MODE: a rank of a test of MpiTransport; tests/sessions/mpi.session starts several with mpirun. Prints
// what does not hold, and returns 1 then. Modes:
//   messages        what Transport promises, between all ranks
//   idle            the share of a core that the plug-in takes of a rank that computes or sleeps
//   stop, kill      the last rank stops or kills itself while the others wait for it; stop-first: rank 0
//   leave           the last rank ends while the others wait for it
//   late            the last rank ends, and the others send to it
//   untidy          the last rank ends before a message that it wants has come
//   abort           the last rank ends all with exit code 4
//   suspend         prints its process's id; every rank waits for 6 s in which all are stopped for 4 s
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "tools/cli/ranks.h"

namespace {

using crosstalk::Error;
using crosstalk::ErrorKind;
using crosstalk::MpiTransport;
using crosstalk::OpenMpiTransport;
using crosstalk::Stopwatch;
using crosstalk::StrCat;
using crosstalk::Transport;

// Small, so that a message of 3 MB goes in several pieces.
constexpr size_t kPieceBytes = 1 << 20;

int failures = 0;

void Expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what.c_str());
  std::fflush(stdout);
}

// Byte i of a seed's message.
std::vector<std::byte> Pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

// What the Error says that this call throws; of none, nothing.
std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void Send(Transport& transport, int to, int tag, const std::vector<std::byte>& bytes) {
  transport.Wait(transport.Send(to, tag, bytes));
}
std::vector<std::byte> Receive(Transport& transport, int from, int tag, size_t most) {
  std::vector<std::byte> bytes(most);
  bytes.resize(transport.Wait(transport.Receive(from, tag, bytes)));
  return bytes;
}
void Barrier(Transport& transport) {
  constexpr int kTag = 1000;
  if (transport.rank() == 0) {
    for (int rank = 1; rank < transport.size(); ++rank) Receive(transport, rank, kTag, 0);
    for (int rank = 1; rank < transport.size(); ++rank) Send(transport, rank, kTag, {});
  } else {
    Send(transport, 0, kTag, {});
    Receive(transport, 0, kTag, 0);
  }
}

int Next(const Transport& transport) { return (transport.rank() + 1) % transport.size(); }
int Previous(const Transport& transport) { return (transport.rank() + transport.size() - 1) % transport.size(); }

void Compute(double seconds) {
  volatile double sum = 0;
  for (const Stopwatch watch; watch.seconds() < seconds;) sum = sum + 1;
}

// ---- What Transport promises ----

void CheckOrder(Transport& transport) {
  constexpr int kMessages = 50;
  std::vector<std::vector<std::byte>> sent, received(2 * kMessages);
  std::vector<Transport::Request> sends, receives(2 * kMessages);
  for (int i = 0; i < 2 * kMessages; ++i) {
    // Lengths on both sides of what MPI sends at once, and of a piece.
    const size_t size = i % 10 == 9 ? kPieceBytes + static_cast<size_t>(i) : static_cast<size_t>(i * 101);
    sent.push_back(Pattern(size, static_cast<unsigned>(i)));
  }
  for (int i = 0; i < 2 * kMessages; ++i)
    sends.push_back(transport.Send(Next(transport), i % 2, sent[static_cast<size_t>(i)]));
  // Those of tag 1 before those of tag 0.
  for (const int tag : {1, 0}) {
    for (size_t i = static_cast<size_t>(tag); i < received.size(); i += 2) {
      received[i].resize(kPieceBytes + 1000);
      receives[i] = transport.Receive(Previous(transport), tag, received[i]);
    }
  }
  for (size_t i = 0; i < received.size(); ++i) {
    received[i].resize(transport.Wait(receives[i]));
    Expect(received[i] == sent[i], StrCat("message ", i, " is the one that was sent as such, of ", sent[i].size(),
                                          " bytes; it has ", received[i].size()));
  }
  for (size_t i = 0; i < sends.size(); ++i) Expect(transport.Wait(sends[i]) == sent[i].size(), "a send's length");
}

void CheckLengths(Transport& transport) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1,
                            2 * kPieceBytes, 3 * kPieceBytes + 7}) {
    for (const size_t room : {size, size + 1, 2 * size + 3, 4 * kPieceBytes}) {
      const std::vector<std::byte> sent = Pattern(size, 7);
      const Transport::Request send = transport.Send(Next(transport), 2, sent);
      Expect(Receive(transport, Previous(transport), 2, room) == sent,
             StrCat("a message of ", size, " bytes arrives if there is room for ", room));
      transport.Wait(send);
    }
  }
}

void CheckTooLong(Transport& transport) {
  for (const size_t size : {size_t{100}, 3 * kPieceBytes}) {
    const std::vector<std::byte> sent = Pattern(size, 8), after = Pattern(10, 9);
    const Transport::Request first = transport.Send(Next(transport), 3, sent);
    const Transport::Request second = transport.Send(Next(transport), 3, after);
    std::vector<std::byte> room(size, std::byte{42});
    const std::string message =
        ErrorOf([&] { transport.Wait(transport.Receive(Previous(transport), 3, std::span(room).first(size - 1))); });
    Expect(message.find("is longer than what it is for") != std::string::npos,
           "a message that is too long is an error");
    Expect(room.back() == std::byte{42}, "no byte is written after the buffer");
    Expect(Receive(transport, Previous(transport), 3, 100) == after, "the message after one too long is whole");
    transport.Wait(first);
    transport.Wait(second);
  }
}

void CheckBothWaysAtOnce(Transport& transport) {
  constexpr size_t kBytes = 3'000'000;
  std::vector<Transport::Request> requests;
  std::vector<std::vector<std::byte>> received(static_cast<size_t>(transport.size()));
  const std::vector<std::byte> sent = Pattern(kBytes, static_cast<unsigned>(transport.rank()));
  for (int other = 0; other < transport.size(); ++other) {
    if (other == transport.rank()) continue;
    received[static_cast<size_t>(other)].resize(kBytes);
    requests.push_back(transport.Send(other, 4, sent));
    requests.push_back(transport.Receive(other, 4, received[static_cast<size_t>(other)]));
  }
  for (const Transport::Request request : requests) Expect(transport.Wait(request) == kBytes, "3 MB have 3 MB");
  for (int other = 0; other < transport.size(); ++other) {
    if (other == transport.rank()) continue;
    Expect(received[static_cast<size_t>(other)] == Pattern(kBytes, static_cast<unsigned>(other)),
           StrCat("the 3 MB of rank ", other));
  }
}

void CheckThreads(Transport& transport) {
  constexpr int kThreads = 4, kMessages = 300;
  std::vector<int> wrong(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kMessages; ++i) {
          const std::vector<std::byte> sent = Pattern(static_cast<size_t>(i % 40), static_cast<unsigned>(i + thread));
          const Transport::Request send = transport.Send(Next(transport), 10 + thread, sent);
          if (Receive(transport, Previous(transport), 10 + thread, 64) != sent) ++wrong[static_cast<size_t>(thread)];
          transport.Wait(send);
        }
      });
    }
  }
  for (const int count : wrong) Expect(count == 0, StrCat(count, " messages of a thread are others"));
}

void CheckTest(Transport& transport) {
  std::vector<std::byte> bytes(8);
  const Transport::Request receive = transport.Receive(Previous(transport), 5, bytes);
  Expect(!transport.Test(receive), "Test is false before the message was sent");
  Barrier(transport);
  const std::vector<std::byte> sent = Pattern(8, 11);
  const Transport::Request send = transport.Send(Next(transport), 5, sent);
  const Stopwatch watch;
  while (!(transport.Test(receive) && transport.Test(send)) && watch.seconds() < 10) std::this_thread::yield();
  Expect(transport.Test(receive) && transport.Test(send), "Test becomes true");
  Expect(transport.Wait(receive) == 8 && transport.Wait(send) == 8 && bytes == sent, "Wait after Test");
}

// As gradients do: 64 MB in messages of 2 MB.
void CheckProgressBesideComputation(Transport& transport) {
  constexpr size_t kMessages = 32;
  const std::vector<std::byte> sent = Pattern(2 << 20, 12);
  std::vector<std::vector<std::byte>> received(kMessages, std::vector<std::byte>(sent.size()));
  std::vector<Transport::Request> requests;
  Barrier(transport);
  const Stopwatch watch;
  for (std::vector<std::byte>& one : received) {
    requests.push_back(transport.Receive(Previous(transport), 9, one));
    requests.push_back(transport.Send(Next(transport), 9, sent));
  }
  const auto all_there = [&] {
    return std::all_of(requests.begin(), requests.end(), [&](Transport::Request one) { return transport.Test(one); });
  };
  while (!all_there() && watch.seconds() < 20) Compute(0.005);
  Expect(all_there(), "messages move while all ranks compute");
  for (const Transport::Request request : requests) transport.Wait(request);
  Expect(received.back() == sent, "what moved beside a computation is whole");
  Barrier(transport);
}

void CheckOnce() {
  const std::string message = ErrorOf([] { OpenMpiTransport(60); });
  Expect(message.find("MPI was started before") != std::string::npos, "MPI starts once: " + message);
}

void CheckMistakes(Transport& transport) {
  const auto refused = [&](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUsage;
    }
    return false;
  };
  Expect(refused([&] { transport.Send(transport.size(), 0, {}); }), "a rank that there is not is refused");
  Expect(refused([&] { transport.Receive(-1, 0, {}); }), "rank -1 is refused");
  Expect(refused([&] { transport.Send(0, -1, {}); }), "tag -1 is refused");
}

int CheckMessages(MpiTransport& transport) {
  Expect(transport.size() == crosstalk::MpiSizeFromEnvironment(), "the environment says how many ranks there are");
  Expect(transport.local_size() == transport.size(), "all ranks are on this host");
  Expect(!transport.host(transport.size() - 1).empty(), "a host has a name");
  CheckOrder(transport);
  CheckLengths(transport);
  CheckTooLong(transport);
  CheckBothWaysAtOnce(transport);
  CheckThreads(transport);
  CheckTest(transport);
  CheckMistakes(transport);
  CheckOnce();
  CheckProgressBesideComputation(transport);
  Barrier(transport);
  return failures > 0;
}

// ---- What the plug-in costs ----

double CpuSeconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns the processor time of all threads but this one, as a share of the wall time of `body`.
double ShareOfOthers(const std::function<void()>& body) {
  const Stopwatch watch;
  const double before = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  body();
  return (CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - before) / watch.seconds();
}

int MeasureIdle(MpiTransport& transport) {
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::seconds(2)); };
  const auto compute = [] { Compute(2); };
  const double idle = ShareOfOthers(sleep);
  Barrier(transport);
  const double computing = ShareOfOthers(compute);
  Barrier(transport);
  std::byte byte{};
  const Transport::Request receive = transport.Receive(Previous(transport), 7, std::span(&byte, 1));
  const double pending = ShareOfOthers(compute);
  Barrier(transport);
  transport.Wait(transport.Send(Next(transport), 7, std::span(&byte, 1)));
  transport.Wait(receive);
  const std::vector<std::byte> empty;
  const double waiting = ShareOfOthers([&] {
    if (transport.rank() == 0) {
      sleep();
      for (int rank = 1; rank < transport.size(); ++rank) Send(transport, rank, 8, empty);
    } else {
      Receive(transport, 0, 8, 0);
    }
  });
  std::printf("share of a core: idle %.4f, computing %.4f, receive pending %.4f, %s %.4f\n", idle, computing, pending,
              transport.rank() == 0 ? "idle" : "waiting", waiting);
  Expect(idle < 0.25, StrCat("an idle rank takes ", idle, " of a core"));
  Expect(pending < 0.5, StrCat("a rank with a pending receive takes ", pending, " of a core"));
  Barrier(transport);
  return failures > 0;
}

// ---- Ranks that stop, die or leave ----

int LoseLast(MpiTransport& transport, const std::string& mode) {
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  const int lost = mode == "stop-first" ? 0 : transport.size() - 1;
  Barrier(transport);
  std::byte byte{};
  if (transport.rank() == lost) {
    if (mode == "stop" || mode == "stop-first") raise(SIGSTOP);
    if (mode == "untidy") transport.Receive(0, 0, std::span(&byte, 1));
    if (mode == "kill") raise(SIGKILL);
    if (mode == "abort") transport.Abort(4);
    return 0;
  }
  try {
    if (mode == "late") {
      Send(transport, lost, 0, std::vector<std::byte>(3 * kPieceBytes));
    } else {
      Receive(transport, lost, 0, 10);
    }
    std::printf("not so: a message goes to a lost rank or comes of one\n");
    return 1;
  } catch (const Error& error) {
    std::printf("error: %s\n", error.what());
    return mode == "leave" ? 0 : 1;
  }
}

int Suspend(MpiTransport& transport) {
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  Barrier(transport);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  Barrier(transport);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string mode = argc > 1 ? argv[1] : "messages";
    CROSSTALK_CHECK(crosstalk::StartedByMpi(), "start this with mpirun -np 3");
    const auto transport = OpenMpiTransport(mode == "messages" || mode == "idle" ? 60 : 2, kPieceBytes);
    if (mode == "messages") return CheckMessages(*transport);
    if (mode == "idle") return MeasureIdle(*transport);
    if (mode == "suspend") return Suspend(*transport);
    return LoseLast(*transport, mode);
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 2;
  }
}
