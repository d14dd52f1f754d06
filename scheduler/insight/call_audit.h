// Who calls, from where, what for, and how it ends: one event for each call that changes something, and for each one
// that the caller may not make. Heartbeats and questions leave none.
//
// Pure; one thread. Calls that wait for their answer are kept; there are as many as the control host has open.
#ifndef SHOAL_SCHEDULER_INSIGHT_CALL_AUDIT_H_
#define SHOAL_SCHEDULER_INSIGHT_CALL_AUDIT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/call_pace.h"
#include "core/caller.h"
#include "core/log_event.h"
#include "core/now.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

Observed AuditEvent(CallFacts call, const EventIds& ids);

class CallAudit {
 public:
  // `membership` outlives it.
  explicit CallAudit(const SchedulerMachine* membership) : membership_(*membership) {}

  // A call begins. It is kept until it ends if it changes something, or if the caller `may_not` make it.
  void Begin(const RequestArrived& event, bool may_not);
  // Appends events to `actions`, if the call was kept.
  void End(RequestHandle handle, const absl::Status& outcome, Now now, SchedulerActions* actions);
  // Of a stream that the caller may not open.
  void Refuse(const WatchOpened& event, const absl::Status& why, Now now, SchedulerActions* actions);

 private:
  struct OpenCall {
    CallFacts facts;
    EventIds ids;
  };

  void Tell(OpenCall call, const absl::Status& outcome, Now now, SchedulerActions* actions);
  std::string JobText(JobId id) const;
  std::string ServerText(ServerId id) const;
  // What it is about.
  void Describe(const Request& request, OpenCall* call) const;

  const SchedulerMachine& membership_;
  std::map<RequestHandle, OpenCall> open_;
  CallPace pace_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_CALL_AUDIT_H_
