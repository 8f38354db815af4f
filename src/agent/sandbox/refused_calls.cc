// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/refused_calls.h"

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
  unsigned architecture, clone, unshare, first_key;  // add_key, request_key and keyctl follow each other
};
#if defined(__x86_64__)
constexpr Numbers kOwn{AUDIT_ARCH_X86_64, SYS_clone, SYS_unshare, SYS_add_key},
    kOther{AUDIT_ARCH_I386, 120, 310, 286};
constexpr unsigned kFirstX32 = 0x40000000;  // a second table of calls under the same architecture
static_assert(SYS_keyctl == SYS_add_key + 2 && SYS_request_key == SYS_add_key + 1);
#elif defined(__aarch64__)
constexpr Numbers kOwn{AUDIT_ARCH_AARCH64, SYS_clone, SYS_unshare, SYS_add_key},
    kOther{AUDIT_ARCH_ARM, 120, 337, 309};
constexpr unsigned kFirstX32 = ~0u;
static_assert(SYS_keyctl == SYS_add_key + 2 && SYS_request_key == SYS_add_key + 1);
#else
#error "which system calls are these?"
#endif

constexpr sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter answer(unsigned what) { return BPF_STMT(BPF_RET | BPF_K, what); }
constexpr sock_filter if_equal(unsigned value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
}
constexpr sock_filter if_from(unsigned value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, then, otherwise);
}

}  // namespace

bool refuse_calls(bool is_root) {
  // The flags are the low half of the first argument; both architectures are little-endian.
  const unsigned new_user = is_root ? CLONE_NEWUSER : 0, clone3 = is_root ? kNotThere : SECCOMP_RET_ALLOW;
  sock_filter code[] = {
      /* 0 */ load(offsetof(seccomp_data, arch)),
      /* 1 */ if_equal(kOwn.architecture, 0, 6),
      /* 2 */ load(offsetof(seccomp_data, nr)),
      /* 3 */ if_from(kFirstX32, 15, 0),
      /* 4 */ if_equal(kOwn.clone, 10, 0),
      /* 5 */ if_equal(kOwn.unshare, 9, 0),
      /* 6 */ if_from(kOwn.first_key + 3, 7, 0),
      /* 7 */ if_from(kOwn.first_key, 9, 12),
      /* 8 */ if_equal(kOther.architecture, 0, 10),
      /* 9 */ load(offsetof(seccomp_data, nr)),
      /* 10 */ if_equal(kOther.clone, 4, 0),
      /* 11 */ if_equal(kOther.unshare, 3, 0),
      /* 12 */ if_from(kOther.first_key + 3, 1, 0),
      /* 13 */ if_from(kOther.first_key, 3, 6),
      /* 14 */ if_equal(kClone3, 3, 5),
      /* 15 */ load(offsetof(seccomp_data, args)),
      /* 16 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, new_user, 0, 3),
      /* 17 */ answer(kRefuse),
      /* 18 */ answer(clone3),
      /* 19 */ answer(kNotThere),
      /* 20 */ answer(SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(code), code};
  // Without the flag kernels before 5.16 turn off speculation past stores for whom they filter, which costs
  // every program of the job.
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

}  // namespace stoker::agent
