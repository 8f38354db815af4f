// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/no_user_namespaces.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

namespace stoker::agent {
namespace {

constexpr unsigned kRefuse = SECCOMP_RET_ERRNO | EPERM, kNotThere = SECCOMP_RET_ERRNO | ENOSYS;
constexpr unsigned kClone3 = 435;  // the same on every architecture

struct Numbers {
  unsigned architecture, clone, unshare;
};
#if defined(__x86_64__)
constexpr Numbers kOwn{AUDIT_ARCH_X86_64, SYS_clone, SYS_unshare}, kOther{AUDIT_ARCH_I386, 120, 310};
constexpr unsigned kFirstX32 = 0x40000000;  // a second table of calls under the same architecture
#elif defined(__aarch64__)
constexpr Numbers kOwn{AUDIT_ARCH_AARCH64, SYS_clone, SYS_unshare}, kOther{AUDIT_ARCH_ARM, 120, 337};
constexpr unsigned kFirstX32 = ~0u;
#else
#error "which system calls make a user namespace?"
#endif

constexpr sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter answer(unsigned what) { return BPF_STMT(BPF_RET | BPF_K, what); }
constexpr sock_filter if_equal(unsigned value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
}

}  // namespace

bool refuse_user_namespaces() {
  // The flags are the low half of the first argument; both architectures are little-endian.
  static const sock_filter code[] = {
      /* 0 */ load(offsetof(seccomp_data, arch)),
      /* 1 */ if_equal(kOwn.architecture, 0, 5),
      /* 2 */ load(offsetof(seccomp_data, nr)),
      /* 3 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32, 11, 0),
      /* 4 */ if_equal(kOwn.clone, 7, 0),
      /* 5 */ if_equal(kOwn.unshare, 6, 0),
      /* 6 */ BPF_STMT(BPF_JMP | BPF_JA, 4),
      /* 7 */ if_equal(kOther.architecture, 0, 7),
      /* 8 */ load(offsetof(seccomp_data, nr)),
      /* 9 */ if_equal(kOther.clone, 2, 0),
      /* 10 */ if_equal(kOther.unshare, 1, 0),
      /* 11 */ if_equal(kClone3, 3, 4),
      /* 12 */ load(offsetof(seccomp_data, args)),
      /* 13 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 2),
      /* 14 */ answer(kRefuse),
      /* 15 */ answer(kNotThere),
      /* 16 */ answer(SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(code), const_cast<sock_filter*>(code)};
  // Without the flag kernels before 5.16 turn off speculation past stores for whom they filter, which costs
  // every program of the job.
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

}  // namespace stoker::agent
