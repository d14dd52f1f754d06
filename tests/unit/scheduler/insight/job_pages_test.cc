// The list of jobs page by page, as the machine answers it.
#include "scheduler/insight/job_pages.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/insight/page_room.h"
#include "scheduler/rpc/control_messages.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

constexpr uint64_t kIncarnation = 100;  // of every rank

JobState StateOf(uint64_t id, const std::string& name, uint32_t ranks) {
  JobState job;
  job.id = JobId(id);
  job.name = name;
  job.world_size = ranks;
  job.phase = JobPhase::kRunning;
  for (uint32_t number = 0; number < ranks; ++number) {
    RankState& rank = job.ranks[JobRank(number)];
    rank.incarnation = Incarnation(kIncarnation);
    rank.node = absl::StrCat("node-", number);
    rank.pid = 1000 + number;
  }
  return job;
}

PersistedState StateWith(uint64_t jobs, uint32_t ranks_each) {
  PersistedState state = NewState();
  for (uint64_t id = 1; id <= jobs; ++id) state.jobs.push_back(StateOf(id, absl::StrCat("job-", id), ranks_each));
  state.next_job_id = jobs + 1;
  return state;
}

// The parts of all pages. `between` is called with each page that is not the last.
std::vector<JobView> ReadAll(
    MachineHarness* harness, ListJobs request,
    const std::function<void(const JobsPage&)>& between = [](const JobsPage&) {}) {
  std::vector<JobView> read;
  for (int pages = 0; pages < 1000; ++pages) {
    JobsPage page = harness->Ask<JobsPage>(request);
    v1::ListJobsResponse message;
    ToMessage(page, &message);
    EXPECT_LE(message.ByteSizeLong(), kMaxPageBytes);
    EXPECT_TRUE(request.page_size == 0 || page.jobs.size() <= request.page_size) << page.jobs.size();
    if (!page.next_page_token.empty()) between(page);
    std::ranges::move(page.jobs, std::back_inserter(read));
    if (page.next_page_token.empty()) return read;
    request.page_token = page.next_page_token;
  }
  ADD_FAILURE() << "the list does not end";
  return read;
}

std::vector<uint64_t> Ids(const std::vector<JobView>& jobs) {
  std::vector<uint64_t> ids;
  for (const JobView& job : jobs) ids.push_back(job.job.value());
  return ids;
}

TEST(JobPagesTest, ASmallClusterComesInOnePage) {
  MachineHarness harness(StateWith(/*jobs=*/100, /*ranks_each=*/8));
  const auto page = harness.Ask<JobsPage>(ListJobs());
  EXPECT_THAT(page.jobs, SizeIs(100));
  EXPECT_EQ(page.next_page_token, "");
  EXPECT_THAT(page.jobs[0].ranks, SizeIs(8));
}

TEST(JobPagesTest, FourThousandJobsComeWholeAndOnceInSmallAnswers) {
  constexpr uint32_t kRanksEach = 4;
  constexpr uint64_t kWorking = 2000;  // more than a page has
  MachineHarness harness(StateWith(kMaxLiveJobs, kRanksEach));
  // Ranks that work have rates, which take room as well.
  for (const uint64_t ops : {1000, 1010}) {
    if (ops > 1000) harness.Advance(1000);
    for (uint64_t id = 1; id <= kWorking; ++id) {
      for (uint32_t rank = 0; rank < kRanksEach; ++rank) {
        HeartbeatWorker beat = Beat(JobId(id), rank, kIncarnation);
        beat.load.ops_completed = ops;
        harness.Ask<WorkerRenewed>(beat);
      }
    }
  }
  size_t pages = 1;
  const std::vector<JobView> jobs = ReadAll(&harness, {}, [&](const JobsPage& page) {
    ++pages;
    EXPECT_THAT(page.jobs, SizeIs(Ge(1000u))) << "no more pages than it takes";
  });
  EXPECT_GE(pages, 2u);
  ASSERT_THAT(jobs, SizeIs(kMaxLiveJobs));
  for (uint64_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].job, JobId(i + 1));
    EXPECT_THAT(jobs[i].ranks, SizeIs(kRanksEach));
    for (const RankView& rank : jobs[i].ranks) EXPECT_EQ(rank.rates.has_value(), i < kWorking);
  }
}

