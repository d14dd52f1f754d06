// Forbids the calling thread a system call until the thread ends, as the security profile of a container does.
#ifndef SHOAL_TESTS_CONFORMANCE_FORBIDDEN_CALL_H_
#define SHOAL_TESTS_CONFORMANCE_FORBIDDEN_CALL_H_

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shoal {

// Give it a thread of its own. The call then fails with `error`.
inline void ForbidThisThread(uint32_t system_call, uint16_t error) {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, system_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = filter.size(), .filter = filter.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_FORBIDDEN_CALL_H_
