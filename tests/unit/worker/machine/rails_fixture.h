// A group with rails in a worker machine: rank 1 of two nodes with two ranks each. Events are given by hand.
#ifndef SHOAL_TESTS_UNIT_WORKER_MACHINE_RAILS_FIXTURE_H_
#define SHOAL_TESTS_UNIT_WORKER_MACHINE_RAILS_FIXTURE_H_

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal::rails {

inline const WorkerMachineOptions kOptions = {.has_local_reduce = true};
inline const GroupHandle kGroup(0);
// Two parts of four chunks each; the second is this rank's.
inline constexpr uint64_t kPart = 4 * kChunkElements;
inline constexpr uint64_t kElements = 2 * kPart;
inline constexpr char kFirstOp[] = "all-reduce 1 of group \"world\" (2048 float32)";

inline std::shared_ptr<GroupInfo> Info(uint32_t servers, WireFormat wire = WireFormat::kAsIs) {
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(1, 4, servers);
  info->job_ranks = {JobRank(4), JobRank(5), JobRank(6), JobRank(7)};
  info->nodes = {"node-a", "node-a", "node-b", "node-b"};
  info->node_reduce = NodeReduceMode::kRails;
  info->wire = wire;
  auto rail = std::make_shared<GroupInfo>(*info);
  rail->rank = Rank(0);
  rail->job_ranks = {JobRank(5), JobRank(7)};
  rail->nodes = {"node-a", "node-b"};
  info->meeting_name = "cluster/1/0";
  info->local_ranks = {Rank(0), Rank(1)};
  info->rail = std::move(rail);
  return info;
}

class RailsTest : public ::testing::Test {
 protected:
  RailsTest() : worker(kOptions) {}

  void OpenAll(uint32_t servers = 1, uint32_t credit = 8, WireFormat wire = WireFormat::kAsIs) {
    worker.Open(Info(servers, wire));
    for (uint32_t k = 0; k < servers; ++k) worker.Up(k);
    for (uint32_t k = 0; k < servers; ++k) worker.Welcome(k, credit);
    worker.GiveLocal(LocalGroupMet{kGroup});
    ASSERT_EQ(worker.opened.size(), 1u);
    ASSERT_TRUE(worker.opened[0].status.ok()) << worker.opened[0].status;
    worker.Clear();
  }
  void Reduced(uint64_t ticket, uint64_t from, uint64_t to) {
    worker.GiveLocal(LocalPartReduced{kGroup, ticket, kPart + from, to - from});
  }
  void EndOp(uint64_t ticket, absl::Status status = absl::OkStatus()) {
    worker.GiveLocal(LocalOpEnded{kGroup, ticket, std::move(status)});
  }
  // The node reduces the whole part, and the servers answer all of it.
  void ReduceAndAnswer(uint64_t ticket) {
    Reduced(ticket, 0, kPart);
    worker.AnswerAll(2);
  }
  void Answer(const WorkerSendAction& send) {
    worker.Sent(send);
    worker.OfferResult(send, 2);
    const std::vector<WorkerAcceptAction> accepts = std::exchange(worker.accepts, {});
    ASSERT_EQ(accepts.size(), 1u);
    worker.Land(accepts[0]);
  }
  void FailOnNode(const absl::Status& status, uint32_t culprit, const std::vector<uint64_t>& tickets) {
    worker.GiveLocal(LocalGroupFailed{kGroup, status, LocalRank(culprit)});
    for (const uint64_t ticket : tickets) EndOp(ticket, status);
  }

  WorkerDriver worker;
};

}  // namespace shoal::rails

#endif  // SHOAL_TESTS_UNIT_WORKER_MACHINE_RAILS_FIXTURE_H_
