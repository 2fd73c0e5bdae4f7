// Builds the filter: which processor, then one comparison for each call.
#include "transform/forbidden_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace millrace::transform {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kProcessor = 0;
#endif
// Calls of the other numbering of x86-64 (x32) have this bit.
constexpr uint32_t kOtherNumbering = 0x40000000;

constexpr uint32_t kForbidden[] = {SYS_memfd_create,
                                   SYS_memfd_secret,
                                   SYS_shmget,
                                   SYS_msgget,
                                   SYS_semget,
                                   SYS_io_uring_setup,
                                   SYS_bpf,
                                   SYS_userfaultfd,
                                   SYS_perf_event_open,
                                   SYS_ptrace,
                                   SYS_process_vm_readv,
                                   SYS_process_vm_writev,
                                   SYS_keyctl,
                                   SYS_add_key,
                                   SYS_request_key,
                                   SYS_mount,
                                   SYS_umount2,
                                   SYS_pivot_root,
                                   SYS_unshare,
                                   SYS_setns,
                                   SYS_open_by_handle_at,
                                   SYS_kexec_load,
                                   SYS_init_module,
                                   SYS_finit_module,
                                   SYS_quotactl};

}  // namespace

std::string forbidden_calls() {
  if (kProcessor == 0) return {};
  std::vector<sock_filter> filter;
  const auto load = [&](size_t offset) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  };
  const auto answer = [&](uint32_t what) { filter.push_back(BPF_STMT(BPF_RET | BPF_K, what)); };
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  load(offsetof(seccomp_data, arch));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProcessor, 1, 0));
  answer(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOtherNumbering, 0, 1));
  answer(SECCOMP_RET_KILL_PROCESS);
  for (const uint32_t call : kForbidden) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    answer(kRefuse);
  }
  answer(SECCOMP_RET_ALLOW);
  return {reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof(sock_filter)};
}

}  // namespace millrace::transform
