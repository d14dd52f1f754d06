// The worker's control port under virtual time, at a simulated scheduler.
#include "sim/sim_scheduler_port.h"

#include "core/version.h"
#include "sim/scheduler_process.h"
#include "tests/conformance/scheduler_port/scheduler_port_suite.h"

namespace shoal::sim {
namespace {

class SimHarness : public SchedulerPortHarness {
 public:
  explicit SimHarness(size_t followers) : world_(1), control_(&world_, 20'000), disk_(&world_), followers_(followers) {
    StartScheduler();
    port_ = std::make_unique<SimSchedulerPort>(
        &world_, &control_, "worker", [this] { return now_ns(); }, [] {});
    Idle();
  }

  SchedulerPort& port() override { return *port_; }
  void DestroyPort() override { port_.reset(); }
  uint64_t now_ns() override { return world_.now_ns(); }
  void Idle() override { world_.RunUntil(world_.now_ns() + kNsPerMs); }
  void StopScheduler() override {
    scheduler_.reset();
    for (auto& follower : followers_) follower.reset();
  }
  void StartScheduler() override {
    disk_.LoseState();
    scheduler_ = std::make_unique<SchedulerProcess>(&world_, profile_, &control_, &disk_);
    for (auto& follower : followers_) {
      follower = std::make_unique<SimFollower>(&control_, profile_.lease_ttl_ms * kNsPerMs);
    }
    world_.RunUntil(world_.now_ns() + 50 * kNsPerMs);
  }
  void AddServer() override {
    bool registered = false;
    scheduler::RegisterServer server{
        .name = "a", .incarnation = Incarnation(1), .addresses = {"10.0.0.1:1"}, .node = "node-of-a"};
    server.control_version = kControlVersion;
    server.oldest_control_version = kOldestControlVersion;
    control_.Call({alive_, "server"}, server, kNsPerS,
                  [&](const absl::StatusOr<scheduler::Response>& answer) { registered = answer.ok(); });
    world_.RunUntil(world_.now_ns() + kNsPerS);
    EXPECT_TRUE(registered);
  }
  // All schedulers stand still, and another one takes the lead.
  void SilenceConnections() override {
    scheduler_->PauseUntil(kNoDeadline);
    silent_ = std::move(scheduler_);
    for (auto& follower : followers_) follower->StandStillUntil(kNoDeadline);
    scheduler_ = std::make_unique<SchedulerProcess>(&world_, profile_, &control_, &disk_);
    Idle();
  }

 private:
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Profile profile_;
  World world_;
  SimControl control_;
  SimDisk disk_;
  std::unique_ptr<SchedulerProcess> scheduler_;
  std::unique_ptr<SchedulerProcess> silent_;
  std::vector<std::unique_ptr<SimFollower>> followers_;
  std::unique_ptr<SimSchedulerPort> port_;
};

SchedulerPortKind Kind(const std::string& name, size_t followers) {
  return {name, [followers] { return std::make_unique<SimHarness>(followers); }};
}

INSTANTIATE_TEST_SUITE_P(Sim, SchedulerPortSuite, testing::Values(Kind("OneScheduler", 0), Kind("ThreeSchedulers", 2)),
                         SchedulerPortKindName);

}  // namespace
}  // namespace shoal::sim
