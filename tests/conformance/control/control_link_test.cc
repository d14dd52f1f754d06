// The control link of servers over gRPC and under virtual time: both pass the one suite.
#include <memory>

#include "net/wake_up.h"
#include "scheduler/scheduler.h"
#include "server/rpc/grpc_control_link.h"
#include "sim/scheduler_node.h"
#include "sim/sim_control_link.h"
#include "tests/conformance/control/control_link_suite.h"
#include "tests/conformance/control/silent_proxy.h"

namespace shoal {
namespace {

// A real scheduler of this process, behind a proxy that can fall silent.
class GrpcLink : public LinkUnderTest {
 public:
  GrpcLink()
      : scheduler_(*Scheduler::Start({.listen = "127.0.0.1:0"})),
        proxy_(scheduler_->address()),
        wake_up_(*WakeUp::Make()),
        link_(MakeGrpcControlLink(proxy_.address())) {
    link_->SetWake([this] { wake_up_->Signal(); });
  }

  ControlLink* link() override { return link_.get(); }
  void StopScheduler() override {
    proxy_.Stop();
    scheduler_->Stop();
  }
  void LoseWhatIsSent() override { proxy_.FallSilent(); }
  void AwaitWake() override {
    WaitReadable({wake_up_->fd()}, int64_t{10} * 1'000'000'000);
    wake_up_->Drain();
  }
  void Pass(uint64_t ms) override { WaitReadable({wake_up_->fd()}, static_cast<int64_t>(ms) * 1'000'000); }

 private:
  const std::unique_ptr<Scheduler> scheduler_;
  SilentProxy proxy_;
  const std::unique_ptr<WakeUp> wake_up_;
  const std::unique_ptr<ControlLink> link_;
};

// The real scheduler's loop and machine in a world of virtual time.
class SimLink : public LinkUnderTest {
 public:
  SimLink()
      : control_(&world_, /*latency_ns=*/1'000'000),
        disk_(&world_),
        scheduler_(std::make_unique<sim::SchedulerNode>(&world_, profile_, &control_, &disk_)),
        link_(&world_, &control_, "server") {
    link_.SetWake([this] { woken_ = true; });
  }

  ControlLink* link() override { return &link_; }
  void StopScheduler() override { scheduler_.reset(); }
  void LoseWhatIsSent() override { control_.Cut("server", /*from_caller=*/true, kNoDeadline / 2); }
  void AwaitWake() override {
    const uint64_t until_ns = world_.now_ns() + 10 * kNsPerS;
    while (!woken_ && world_.RunOne(until_ns)) {
    }
    woken_ = false;
  }
  void Pass(uint64_t ms) override { world_.RunUntil(world_.now_ns() + ms * kNsPerMs); }

 private:
  const sim::Profile profile_;
  sim::World world_{1};
  sim::SimControl control_;
  sim::SimDisk disk_;
  std::unique_ptr<sim::SchedulerNode> scheduler_;
  bool woken_ = false;
  sim::SimControlLink link_;
};

INSTANTIATE_TEST_SUITE_P(Links, ControlLinkSuite,
                         ::testing::Values(LinkKind{"Grpc", [] { return std::make_unique<GrpcLink>(); }},
                                           LinkKind{"Sim", [] { return std::make_unique<SimLink>(); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal
