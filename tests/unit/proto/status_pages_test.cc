#include "proto/status_pages.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StatusPagesTest, ServersOfAllPagesComeInOneList) {
  std::vector<std::string> asked;
  v1::ListServersRequest request;
  request.set_page_size(1);
  const auto servers = ReadServers(request, [&](const v1::ListServersRequest& page) {
    EXPECT_EQ(page.page_size(), 1u);
    asked.push_back(page.page_token());
    v1::ListServersResponse answer;
    answer.add_servers()->set_name(page.page_token().empty() ? "alpha" : "beta");
    if (page.page_token().empty()) answer.set_next_page_token("2");
    return answer;
  });
  ASSERT_TRUE(servers.ok()) << servers.status();
  ASSERT_EQ(servers->servers_size(), 2);
  EXPECT_EQ(servers->servers(0).name(), "alpha");
  EXPECT_EQ(servers->servers(1).name(), "beta");
  EXPECT_EQ(servers->next_page_token(), "");
  EXPECT_THAT(asked, ElementsAre("", "2"));
}

// Job 1, the first ranks of job 2; the rest of them; its groups, and job 3.
absl::StatusOr<v1::ListJobsResponse> PageOfJobs(const v1::ListJobsRequest& request) {
  const std::string& token = request.page_token();
  v1::ListJobsResponse page;
  if (token.empty()) page.add_jobs()->set_job_id(1);
  v1::JobStatus* const job = page.add_jobs();
  job->set_job_id(2);
  job->set_name("large");
  job->set_load_is_whole(token.empty());
  for (const uint64_t count : {uint64_t{3}, uint64_t{4}}) job->mutable_load()->add_op_time_counts(count);
  if (token == "2/group/0") {
    job->add_groups()->set_name("world");
    job->set_state("failed");
    page.add_jobs()->set_job_id(3);
    return page;
  }
  job->set_state("running");
  job->add_ranks()->set_rank(token.empty() ? 0 : 1);
  page.set_next_page_token(token.empty() ? "2/rank/1" : "2/group/0");
  return page;
}

TEST(StatusPagesTest, AJobThatComesInPartsIsWholeAgain) {
  const auto jobs = ReadJobs({}, PageOfJobs);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->jobs_size(), 3);
  EXPECT_EQ(jobs->jobs(0).job_id(), 1u);
  EXPECT_EQ(jobs->jobs(2).job_id(), 3u);
  const v1::JobStatus& job = jobs->jobs(1);
  EXPECT_EQ(job.name(), "large");
  EXPECT_EQ(job.state(), "failed") << "as it is now";
  EXPECT_FALSE(job.load_is_whole()) << "it was when the first part was made";
  EXPECT_EQ(job.load().op_time_counts_size(), 2) << "each part has them all";
  ASSERT_EQ(job.ranks_size(), 2);
  EXPECT_EQ(job.ranks(1).rank(), 1u);
  ASSERT_EQ(job.groups_size(), 1);
}

TEST(StatusPagesTest, AnErrorOfAnyPageIsThatOfTheList) {
  const auto jobs = ReadJobs({}, [](const v1::ListJobsRequest& page) -> absl::StatusOr<v1::ListJobsResponse> {
    if (page.page_token() == "2/group/0") return absl::UnavailableError("nobody leads");
    return PageOfJobs(page);
  });
  EXPECT_EQ(jobs.status(), absl::UnavailableError("nobody leads"));
}

TEST(StatusPagesTest, APageThatFollowsItselfEndsTheList) {
  const auto jobs = ReadJobs({}, [](const v1::ListJobsRequest&) {
    v1::ListJobsResponse page;
    page.set_next_page_token("7");
    return page;
  });
  EXPECT_EQ(jobs.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(jobs.status().message()), HasSubstr("page \"7\""));
}

}  // namespace
}  // namespace shoal
