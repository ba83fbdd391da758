// File calls that fail when told. A filter makes the kernel send a signal to the process in place of each system call
// about a file; its handler counts the call, makes it, and answers in the kernel's place. So none is missed, whichever
// function of whichever library makes it.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

#include "tests/faults/injector.h"

namespace faults {

namespace {

// What a call does, by which the faults are chosen that it can have.
enum class Kind {
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kSync,
  kRename,
  kRemove,
  kMakeDirectory,
  kList,
  kLook,
  kLock,
  kMap,
  kTruncate,
  kClose
};

constexpr const char* kNames[] = {"open",  "create", "read", "write", "sync", "rename",   "remove",
                                  "mkdir", "list",   "look", "lock",  "map",  "truncate", "close"};

// Where a call names its file.
enum class Names {
  kDescriptor,  // argument 0
  kPath,        // argument 0
  kPathAt,      // a folder's descriptor, and a path from there
  kTwoPaths,    // arguments 0 and 1
  kTwoPathsAt,  // arguments 0 to 3
  kMapped,      // argument 4, a descriptor
};

struct SystemCall {
  long number;
  Kind kind;
  Names names;
  int flags = -1;  // which argument has O_CREAT
};

constexpr SystemCall kCalls[] = {
    {SYS_openat, Kind::kOpen, Names::kPathAt, 2},
    {SYS_read, Kind::kRead, Names::kDescriptor},
    {SYS_pread64, Kind::kRead, Names::kDescriptor},
    {SYS_readv, Kind::kRead, Names::kDescriptor},
    {SYS_write, Kind::kWrite, Names::kDescriptor},
    {SYS_pwrite64, Kind::kWrite, Names::kDescriptor},
    {SYS_writev, Kind::kWrite, Names::kDescriptor},
    {SYS_fsync, Kind::kSync, Names::kDescriptor},
    {SYS_fdatasync, Kind::kSync, Names::kDescriptor},
    {SYS_renameat, Kind::kRename, Names::kTwoPathsAt},
    {SYS_renameat2, Kind::kRename, Names::kTwoPathsAt},
    {SYS_unlinkat, Kind::kRemove, Names::kPathAt},
    {SYS_mkdirat, Kind::kMakeDirectory, Names::kPathAt},
    {SYS_getdents64, Kind::kList, Names::kDescriptor},
    {SYS_fstat, Kind::kLook, Names::kDescriptor},
    {SYS_statx, Kind::kLook, Names::kPathAt},
    {SYS_faccessat, Kind::kLook, Names::kPathAt},
    {SYS_readlinkat, Kind::kLook, Names::kPathAt},
    {SYS_flock, Kind::kLock, Names::kDescriptor},
    {SYS_mmap, Kind::kMap, Names::kMapped},
    {SYS_ftruncate, Kind::kTruncate, Names::kDescriptor},
    {SYS_close, Kind::kClose, Names::kDescriptor},
#ifdef SYS_newfstatat
    {SYS_newfstatat, Kind::kLook, Names::kPathAt},
#endif
#ifdef SYS_faccessat2
    {SYS_faccessat2, Kind::kLook, Names::kPathAt},
#endif
#ifdef SYS_open  // an architecture with calls from before those that end in -at
    {SYS_open, Kind::kOpen, Names::kPath, 1},
    {SYS_creat, Kind::kCreate, Names::kPath},
    {SYS_rename, Kind::kRename, Names::kTwoPaths},
    {SYS_unlink, Kind::kRemove, Names::kPath},
    {SYS_rmdir, Kind::kRemove, Names::kPath},
    {SYS_mkdir, Kind::kMakeDirectory, Names::kPath},
    {SYS_stat, Kind::kLook, Names::kPath},
    {SYS_lstat, Kind::kLook, Names::kPath},
    {SYS_access, Kind::kLook, Names::kPath},
    {SYS_readlink, Kind::kLook, Names::kPath},
#endif
};

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
long Argument(const ucontext_t& context, int index) {
  constexpr int kRegisters[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  return context.uc_mcontext.gregs[kRegisters[index]];
}
void SetResult(ucontext_t* context, long result) { context->uc_mcontext.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
long Argument(const ucontext_t& context, int index) { return static_cast<long>(context.uc_mcontext.regs[index]); }
void SetResult(ucontext_t* context, long result) {
  context->uc_mcontext.regs[0] = static_cast<unsigned long long>(result);
}
#else
constexpr uint32_t kArchitecture = 0;
long Argument(const ucontext_t&, int) { return 0; }
void SetResult(ucontext_t*, long) {}
#endif

constexpr int kDescriptors = 500;
constexpr size_t kPathBytes = 512;

char root[kPathBytes];
int report = -1;
std::atomic<int64_t> main_count{0};
std::atomic<int64_t> thread_count{0};
std::atomic<bool> all_fail{false};
char paths[kDescriptors][kPathBytes];  // of the descriptors of files that count; else ""

// A system call in flight. Everything here may be inside malloc: it allocates nothing.
struct Call {
  long number;
  long arguments[6];
  const SystemCall* about = nullptr;
  Kind kind = Kind::kOpen;
  char path[kPathBytes] = "";
  char second_path[kPathBytes] = "";  // a rename's

  int Descriptor(int argument) const { return static_cast<int>(arguments[argument]); }
};

bool Counts(const char* path) {
  const size_t length = strlen(root);
  return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

void PathOfDescriptor(int descriptor, char* out) {
  out[0] = '\0';
  if (descriptor >= 0 && descriptor < kDescriptors) strcpy(out, paths[descriptor]);
}

void JoinPath(int folder, long name_argument, char* out) {
  const char* name = reinterpret_cast<const char*>(name_argument);
  out[0] = '\0';
  if (name == nullptr) return;
  if (name[0] == '/') {
    snprintf(out, kPathBytes, "%s", name);
    return;
  }
  PathOfDescriptor(folder, out);
  const size_t used = strlen(out);
  if (used > 0 && name[0] != '\0') snprintf(out + used, kPathBytes - used, "/%s", name);
}

void FindPaths(Call* call) {
  switch (call->about->names) {
    case Names::kDescriptor:
      return PathOfDescriptor(call->Descriptor(0), call->path);
    case Names::kPath:
      return JoinPath(AT_FDCWD, call->arguments[0], call->path);
    case Names::kPathAt:
      return JoinPath(call->Descriptor(0), call->arguments[1], call->path);
    case Names::kMapped:
      if ((call->arguments[3] & MAP_ANONYMOUS) == 0) PathOfDescriptor(call->Descriptor(4), call->path);
      return;
    case Names::kTwoPaths:
      JoinPath(AT_FDCWD, call->arguments[0], call->path);
      return JoinPath(AT_FDCWD, call->arguments[1], call->second_path);
    case Names::kTwoPathsAt:
      JoinPath(call->Descriptor(0), call->arguments[1], call->path);
      return JoinPath(call->Descriptor(2), call->arguments[3], call->second_path);
  }
}

// The call itself; the kernel's answer, an error as its negative number.
long Make(const Call& call) {
  // Synchronising takes a disk's time, and no fault here is a loss of power.
  if (call.kind == Kind::kSync && call.path[0] != '\0') return 0;
  const long* a = call.arguments;
  const long result = syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  return result < 0 ? -errno : result;
}

long MakeHalf(Call call) {
  const bool halves = (call.kind == Kind::kRead || call.kind == Kind::kWrite) && call.number != SYS_readv &&
                      call.number != SYS_writev && call.arguments[2] > 1;
  if (halves) call.arguments[2] /= 2;
  return Make(call);
}

// With "on": the calls that a full disk fails, or, for any other error, all that the error could be of.
bool CanFailSo(Kind kind, int error) {
  if (error != ENOSPC) return kind != Kind::kClose;
  return kind == Kind::kCreate || kind == Kind::kWrite || kind == Kind::kSync || kind == Kind::kRename ||
         kind == Kind::kMakeDirectory;
}

void Kill() { syscall(SYS_kill, syscall(SYS_getpid), SIGKILL); }

void ReportCall(const Call& call, int64_t number, long result) {
  if (report < 0) return;
  char line[2 * kPathBytes + 100];
  const int length = snprintf(line, sizeof(line), "%s %lld %s %s%s%s%s\n", InMainThread() ? "file" : "thread-file",
                              static_cast<long long>(number), kNames[static_cast<int>(call.kind)], call.path,
                              call.second_path[0] != '\0' ? " > " : "", call.second_path, result < 0 ? " failed" : "");
  if (write(report, line, static_cast<size_t>(length)) != length) CannotInject("cannot write the report");
}

long Answer(Call* call) {
  const Fault& fault = TheFault();
  const bool in_main = InMainThread();
  const int64_t number = (in_main ? main_count : thread_count).fetch_add(1) + 1;
  const bool hit = fault.target == (in_main ? Target::kFile : Target::kThreadFile) && number == fault.number;
  if (hit && fault.onwards) all_fail.store(true);
  long result = 0;
  if ((hit && fault.action == Action::kError) || (all_fail.load() && CanFailSo(call->kind, fault.error))) {
    if (call->kind == Kind::kClose) Make(*call);  // closed it is, whatever it says
    result = -fault.error;
  } else if (hit && fault.action == Action::kKillBefore) {
    Kill();
  } else if (hit && fault.action == Action::kShort) {
    result = MakeHalf(*call);
  } else {
    result = Make(*call);
  }
  ReportCall(*call, number, result);
  if (hit && fault.action == Action::kKillAfter) Kill();
  return result;
}

void OnSystemCall(int, siginfo_t* info, void* context_pointer) {
  const int errno_before = errno;
  auto* context = static_cast<ucontext_t*>(context_pointer);
  Call call{.number = info->si_syscall, .arguments = {}};
  for (int i = 0; i < 6; ++i) call.arguments[i] = Argument(*context, i);
  for (const SystemCall& known : kCalls) {
    if (known.number == call.number) call.about = &known;
  }
  call.kind = call.about->kind;
  if (call.about->flags >= 0 && (call.arguments[call.about->flags] & O_CREAT) != 0) call.kind = Kind::kCreate;
  FindPaths(&call);
  if (!Counts(call.path)) call.path[0] = '\0';
  const long result = call.path[0] != '\0' ? Answer(&call) : Make(call);
  if (call.kind == Kind::kOpen || call.kind == Kind::kCreate) {
    if (result >= 0 && result < kDescriptors) strcpy(paths[result], call.path);
  } else if (call.kind == Kind::kClose && call.Descriptor(0) >= 0 && call.Descriptor(0) < kDescriptors) {
    paths[call.Descriptor(0)][0] = '\0';
  }
  SetResult(context, result);
  errno = errno_before;
}

// Traps the calls of kCalls, except those that are made by syscall(), which OnSystemCall itself uses.
void InstallFilter() {
  constexpr size_t kNumber = sizeof(kCalls) / sizeof(kCalls[0]);
  constexpr uint32_t kSyscallBytes = 64;
  const auto inside = reinterpret_cast<uint64_t>(dlsym(RTLD_NEXT, "syscall"));
  const auto load = [](size_t offset) { return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, uint32_t(offset)); };
  const auto jump = [](uint16_t test, uint64_t value, size_t yes, size_t no) {
    return sock_filter BPF_JUMP(BPF_JMP | test | BPF_K, uint32_t(value), uint8_t(yes), uint8_t(no));
  };
  const auto answer = [](uint32_t what) { return sock_filter BPF_STMT(BPF_RET | BPF_K, what); };
  sock_filter filter[kNumber + 11];
  size_t size = 0;
  filter[size++] = load(offsetof(seccomp_data, arch));
  filter[size++] = jump(BPF_JEQ, kArchitecture, 0, kNumber + 1);
  filter[size++] = load(offsetof(seccomp_data, nr));
  for (size_t i = 0; i < kNumber; ++i) {
    filter[size++] = jump(BPF_JEQ, static_cast<uint64_t>(kCalls[i].number), kNumber - i, 0);
  }
  filter[size++] = answer(SECCOMP_RET_ALLOW);
  // A little-endian machine's low and high half of the caller's address.
  filter[size++] = load(offsetof(seccomp_data, instruction_pointer) + 4);
  filter[size++] = jump(BPF_JEQ, inside >> 32, 0, 3);
  filter[size++] = load(offsetof(seccomp_data, instruction_pointer));
  filter[size++] = jump(BPF_JGE, inside & 0xffffffff, 0, 1);
  filter[size++] = jump(BPF_JGE, (inside + kSyscallBytes) & 0xffffffff, 0, 1);
  filter[size++] = answer(SECCOMP_RET_TRAP);
  filter[size++] = answer(SECCOMP_RET_ALLOW);
  static_assert(kNumber + 11 < 255);
  const sock_fprog program = {static_cast<unsigned short>(size), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    CannotInject("this system does not let a process filter its own system calls");
  }
}

}  // namespace

void StartFiles(const char* folder, int report_descriptor) {
  if (kArchitecture == 0) CannotInject("not written for this processor");
  if (snprintf(root, sizeof(root), "%s", folder) >= static_cast<int>(sizeof(root))) CannotInject("too long a path");
  report = report_descriptor;
  struct sigaction action = {};
  action.sa_sigaction = OnSystemCall;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  InstallFilter();
}

}  // namespace faults
