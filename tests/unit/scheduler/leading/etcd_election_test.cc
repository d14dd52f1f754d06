// Elections and guarded writes against a real etcd.
#include "scheduler/leading/etcd_election.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/etcd_store.h"
#include "tests/conformance/store/etcd_process.h"
#include "tests/conformance/store/random_bytes.h"

namespace shoal::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr uint64_t kLeaseMs = 2000;

class EtcdElectionTest : public ::testing::Test {
 protected:
  EtcdElectionTest() : folder_(MakeFolder()), etcd_(folder_) {}
  ~EtcdElectionTest() override { std::filesystem::remove_all(folder_); }

  static std::string MakeFolder() {
    std::string pattern = ::testing::TempDir() + "/shoal-etcd-XXXXXX";
    return mkdtemp(pattern.data());
  }

  EtcdTarget Target() const { return *ParseEtcdTarget("etcd://" + etcd_.address() + "/test"); }

  static Standing StandUntilLeading(EtcdElection* election) {
    for (;;) {
      const absl::StatusOr<Standing> standing = election->Stand();
      if (standing.ok() && standing->leads) return *standing;
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  static absl::Status Save(EtcdStore* store, const std::string& state) {
    store->StartSave(1, state);
    for (;;) {
      if (const std::optional<Store::Saved> saved = store->PollSaved()) return saved->status;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::string folder_;
  EtcdProcess etcd_;
};

TEST_F(EtcdElectionTest, OneLeadsAndTheOthersKnowWhere) {
  EtcdClient client(Target());
  EtcdElection first(&client, "10.0.0.1:7070", kLeaseMs), second(&client, "10.0.0.2:7070", kLeaseMs);
  const absl::StatusOr<Standing> won = first.Stand();
  ASSERT_TRUE(won.ok()) << won.status();
  EXPECT_TRUE(won->leads);
  EXPECT_GT(first.leads_until_ns(), 0u);
  const absl::StatusOr<Standing> lost = second.Stand();
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_FALSE(lost->leads);
  EXPECT_EQ(lost->leader_address, "10.0.0.1:7070");
  EXPECT_EQ(lost->term, won->term);
  EXPECT_EQ(second.leads_until_ns(), 0u);
}

TEST_F(EtcdElectionTest, TheLeadOutlastsTheLeaseWhileItIsRenewed) {
  EtcdClient client(Target());
  EtcdElection election(&client, "a:1", kLeaseMs);
  ASSERT_TRUE(election.Stand()->leads);
  const uint64_t at_first = election.leads_until_ns();
  const auto deadline = steady_clock::now() + milliseconds(30'000);
  while (election.leads_until_ns() < at_first + 2 * kLeaseMs * 1'000'000 && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_GE(election.leads_until_ns(), at_first + 2 * kLeaseMs * 1'000'000);
  EtcdElection other(&client, "b:1", kLeaseMs);
  EXPECT_FALSE(other.Stand()->leads);
}

TEST_F(EtcdElectionTest, WhoResignsIsReplacedAtOnceAndTermsGrow) {
  EtcdClient client(Target());
  EtcdElection first(&client, "a:1", kLeaseMs), second(&client, "b:1", kLeaseMs);
  const int64_t term = first.Stand()->term;
  first.Resign();
  EXPECT_EQ(first.leads_until_ns(), 0u);
  const absl::StatusOr<Standing> next = second.Stand();
  ASSERT_TRUE(next.ok() && next->leads);
  EXPECT_GT(next->term, term);
}

TEST_F(EtcdElectionTest, AWriteOfAFormerTermIsRefusedAndChangesNothing) {
  EtcdClient client(Target());
  EtcdElection first(&client, "a:1", kLeaseMs), second(&client, "b:1", kLeaseMs);
  const Standing former = *first.Stand();
  EtcdStore old_store(&client, first.leader_key(), former.term);
  ASSERT_TRUE(Save(&old_store, "of the first").ok());
  EXPECT_FALSE(old_store.term_is_over());
  first.Resign();
  const Standing current = StandUntilLeading(&second);
  const std::string large(3'000'000, 'x');
  const absl::Status refused = Save(&old_store, large);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another scheduler leads"));
  EXPECT_TRUE(old_store.term_is_over());
  EtcdStore new_store(&client, second.leader_key(), current.term);
  EXPECT_EQ(**new_store.Load(), "of the first");
  ASSERT_TRUE(Save(&new_store, "of the second").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Save(&old_store, "late")));
  EXPECT_EQ(**new_store.Load(), "of the second");
}

TEST_F(EtcdElectionTest, ALeaderThatCanNotRenewStopsBeforeItsLeaseEnds) {
  EtcdClient client(Target());
  EtcdElection election(&client, "a:1", kLeaseMs);
  ASSERT_TRUE(election.Stand()->leads);
  etcd_.Stop();
  const auto since_start = steady_clock::now().time_since_epoch();
  const auto now_ns = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count());
  EXPECT_LT(election.leads_until_ns(), now_ns + kLeaseMs * 1'000'000);
  etcd_.GoOn();
}

TEST_F(EtcdElectionTest, AnEndpointThatIsGoneCostsAMomentOnly) {
  EtcdTarget target = Target();
  target.endpoints.insert(target.endpoints.begin(), "127.0.0.1:1");
  EtcdClient client(target);
  EtcdElection election(&client, "a:1", kLeaseMs);
  const absl::StatusOr<Standing> standing = election.Stand();
  ASSERT_TRUE(standing.ok()) << standing.status();
  EXPECT_TRUE(standing->leads);
}

TEST_F(EtcdElectionTest, ADamagedStateIsNotTakenForOne) {
  EtcdClient client(Target());
  EtcdElection election(&client, "a:1", kLeaseMs);
  const Standing standing = *election.Stand();
  EtcdStore store(&client, election.leader_key(), standing.term);
  ASSERT_TRUE(Save(&store, "good").ok());
  for (const std::string& value : {std::string("nonsense"), std::string("/test/state/x/ 00")}) {
    etcdserverpb::TxnRequest request;
    etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
    put->set_key("/test/state");
    put->set_value(value);
    ASSERT_TRUE(client.Transact(request, 5000).ok());
    EXPECT_TRUE(absl::IsDataLoss(store.Load().status())) << store.Load().status();
  }
}

// etcd keeps all that was ever written until it is told not to, and takes no more when it is full.
TEST_F(EtcdElectionTest, WhatWasWrittenLongAgoIsForgotten) {
  EtcdClient client(Target());
  EtcdElection election(&client, "a:1", kLeaseMs);
  EtcdStore store(&client, election.leader_key(), election.Stand()->term);
  etcdserverpb::RangeRequest as_at_first;
  as_at_first.set_key("/test/state");
  ASSERT_TRUE(Save(&store, "first").ok());
  as_at_first.set_revision(client.Read(as_at_first, 5000)->header().revision());
  ASSERT_TRUE(Save(&store, "second").ok());
  EXPECT_TRUE(client.Read(as_at_first, 5000).ok()) << "others may still want to see that";
  constexpr size_t kLargeBytes = 1'000'000;
  std::string large;
  for (uint64_t bytes = 0; bytes <= 2 * EtcdStore::kCompactAfterBytes; bytes += kLargeBytes) {
    large = RandomBytes(kLargeBytes, bytes);  // what has not changed is not written
    ASSERT_TRUE(Save(&store, large).ok());
  }
  const absl::Status forgotten = client.Read(as_at_first, 5000).status();
  EXPECT_TRUE(absl::IsOutOfRange(forgotten)) << forgotten;
  EXPECT_EQ(**store.Load(), large);
}

TEST(EtcdTarget, TakesEndpointsAndAPrefix) {
  const absl::StatusOr<EtcdTarget> target = ParseEtcdTarget("etcd://a:2379,[::1]:2380/shoal/prod/");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->endpoints, (std::vector<std::string>{"a:2379", "[::1]:2380"}));
  EXPECT_EQ(target->prefix, "/shoal/prod/");
  EXPECT_EQ(ParseEtcdTarget("etcd://a:1")->prefix, "/shoal/");
  EXPECT_EQ(ParseEtcdTarget("etcd://a:1/")->prefix, "/");
  for (const std::string wrong : {"", "etcd:/a:1", "file:///x", "etcd://", "etcd://a", "etcd://a:1,", "etcd://a:0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEtcdTarget(wrong).status())) << wrong;
  }
}

TEST(EtcdClient, SaysThatNobodyAnswers) {
  EtcdClient client(*ParseEtcdTarget("etcd://127.0.0.1:1"));
  const absl::StatusOr<EtcdClient::Lease> lease = client.GrantLease(kLeaseMs, 200);
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr("etcd at 127.0.0.1:1"));
}

}  // namespace
}  // namespace shoal::scheduler
