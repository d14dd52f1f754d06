// What happened before groups failed, as their members have sent it (net/flight_recorder.h): kept for the operator, as
// members may have no disk to write it to. Pure; one thread.
//
// It is not saved: a scheduler that is started again, or begins to lead, has none. Memory is bounded: the groups that
// failed first are forgotten.
#ifndef SHOAL_SCHEDULER_INSIGHT_FLIGHT_RECORDS_H_
#define SHOAL_SCHEDULER_INSIGHT_FLIGHT_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "scheduler/machine/job.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMostFailedGroups = 16;  // a group with rails is several: one for each rank of a node
inline constexpr size_t kMostBytesOfFlightRecords = size_t{16} << 20;
inline constexpr size_t kMostBytesOfFlightRecord = size_t{512} << 10;
inline constexpr size_t kLeastBytesCounted = 4 << 10;  // of a record, however short: so there are not too many

class FlightRecords {
 public:
  // A second record of the same sender and group changes nothing. NotFound: the job (nullptr) or the sender is not
  // known. InvalidArgument: it names no group, or is too long. ResourceExhausted: the group's other members have all
  // the room.
  absl::Status Take(const SendFlightRecord& sent, const Job* job, const ServerRegistry& servers);

  // NotFound: there is none of what was asked for, and which there are. OutOfRange: no such member.
  absl::StatusOr<FlightRecordsView> View(const GetFlightRecords& request) const;

 private:
  struct Record {
    std::string member;  // the sender in words, by which it is known
    std::string text;

    size_t bytes() const;  // as they are counted
  };
  struct FailedGroup {
    JobId job;
    std::string job_name;
    GroupId group;
    std::vector<Record> records = {};  // in the order in which they came
    size_t bytes = 0;

    bool HasOf(const std::string& member) const;
  };

  absl::Status NoneOf(const GetFlightRecords& request) const;

  std::list<FailedGroup> groups_;  // by their first record, the oldest first
  size_t bytes_ = 0;               // of all of them
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_FLIGHT_RECORDS_H_
