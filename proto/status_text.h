// What the status service's messages say, for those that show them: shoalctl and the scheduler's page. Pure; any
// thread.
#ifndef SHOAL_PROTO_STATUS_TEXT_H_
#define SHOAL_PROTO_STATUS_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shoal/v1/status.pb.h"

namespace shoal {

// protobuf's JSON with the names of the .proto files, in one line. Every field is present; 64-bit numbers are strings.
std::string ToJson(const google::protobuf::Message& message);
template <typename Messages>
std::string JsonList(const Messages& messages) {
  return absl::StrCat(
      "[", absl::StrJoin(messages, ",", [](std::string* text, const auto& each) { text->append(ToJson(each)); }), "]");
}

// Over all ranks of a job.
struct JobTotals {
  uint64_t live = 0;  // ranks
  uint64_t ops_completed = 0;
  uint64_t ops_failed = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t op_time_ns = 0;
  uint64_t age_ms = 0;         // of these numbers: the mean of the live ranks' newest heartbeats
  uint64_t newest_age_ms = 0;  // since something was heard of any rank, live or not; 0: the job has none
};
JobTotals TotalsOf(const v1::JobStatus& job);
// "3 of 4", or "3" of an open job.
std::string LiveText(const v1::JobStatus& job, const JobTotals& totals);

// The groups of a job, where the rails of a group, which are listed one by one, count once.
struct GroupCounts {
  uint64_t groups = 0;
  uint64_t rails = 0;
  uint64_t on_one_node = 0;
};
GroupCounts CountGroups(const v1::JobStatus& job);

// What is wrong with a job, in sentences: why it failed, lost ranks with their reasons, servers that are waited for,
// groups that are not complete, and slow ranks and servers.
// Those that show what is slow elsewhere leave it out.
std::vector<std::string> TroublesOf(const v1::JobStatus& job, bool with_slow = true);
// "": the rank is not among those of the job that were told.
std::string NodeOfRank(const v1::JobStatus& job, uint32_t rank);

// "12 %", of 0 to 1.
std::string ShareText(double share);

// "server alpha", or where one rank alone waits for it "the way from rank 3 to server alpha".
std::string SlowServerText(const v1::SlowServer& slow);

}  // namespace shoal

#endif  // SHOAL_PROTO_STATUS_TEXT_H_