TEST(JobPagesTest, JobsThatComeAndGoBetweenPagesHideAndDoubleNoOthers) {
  MachineHarness harness(StateWith(kMaxLiveJobs, /*ranks_each=*/1));
  std::set<uint64_t> ended;
  uint64_t begun = 0;
  const auto end = [&](uint64_t id) {
    if (ended.insert(id).second) harness.Ask<Done>(Leave(JobId(id), 0, kIncarnation));
  };
  const std::vector<JobView> jobs = ReadAll(&harness, {.page_size = 150}, [&](const JobsPage& page) {
    const uint64_t last = page.jobs.back().job.value();
    // The last one that has been told, the next one, where the token points, and one far ahead.
    for (const uint64_t id : {last, last + 1, kMaxLiveJobs - ended.size()}) end(id);
    harness.Ask<JobJoined>(Join(absl::StrCat("new-", ++begun), 1, 0, kIncarnation));
  });
  ASSERT_GT(ended.size(), kMaxPastJobs) << "or none is forgotten";
  const std::vector<uint64_t> ids = Ids(jobs);
  EXPECT_TRUE(std::ranges::is_sorted(ids));
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end()) << "one came twice";
  for (uint64_t id = 1; id <= kMaxLiveJobs; ++id) {
    EXPECT_TRUE(ended.contains(id) || std::ranges::binary_search(ids, id)) << id;
  }
  EXPECT_GT(ids.back(), kMaxLiveJobs) << "new ones come last";
}

TEST(JobPagesTest, APageHasNoMoreJobsThanAreAskedFor) {
  MachineHarness harness(StateWith(/*jobs=*/5, /*ranks_each=*/1));
  const auto first = harness.Ask<JobsPage>(ListJobs{.page_size = 2});
  EXPECT_THAT(Ids(first.jobs), ElementsAre(1, 2));
  EXPECT_EQ(first.next_page_token, "3");
  EXPECT_THAT(Ids(ReadAll(&harness, {.page_size = 2})), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(harness.Ask<JobsPage>(ListJobs{.page_size = 5}).next_page_token, "") << "nothing is left";
}

class LargeJobTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kRanks = 16'000;
  static constexpr uint32_t kGroups = 20;  // that are open, and as many that wait

  LargeJobTest() : harness_(State()) {
    std::vector<JobRank> all;
    for (uint32_t rank = 0; rank < kRanks; ++rank) all.emplace_back(rank);
    for (uint32_t i = 0; i < kGroups; ++i) {
      harness_.Send(JoinGroup{.job = JobId(2),
                              .rank = JobRank(0),
                              .incarnation = Incarnation(kIncarnation),
                              .group_name = absl::StrCat("waits/", 100 + i),
                              .ranks = all,
                              .wait_ms = 3000,
                              .link = {}});
    }
  }

  static PersistedState State() {
    PersistedState state = StateWith(/*jobs=*/3, /*ranks_each=*/1);
    state.jobs[1] = StateOf(2, "large", kRanks);
    for (uint32_t i = 0; i < kGroups; ++i) {
      GroupState group;
      group.id = GroupId(i + 1);
      group.name = absl::StrCat("open-", 100 + i);
      for (uint32_t rank = 0; rank < kRanks; ++rank) group.ranks.emplace_back(rank);
      group.node_reduce = NodeReduceMode::kNodeAlone;
      state.jobs[1].groups.push_back(std::move(group));
    }
    state.next_group_id = kGroups + 1;
    return state;
  }

  // All its parts as one.
  static JobView Joined(const std::vector<JobView>& parts) {
    JobView job;
    for (const JobView& part : parts) {
      if (part.job != JobId(2)) continue;
      EXPECT_EQ(part.world_size, kRanks);
      job.ranks.insert(job.ranks.end(), part.ranks.begin(), part.ranks.end());
      job.groups.insert(job.groups.end(), part.groups.begin(), part.groups.end());
    }
    return job;
  }

  MachineHarness harness_;
};

