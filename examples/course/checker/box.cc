#include "examples/course/checker/box.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "crosstalk/runtime/check.h"
#include "examples/course/checker/call_filter.h"

namespace course {
namespace {

using crosstalk::StrCat;

constexpr int kNamespaces = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;
constexpr id_t kNobody = 65534;  // whom a solution runs as where the grader is root
constexpr rlim_t kMostProcesses = 256;

struct Offered {
  bool namespaces = true, filter = true;
  std::vector<std::string> lacks;
};
Offered offered;

void Must(bool done, const char* what) {
  if (!done) throw std::runtime_error(StrCat(what, ": ", std::strerror(errno)));
}

void WriteAll(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  Must(file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()), path);
  close(file);
}

void SetReadOnly(const std::string& path, bool read_only, unsigned flags = 0) {
  mount_attr change = {};
  (read_only ? change.attr_set : change.attr_clr) = MOUNT_ATTR_RDONLY;
  Must(mount_setattr(AT_FDCWD, path.c_str(), flags, &change, sizeof(change)) == 0, "mount_setattr");
}

// Everything is read only, the hidden folders are empty, and those to see or to write in stand in their places.
void ArrangeFiles(const Box& box) {
  struct Folder {
    std::string path;
    int descriptor;
  };
  std::vector<Folder> back;
  for (const std::string& path : {box.shown, box.writable}) {
    if (path.empty()) continue;
    back.push_back({path, open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)});
    Must(back.back().descriptor >= 0, path.c_str());
  }
  Must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount");
  SetReadOnly("/", true, AT_RECURSIVE);
  for (const std::string& path : box.hidden) {
    if (!std::filesystem::exists(path)) continue;  // within one that is hidden already
    Must(mount("none", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") == 0, path.c_str());
  }
  for (const Folder& folder : back) {
    std::filesystem::create_directories(folder.path);
    const std::string from = "/proc/self/fd/" + std::to_string(folder.descriptor);
    Must(mount(from.c_str(), folder.path.c_str(), nullptr, MS_BIND, nullptr) == 0, folder.path.c_str());
    close(folder.descriptor);
  }
  for (const std::string& path : box.hidden) {
    if (std::filesystem::exists(path)) SetReadOnly(path, true);
  }
  if (!box.shown.empty()) SetReadOnly(box.shown, true);
  if (!box.writable.empty()) SetReadOnly(box.writable, false);
  // The processes of these namespaces alone. Within some containers it is not allowed; nothing follows from that, for
  // no process outside can be sent a signal or be looked into.
  (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
}

void Limit(int resource, uint64_t most) {
  const rlimit limit = {most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

void SetLimits(const Box& box) {
  Limit(RLIMIT_CPU, std::max<uint64_t>(1, 2 * box.milliseconds / 1000));
  if (box.bytes != UINT64_MAX) Limit(RLIMIT_AS, box.bytes);
  Limit(RLIMIT_CORE, 0);
  if (!box.computes) return;
  Limit(RLIMIT_FSIZE, kMostOutput);
  Limit(RLIMIT_NOFILE, 64);
  Limit(RLIMIT_MSGQUEUE, 0);
  // Counted for each user in a namespace; without one, the user's other programs count as well.
  Limit(RLIMIT_NPROC, offered.namespaces ? kMostProcesses : 16 * kMostProcesses);
}

// Gives up what the filter and the namespaces leave: capabilities, and being root.
void GiveUpRights() {
  if (geteuid() == 0) {
    // Where nobody is no user, in some containers, it stays a root that may do nothing.
    (void)setgroups(0, nullptr), (void)!setresgid(kNobody, kNobody, kNobody),
        (void)!setresuid(kNobody, kNobody, kNobody);
    prctl(PR_SET_DUMPABLE, 1);  // else /proc/self is not its own
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  Must(syscall(SYS_capset, &header, none) == 0, "capset");
  Must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
}

// Children of this process, those of children that ended included: it is their subreaper.
void EndChildren() {
  for (;;) {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t child; children >> child;) kill(child, SIGKILL);
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

struct Start {
  const Box* box;
  const std::function<void(int)>* body;
  int status, output, answer;  // descriptors to write to
  uid_t user;
  gid_t group;
  bool own_users;
};

// The process that is called: of what the caller has it keeps the answer alone.
[[noreturn]] void RunBody(const Start& start) {
  setsid();
  const int nothing = open("/dev/null", O_RDONLY), output = fcntl(start.output, F_DUPFD, 10);
  const int answer = fcntl(start.answer, F_DUPFD, 10), input = fcntl(start.box->input, F_DUPFD, 10);
  dup2(nothing, 0), dup2(output, 1), dup2(output, 2), dup2(answer, 3), dup2(input, kInput);
  close_range(input < 0 ? kInput : kInput + 1, ~0u, 0);
  SetLimits(*start.box);
  if (start.box->computes) {
    GiveUpRights();
    if (offered.filter) FilterCalls();
  }
  (*start.body)(3);
  _exit(0);
}

// The first process of a box, which in its namespaces no other can end; with it all of them end.
int RunFirst(void* argument) {
  const Start& start = *static_cast<const Start*>(argument);
  const auto tell = [&](int status) { (void)!write(start.status, &status, sizeof(status)); };
  try {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (offered.namespaces) {
      if (start.own_users) {
        WriteAll("/proc/self/setgroups", "deny");
        WriteAll("/proc/self/uid_map", StrCat(start.user, " ", start.user, " 1"));
        WriteAll("/proc/self/gid_map", StrCat(start.group, " ", start.group, " 1"));
      }
      ArrangeFiles(*start.box);
    }
    // Where a relative path is the student's own.
    if (start.box->computes && !start.box->shown.empty()) Must(chdir(start.box->shown.c_str()) == 0, "chdir");
    const pid_t child = fork();
    Must(child >= 0, "fork");
    if (child == 0) {
      try {
        RunBody(start);
      } catch (const std::exception& error) {
        dprintf(2, "%s\n", error.what());
      }
      _exit(127);
    }
    close(start.output), close(start.answer);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    tell(status);
    if (!offered.namespaces) EndChildren();
  } catch (const std::exception& error) {
    dprintf(start.output, "%s", error.what());
  }
  _exit(0);
}

pid_t StartFirst(Start& start) {
  if (!offered.namespaces) {
    const pid_t child = fork();
    if (child == 0) RunFirst(&start);
    return child;
  }
  alignas(16) static char stack[256 << 10];
  start.own_users = geteuid() != 0;
  return clone(RunFirst, stack + sizeof(stack), kNamespaces | (start.own_users ? CLONE_NEWUSER : 0) | SIGCHLD, &start);
}

class Pipe {
 public:
  Pipe() { Must(pipe2(ends_, O_CLOEXEC) == 0, "pipe"); }
  ~Pipe() { close(ends_[0]), CloseWriter(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  // Appends what is there to read; false at its end.
  bool Read(std::string* text) {
    char bytes[1 << 16];
    const ssize_t count = read(ends_[0], bytes, sizeof(bytes));
    if (count > 0) text->append(bytes, static_cast<size_t>(count));
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

 private:
  int ends_[2] = {-1, -1};
};

// Why a box does not start; empty: it does.
std::string Refused(const Box& box) {
  try {
    const Ended ended = RunBoxed(box, [](int answer) { (void)!write(answer, "1", 1); });
    return ended.answer == "1" ? "" : ended.output;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void TryOut() {
  Box box = {.milliseconds = 10'000};
  std::string why = offered.namespaces ? Refused(box) : "not asked for";
  offered.namespaces = why.empty();
  if (!why.empty()) {
    offered.lacks.push_back("this system gives a solution no namespaces of its own (" + why +
                            "): its text may include, and its program read, whatever you may read");
  }
  box.computes = true;
  why = offered.filter ? Refused(box) : "not asked for";
  offered.filter = why.empty();
  if (!why.empty()) {
    offered.lacks.push_back("this system does not filter the calls of a solution (" + why + "): " +
                            (offered.namespaces ? "it may start processes, which end with it"
                                                : "it may change your files, end your processes and use the network"));
  }
}

}  // namespace

Ended RunBoxed(const Box& box, const std::function<void(int)>& body) {
  using Clock = std::chrono::steady_clock;
  Ended ended;
  Pipe status, output, answer;
  Start start = {&box, &body, status.writer(), output.writer(), answer.writer(), geteuid(), getegid(), false};
  std::fflush(nullptr);  // else the child has it to print as well
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto end = Clock::now() + std::chrono::milliseconds(box.milliseconds);
  const pid_t first = StartFirst(start);
  Must(first >= 0, "a process of its own");
  for (Pipe* pipe : {&status, &output, &answer}) {
    pipe->CloseWriter();
    fcntl(pipe->reader(), F_SETFL, O_NONBLOCK);
  }
  std::string told;
  pollfd polled[] = {{status.reader(), POLLIN, 0}, {output.reader(), POLLIN, 0}, {answer.reader(), POLLIN, 0}};
  size_t echoed = 0;
  const auto read = [&](size_t i) {
    const bool more = i == 0 ? status.Read(&told) : i == 1 ? output.Read(&ended.output) : answer.Read(&ended.answer);
    if (!more) polled[i].fd = -1;
    ended.printed_too_much = ended.printed_too_much || ended.output.size() > kMostOutput;
    ended.output.resize(std::min<size_t>(ended.output.size(), kMostOutput));
    if (box.echo) echoed += std::fwrite(ended.output.data() + echoed, 1, ended.output.size() - echoed, stdout);
    return more;
  };
  while (polled[0].fd >= 0 && told.size() < sizeof(ended.status)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    ended.out_of_time = left <= 0;
    if (ended.out_of_time || ended.printed_too_much || ended.answer.size() > kMostAnswer) break;
    poll(polled, 3, static_cast<int>(std::min<int64_t>(left + 1, 60'000)));
    for (size_t i = 0; i < 3; ++i) {
      if (polled[i].revents != 0) read(i);
    }
    if (box.echo) std::fflush(stdout);
  }
  if (told.size() < sizeof(ended.status)) kill(first, SIGKILL);
  EndChildren();
  for (size_t i = 1; i < 3; ++i) {
    // What it wrote before it ended is there; who else may hold the pipe has been killed.
    for (size_t before = ~size_t{0}; before != ended.output.size() + ended.answer.size();) {
      before = ended.output.size() + ended.answer.size();
      if (polled[i].fd >= 0) read(i);
    }
  }
  const bool asked_to_end = ended.out_of_time || ended.printed_too_much || ended.answer.size() > kMostAnswer;
  if (told.size() == sizeof(ended.status)) {
    std::memcpy(&ended.status, told.data(), sizeof(ended.status));
  } else {
    if (!asked_to_end && !ended.output.empty()) throw std::runtime_error(ended.output);
    ended.status = SIGKILL;
  }
  if (WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGXCPU) ended.out_of_time = true;
  return ended;
}

void WriteWhole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

const std::vector<std::string>& LacksOfSystem() {
  static const bool tried = (TryOut(), true);
  (void)tried;
  return offered.lacks;
}

void DoWithout(const std::string& part) {
  if (part != "namespaces" && part != "filter") throw std::runtime_error("a box has no " + part + " to do without");
  (part == "filter" ? offered.filter : offered.namespaces) = false;
}

}  // namespace course
