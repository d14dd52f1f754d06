// The one rule of who may declare a rank lost: its times fit each other.
#include "core/failure_detection.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FailureDetection, TheLastResortComesAfterAllThatTheOthersMayNeed) {
  for (const uint64_t lease_ttl_ns : {100 * kNsPerMs, kDefaultLeaseTtlNs, 600 * kNsPerS}) {
    const uint64_t patience_ns = ServerPatienceNs(lease_ttl_ns, /*scheduler_is_colocated=*/false);
    EXPECT_GT(patience_ns, lease_ttl_ns) << "the scheduler declares a silent rank lost before";
    EXPECT_GE(patience_ns, kRankNoticesWithinNs + kReachPatienceNs + kReportTimeoutNs + kMoveNs);
    EXPECT_EQ(ServerPatienceNs(lease_ttl_ns, /*scheduler_is_colocated=*/true), lease_ttl_ns) << "F11 goes on to hold";
  }
}

TEST(FailureDetection, ASchedulerThatIsAloneTakesEveryLease) {
  EXPECT_TRUE(CheckLeases(100 * kNsPerMs, 0).ok());
  EXPECT_TRUE(CheckLeases(600 * kNsPerS, 0).ok());
}

TEST(FailureDetection, ALeaderLeaseThatOutlastsTheServersPatienceIsRefusedWithWhatToGive) {
  EXPECT_TRUE(CheckLeases(kDefaultLeaseTtlNs, 5 * kNsPerS).ok());
  EXPECT_TRUE(CheckLeases(1500 * kNsPerMs, 3 * kNsPerS).ok());
  const absl::Status refused = CheckLeases(kDefaultLeaseTtlNs, 60 * kNsPerS);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--leader-lease 60000 does not fit --lease-ttl 5000"),
                    HasSubstr("declare a rank lost themselves after 14000 ms"),
                    HasSubstr("give --leader-lease 8333 or less, or a longer --lease-ttl")));
  EXPECT_TRUE(CheckLeases(kDefaultLeaseTtlNs, 8333 * kNsPerMs).ok());
  EXPECT_FALSE(CheckLeases(kDefaultLeaseTtlNs, 8334 * kNsPerMs).ok());
}

TEST(FailureDetection, ServersWaitAlsoWhereTheLeaderOfEtcdEndsTogetherWithThatOfTheSchedulers) {
  constexpr uint64_t kLeaderLeaseNs = 5 * kNsPerS;
  constexpr uint64_t kElectsAfterNs = 2 * kEtcdElectionTimeoutNs;  // at most, after the last sign of its leader
  constexpr uint64_t kRenewedLeaseNs = kLeaderLeaseNs + kEtcdElectionTimeoutNs;
  constexpr uint64_t kAnswersAtNs = kElectsAfterNs + kRenewedLeaseNs + kTakeOverOfSchedulerNs;
  EXPECT_EQ(NextSchedulerAnswersWithinNs(kLeaderLeaseNs), kAnswersAtNs);
  EXPECT_GE(kAnswersAtNs, 7900 * kNsPerMs) << "as long as it took with etcd 3.6.16";
  EXPECT_LE(kAnswersAtNs + HeartbeatPeriodNs(kDefaultLeaseTtlNs),
            ServerPatienceNs(kDefaultLeaseTtlNs, /*scheduler_is_colocated=*/false));
}

}  // namespace
}  // namespace shoal
