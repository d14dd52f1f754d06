// What people want to know of the cluster: who is late, how much is done, what happened; and the answers to those who
// ask for it. It watches the membership, and decides nothing there.
//
// Pure, as SchedulerMachine is; one thread, the membership's. Nothing of it is saved: a scheduler that is started
// again, or begins to lead, learns anew.
#ifndef SHOAL_SCHEDULER_INSIGHT_INSIGHT_MACHINE_H_
#define SHOAL_SCHEDULER_INSIGHT_INSIGHT_MACHINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/now.h"
#include "scheduler/insight/call_audit.h"
#include "scheduler/insight/event_journal.h"
#include "scheduler/insight/flight_records.h"
#include "scheduler/insight/job_insight.h"
#include "scheduler/insight/job_pages.h"
#include "scheduler/insight/server_loads.h"
#include "scheduler/insight/traces.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_machine.h"
#include "scheduler/machine/scheduler_numbers.h"

namespace shoal::scheduler {

class InsightMachine {
 public:
  // `membership` outlives it.
  explicit InsightMachine(const SchedulerMachine* membership) : membership_(*membership) {}

  // Answers inquiries, and takes what members tell of themselves. Before the membership takes the request in.
  void OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions);
  void OnEvent(const EventsOpened& event, Now, SchedulerActions* actions) { journal_.Open(event, actions); }
  void OnEvent(const StreamClosed& event, Now, SchedulerActions*) { journal_.Close(event.watcher); }
  // What the membership has decided.
  void OnEvent(const EventRecorded& event, Now, SchedulerActions* actions) { journal_.Keep(event.event, actions); }
  void OnEvent(const RankGone& event, Now now, SchedulerActions* actions);
  void OnEvent(const CallRefused& event, Now, SchedulerActions* actions) {
    actions->push_back(AuditEvent(event.call, {}));
  }

  // Adds what the member is to be told to the membership's answer to its heartbeat. Other answers stay as they are.
  void Complete(const Request& request, Now now, Response* response);

  void Tick(Now now) { traces_.Tick(now); }
  uint64_t NextDeadlineNs() const { return traces_.NextDeadlineNs(); }
  // Of the cluster as it is now; counts of events are not set.
  SchedulerNumbers Numbers(Now now) const;

 private:
  // Of a member, or of a process that is none: then nothing is taken.
  void Hear(const HeartbeatServer& request, Now now, SchedulerActions* actions);
  void Hear(const HeartbeatWorker& request, Now now, SchedulerActions* actions);
  void Hear(const LeaveJob& request, Now now, SchedulerActions* actions);

  absl::StatusOr<Response> Answer(const TraceJob& request, Now now, SchedulerActions* actions);
  absl::StatusOr<Response> Answer(const SendTrace& request, Now, SchedulerActions*) {
    return DoneIf(traces_.Take(request));
  }
  absl::StatusOr<Response> Answer(const GetTrace& request, Now now, SchedulerActions*) {
    return traces_.View(request, membership_.jobs(), membership_.servers(), now);
  }
  absl::StatusOr<Response> Answer(const SendFlightRecord& request, Now, SchedulerActions*) {
    return DoneIf(flight_records_.Take(request, membership_.jobs().Find(request.job), membership_.servers()));
  }
  absl::StatusOr<Response> Answer(const GetFlightRecords& request, Now, SchedulerActions*) {
    return flight_records_.View(request);
  }
  absl::StatusOr<Response> Answer(const GetCluster& request, Now now, SchedulerActions*);
  absl::StatusOr<Response> Answer(const ListServers& request, Now now, SchedulerActions*) {
    return servers_.Page(request, membership_.servers(), now);
  }
  absl::StatusOr<Response> Answer(const ListJobs& request, Now now, SchedulerActions*) {
    return PageOfJobs(request, membership_, jobs_, servers_, now);
  }
  static absl::StatusOr<Response> DoneIf(const absl::Status& status) {
    if (!status.ok()) return status;
    return Done();
  }

  JobNumbers NumbersOf(const Job& job) const;

  const SchedulerMachine& membership_;
  JobInsights jobs_;
  ServerLoads servers_;
  Traces traces_;
  FlightRecords flight_records_;
  EventJournal journal_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_INSIGHT_MACHINE_H_