TEST_F(LargeJobTest, AJobThatNoPageHasRoomForComesInPartsAndTheOthersWhole) {
  const std::vector<JobView> parts = ReadAll(&harness_, {});
  EXPECT_THAT(parts, SizeIs(AllOf(Ge(5u), Le(12u))));
  EXPECT_EQ(parts.front().job, JobId(1));
  EXPECT_EQ(parts.back().job, JobId(3));
  EXPECT_TRUE(std::ranges::is_sorted(Ids(parts)));
  const JobView job = Joined(parts);
  ASSERT_THAT(job.ranks, SizeIs(kRanks));
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.ranks[rank].rank, JobRank(rank));
  ASSERT_THAT(job.groups, SizeIs(2 * kGroups));
  for (uint32_t i = 0; i < kGroups; ++i) {
    EXPECT_EQ(job.groups[i].state.name, absl::StrCat("open-", 100 + i));
    EXPECT_EQ(job.groups[kGroups + i].state.name, absl::StrCat("waits/", 100 + i));
    EXPECT_THAT(job.groups[kGroups + i].missing_ranks, SizeIs(kRanks - 1));
  }
}

TEST_F(LargeJobTest, ItsGroupsAreLeftOutIfNotWanted) {
  const std::vector<JobView> parts = ReadAll(&harness_, {.name = "large", .without_groups = true});
  EXPECT_THAT(Ids(parts), Each(2));
  EXPECT_THAT(Joined(parts).ranks, SizeIs(kRanks));
  EXPECT_THAT(Joined(parts).groups, IsEmpty());
}

TEST(JobPagesTest, WhenAJobHasGoneBetweenItsPartsTheNextOneComesWhole) {
  PersistedState state = StateWith(/*jobs=*/3, /*ranks_each=*/2);
  state.jobs.erase(state.jobs.begin() + 1);
  MachineHarness harness(state);
  for (const std::string token : {"2/rank/9000", "2/slow-server/1", "2/group/7", "2/waiting-group/world"}) {
    const auto page = harness.Ask<JobsPage>(ListJobs{.page_token = token});
    EXPECT_THAT(Ids(page.jobs), ElementsAre(3)) << token;
    EXPECT_THAT(page.jobs.at(0).ranks, SizeIs(2)) << token;
  }
}

TEST(JobPagesTest, JobsOfOneNameAreThePastOnesAndTheNewest) {
  MachineHarness harness(StateWith(/*jobs=*/3, /*ranks_each=*/1));
  harness.Ask<Done>(Leave(JobId(2), 0, kIncarnation));
  const auto again = harness.Ask<JobJoined>(Join("job-2", 1, 0, kIncarnation));
  EXPECT_THAT(Ids(ReadAll(&harness, {.name = "job-2"})), ElementsAre(2, again.job.value()));
  EXPECT_THAT(Ids(ReadAll(&harness, {.name = "job-2", .page_size = 1})), ElementsAre(2, again.job.value()));
}

TEST(JobPagesTest, ANameThatNoJobHasIsToldWithThoseThatThereAre) {
  MachineHarness harness(StateWith(/*jobs=*/2, /*ranks_each=*/1));
  const absl::Status status = harness.Try(ListJobs{.name = "bert"});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no job is named \"bert\"; open jobs: job-1, job-2"));
}

TEST(JobPagesTest, ATokenThatNobodyHasGivenIsRefusedWithWhatToDo) {
  MachineHarness harness(StateWith(/*jobs=*/2, /*ranks_each=*/1));
  for (const std::string token : {"x", "-1", "1/", "1/rank", "1/rank/", "1/rank/x", "1/rank/4294967296", "1/ranks/3",
                                  "/rank/3", "18446744073709551616", "1/group/2/3"}) {
    const absl::Status status = harness.Try(ListJobs{.page_token = token});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << token;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat("page_token \"", token, "\"")), HasSubstr("ask again without one")));
  }
}

TEST(JobPagesTest, ATokenBehindTheLastJobHasNothing) {
  MachineHarness harness(StateWith(/*jobs=*/2, /*ranks_each=*/1));
  for (const std::string token : {"3", "2/rank/5", "2/slow-server/1", "2/group/9", "2/waiting-group/a/b"}) {
    const auto page = harness.Ask<JobsPage>(ListJobs{.page_token = token});
    EXPECT_EQ(page.next_page_token, "");
    for (const JobView& job : page.jobs) EXPECT_THAT(job.ranks, IsEmpty()) << token;
  }
}

}  // namespace
}  // namespace shoal::scheduler
