// How the I/O thread sleeps while a device copies, which wakes nobody.
#include <sys/prctl.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "net/forwarding_transport.h"
#include "net/loopback/loopback_transport.h"
#include "tests/simulated_cuda/program_on_device.h"
#include "worker/library/io_thread.h"

namespace shoal {
namespace {

// Says what the kernel adds to the sleep of the thread that goes to sleep, when it first does.
class SleepersTransport final : public ForwardingTransport {
 public:
  SleepersTransport(std::unique_ptr<Transport> below, std::promise<int>* timer_slack_ns)
      : ForwardingTransport(std::move(below)), timer_slack_ns_(timer_slack_ns) {}

  bool Arm() override {
    if (timer_slack_ns_ != nullptr) std::exchange(timer_slack_ns_, nullptr)->set_value(prctl(PR_GET_TIMERSLACK));
    return below()->Arm();
  }

 private:
  std::promise<int>* timer_slack_ns_;
};

int TimerSlackNs(std::unique_ptr<CudaStager> stager) {
  LoopbackNetwork network;
  CompletionQueue completions;
  MemberQueue member;
  const std::unique_ptr<NoticeLog> notices = NoticeLog::Start("", /*quiet=*/true).value();
  std::promise<int> timer_slack_ns;
  std::future<int> answer = timer_slack_ns.get_future();
  const std::unique_ptr<IoThread> io =
      IoThread::Start(std::make_unique<SleepersTransport>(network.MakeTransport({}).value(), &timer_slack_ns), nullptr,
                      std::move(stager), {}, &completions, &member, notices.get())
          .value();
  if (answer.wait_for(std::chrono::seconds(30)) != std::future_status::ready) return -1;
  return answer.get();
}

TEST(IoThreadDevice, ASleepWhileCopiesAreUnderWayIsNotMadeLonger) {
  auto stager =
      CudaStager::Make({.library = CudaLibraryForTests(SHOAL_SIMULATED_CUDA), .arena_bytes = 1 << 20}).value();
  const int timer_slack_ns = TimerSlackNs(std::move(stager));
  EXPECT_GT(timer_slack_ns, 0);
  EXPECT_LE(timer_slack_ns, static_cast<int>(CudaStager::kPollWithinNs / 10));
}

TEST(IoThreadDevice, WithoutDevicesTheKernelMayWakeItTogetherWithOtherThreads) {
  EXPECT_EQ(TimerSlackNs(nullptr), prctl(PR_GET_TIMERSLACK));
}

}  // namespace
}  // namespace shoal
