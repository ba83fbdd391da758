#include "examples/course/checker/call_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace course {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Calls that fail whatever is asked of them. By number: what a system's headers do not know, its programs may still
// call.
constexpr long kRefused[] = {
    // Processes and programs.
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_unshare, SYS_setns,
    SYS_setpriority, SYS_sched_setscheduler, SYS_sched_setattr, SYS_sched_setparam, SYS_ioprio_set,
    // Signals to others, beside kill and tgkill.
    SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pidfd_getfd,
    // Files.
    SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_mkdirat, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_truncate,
    SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
    SYS_open_by_handle_at, SYS_memfd_create, SYS_swapon, SYS_quotactl, SYS_inotify_init1, SYS_fanotify_init,
#ifdef SYS_open
    SYS_creat, SYS_unlink, SYS_rename, SYS_mkdir, SYS_rmdir, SYS_link, SYS_symlink, SYS_mknod, SYS_chmod, SYS_chown,
    SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_fork, SYS_vfork,
#endif
    // Connections, and memory that outlives its process.
    SYS_socket, SYS_socketpair, SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open, SYS_mq_unlink, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_setup, SYS_open_tree, SYS_move_mount,
    SYS_fsopen, SYS_fsmount, SYS_fspick, SYS_mount_setattr};
// These fail as on a system that does not have them, whose place older calls take, which can be looked at.
constexpr long kUnknown[] = {SYS_clone3, SYS_openat2, SYS_io_uring_setup};

using Program = std::vector<sock_filter>;

void Load(Program& program, size_t offset) {
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
}
void LoadArgument(Program& program, size_t i) { Load(program, offsetof(seccomp_data, args) + 8 * i); }
void Return(Program& program, uint32_t action) { program.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
// The next instruction only if what is loaded has this value, or (of BPF_JSET) one of these bits.
void If(Program& program, uint16_t how, uint32_t value) {
  program.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | how | BPF_K), value, 0, 1));
}
void Unless(Program& program, uint16_t how, uint32_t value) {
  program.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | how | BPF_K), value, 1, 0));
}

constexpr uint32_t Fails(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

// A call that fails if the low half of its argument i is unlike what it may be; `refuse` compares and returns.
template <typename Refuse>
void Look(Program& program, long call, size_t i, const Refuse& refuse) {
  Program look;
  LoadArgument(look, i);
  refuse(look);
  Return(look, SECCOMP_RET_ALLOW);
  program.push_back(
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, static_cast<uint8_t>(look.size())));
  program.insert(program.end(), look.begin(), look.end());
}

}  // namespace

void FilterCalls() {
  Program program;
  Load(program, offsetof(seccomp_data, arch));
  Unless(program, BPF_JEQ, kArchitecture);
  Return(program, SECCOMP_RET_KILL_PROCESS);
  Load(program, offsetof(seccomp_data, nr));
  If(program, BPF_JGE, 0x40000000);  // the other numbers of x32
  Return(program, Fails(ENOSYS));
  for (const long call : kRefused) {
    If(program, BPF_JEQ, static_cast<uint32_t>(call));
    Return(program, Fails(EPERM));
  }
  for (const long call : kUnknown) {
    If(program, BPF_JEQ, static_cast<uint32_t>(call));
    Return(program, Fails(ENOSYS));
  }
  const auto is_not = [](uint32_t value) {
    return [value](Program& look) {
      Unless(look, BPF_JEQ, value);
      Return(look, Fails(EPERM));
    };
  };
  const auto writes = [](Program& look) {
    If(look, BPF_JSET, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    Return(look, Fails(EROFS));
  };
  const auto self = static_cast<uint32_t>(getpid());
  Look(program, SYS_kill, 0, is_not(self));  // abort and raise
  Look(program, SYS_tgkill, 0, is_not(self));
  Look(program, SYS_prlimit64, 0, is_not(0));
  Look(program, SYS_openat, 2, writes);
#ifdef SYS_open
  Look(program, SYS_open, 1, writes);
#endif
  Look(program, SYS_clone, 0, [](Program& look) {  // threads alone
    Unless(look, BPF_JSET, CLONE_THREAD);
    Return(look, Fails(EPERM));
  });
  Return(program, SECCOMP_RET_ALLOW);
  const sock_fprog filter = {static_cast<uint16_t>(program.size()), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) {
    throw std::runtime_error(std::string("seccomp: ") + std::strerror(errno));
  }
}

}  // namespace course
