// Why a process of this node can't be connected to: whether it is worth while to wait for it, or to try again.
#include "net/shm/same_node_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/conformance/forbidden_call.h"

namespace shoal {
namespace {

TEST(SameNodeSocket, OnlyWhereNobodyListensIsSomebodyYetToCome) {
  const auto code_of = [](int error) { return WhyNotConnected("10.0.0.7:7101", error).code(); };
  EXPECT_EQ(code_of(ECONNREFUSED), absl::StatusCode::kNotFound);
  EXPECT_EQ(code_of(EAGAIN), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code_of(EACCES), absl::StatusCode::kPermissionDenied) << "SELinux and AppArmor";
  EXPECT_EQ(code_of(EPERM), absl::StatusCode::kPermissionDenied) << "Landlock";
  EXPECT_EQ(code_of(ENOMEM), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(EPROTOTYPE), absl::StatusCode::kInternal);
  for (const int error : {EAGAIN, EACCES, EPERM, ENOMEM, EPROTOTYPE}) {
    EXPECT_THAT(std::string(WhyNotConnected("10.0.0.7:7101", error).message()),
                testing::HasSubstr(std::strerror(error)));
  }
}

TEST(SameNodeSocket, AConnectThatIsForbiddenSaysSo) {
  const std::string address = "same-node-socket-test-" + std::to_string(getpid());
  const absl::StatusOr<FileDescriptor> listener = ListenOnThisNode(address);
  ASSERT_TRUE(listener.ok()) << listener.status();
  absl::Status status;
  std::thread([&] {
    ForbidThisThread(SYS_connect, EACCES);
    status = ConnectOnThisNode(address).status();
  }).join();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_TRUE(ConnectOnThisNode(address).ok()) << "another thread may";
}

}  // namespace
}  // namespace shoal
