// The part of SchedulerMachine that keeps what happened before groups failed.
//
// Who sends it may have left, or have been lost, by then: that its job failed is why there is a record.
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

absl::StatusOr<std::string> SchedulerMachine::SenderInWords(const SendFlightRecord& request) const {
  if (request.server == ServerId()) {
    const auto& workers = jobs_.Find(request.job)->workers;
    const auto found = workers.find(request.rank);
    if (found != workers.end() && found->second.state.incarnation == request.incarnation) {
      return absl::StrCat("rank ", request.rank.value(), " on ", found->second.state.node);
    }
  } else {
    const ServerState* const server = servers_.Find(request.server);
    if (server != nullptr && server->incarnation == request.incarnation &&
        request.io_thread < server->addresses.size()) {
      return absl::StrCat("I/O thread ", request.io_thread, " of server ", server->name);
    }
  }
  return absl::NotFoundError("the sender of the record is no rank of the job and no server that is known here");
}

void SchedulerMachine::Answer(RequestHandle handle, const SendFlightRecord& request, Now) {
  const Job* const job = jobs_.Find(request.job);
  if (job == nullptr) {
    return ReplyNow(handle, absl::NotFoundError(absl::StrCat("no job has id ", request.job.value(), " here")));
  }
  const absl::StatusOr<std::string> sender = SenderInWords(request);
  if (!sender.ok()) return ReplyNow(handle, sender.status());
  if (absl::Status status = flight_records_.Take(request, job->name, *sender); !status.ok()) {
    return ReplyNow(handle, status);
  }
  ReplyNow(handle, Response(Done()));
}

void SchedulerMachine::Answer(RequestHandle handle, const GetFlightRecords& request, Now) {
  absl::StatusOr<FlightRecordsView> view = flight_records_.View(request);
  if (!view.ok()) return ReplyNow(handle, view.status());
  ReplyNow(handle, Response(*std::move(view)));
}

}  // namespace shoal::scheduler
