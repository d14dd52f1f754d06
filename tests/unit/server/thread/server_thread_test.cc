#include "server/thread/server_thread.h"

#include <future>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

ServerThreadOptions Options() {
  ServerThreadOptions options;
  options.index = 3;
  options.slot_memory_bytes = 1 << 20;
  return options;
}

TEST(ServerThread, SaysWhyItsTransportCanNotBeMade) {
  ServerThreadOptions options = Options();
  options.make_transport = [](const DataPlaneOptions&) { return absl::UnavailableError("no such device"); };
  EXPECT_EQ(ServerThread::Start(options).status(), absl::UnavailableError("no such device"));
}

// What the thread uses is left to it, also when it goes on later.
TEST(ServerThread, AThreadThatIsStuckAtItsStartIsNamedAndLeftBehind) {
  const auto go_on = std::make_shared<std::promise<void>>();
  const auto has_gone_on = std::make_shared<std::promise<void>>();
  ServerThreadOptions options = Options();
  options.start_within_ns = 10 * kNsPerMs;
  options.make_transport = [go_on, has_gone_on](const DataPlaneOptions&) {
    go_on->get_future().wait();
    has_gone_on->set_value();
    return absl::UnavailableError("too late");
  };
  const absl::Status status = ServerThread::Start(options).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("I/O thread 3 does not listen after 10 ms"));
  go_on->set_value();
  has_gone_on->get_future().wait();
}

}  // namespace
}  // namespace shoal
