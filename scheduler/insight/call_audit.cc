#include "scheduler/insight/call_audit.h"

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/call_facts.h"
#include "core/permissions.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

struct MethodOf {
  absl::string_view operator()(const RegisterServer&) const { return "/shoal.v1.Scheduler/RegisterServer"; }
  absl::string_view operator()(const HeartbeatServer&) const { return "/shoal.v1.Scheduler/HeartbeatServer"; }
  absl::string_view operator()(const DeregisterServer&) const { return "/shoal.v1.Scheduler/DeregisterServer"; }
  absl::string_view operator()(const JoinJob&) const { return "/shoal.v1.Scheduler/JoinJob"; }
  absl::string_view operator()(const JoinGroup&) const { return "/shoal.v1.Scheduler/JoinGroup"; }
  absl::string_view operator()(const CloseGroups&) const { return "/shoal.v1.Scheduler/CloseGroups"; }
  absl::string_view operator()(const HeartbeatWorker&) const { return "/shoal.v1.Scheduler/HeartbeatWorker"; }
  absl::string_view operator()(const LeaveJob&) const { return "/shoal.v1.Scheduler/LeaveJob"; }
  absl::string_view operator()(const GetTicket&) const { return "/shoal.v1.Scheduler/GetTicket"; }
  absl::string_view operator()(const ReportServer&) const { return "/shoal.v1.Scheduler/ReportServer"; }
  absl::string_view operator()(const DrainServer&) const { return "/shoal.v1.Admin/DrainServer"; }
  absl::string_view operator()(const UndrainServer&) const { return "/shoal.v1.Admin/UndrainServer"; }
  absl::string_view operator()(const EvictServer&) const { return "/shoal.v1.Admin/EvictServer"; }
  absl::string_view operator()(const AbortJob&) const { return "/shoal.v1.Admin/AbortJob"; }
  absl::string_view operator()(const TraceJob&) const { return "/shoal.v1.Admin/TraceJob"; }
  absl::string_view operator()(const SendTrace&) const { return "/shoal.v1.Scheduler/SendTrace"; }
  absl::string_view operator()(const SendFlightRecord&) const { return "/shoal.v1.Scheduler/SendFlightRecord"; }
  absl::string_view operator()(const GetTrace&) const { return "/shoal.v1.Status/GetTrace"; }
  absl::string_view operator()(const GetFlightRecords&) const { return "/shoal.v1.Status/GetFlightRecords"; }
  absl::string_view operator()(const GetCluster&) const { return "/shoal.v1.Status/GetCluster"; }
  absl::string_view operator()(const ListServers&) const { return "/shoal.v1.Status/ListServers"; }
  absl::string_view operator()(const ListJobs&) const { return "/shoal.v1.Status/ListJobs"; }
  absl::string_view operator()(const GetShardMap&) const { return "/shoal.v1.Status/GetShardMap"; }
  absl::string_view operator()(const Inquiry& inquiry) const { return std::visit(*this, inquiry); }
};

std::string Quoted(absl::string_view what, const std::string& name) {
  return absl::StrCat(what, " \"", CleanText(name), "\"");
}

}  // namespace

Observed AuditEvent(CallFacts call, const EventIds& ids) {
  Observed event;
  event.kind = KindOf(call);
  event.subject = WhoText(call);
  event.reason = CallText(call);
  event.ids = ids;
  event.call = std::make_shared<const CallFacts>(std::move(call));
  return event;
}

void CallAudit::Begin(const RequestArrived& event, bool may_not) {
  const absl::string_view method = std::visit(MethodOf(), event.request);
  const Permission* const permission = FindPermission(method);
  if (!may_not && (permission == nullptr || !permission->is_audited)) return;
  OpenCall call{.facts = FactsOf(event.caller, event.from, method), .ids = {}};
  Describe(event.request, &call);
  open_[event.handle] = std::move(call);
}

void CallAudit::End(RequestHandle handle, const absl::Status& outcome, Now now, SchedulerActions* actions) {
  auto ended = open_.extract(handle);
  if (!ended.empty()) Tell(std::move(ended.mapped()), outcome, now, actions);
}

void CallAudit::Refuse(const WatchOpened& event, const absl::Status& why, Now now, SchedulerActions* actions) {
  OpenCall call{.facts = FactsOf(event.caller, event.from, "/shoal.v1.Scheduler/Watch"), .ids = {}};
  call.ids.job = event.job;
  call.facts.object = JobText(event.job);
  Tell(std::move(call), why, now, actions);
}

void CallAudit::Tell(OpenCall call, const absl::Status& outcome, Now now, SchedulerActions* actions) {
  SetOutcome(outcome, &call.facts);
  for (CallFacts& overdue : pace_.TakeOverdue(now.monotonic_ns)) {
    actions->push_back(AuditEvent(std::move(overdue), {}));
  }
  if (!pace_.Admit(now.monotonic_ns, &call.facts)) return;
  actions->push_back(AuditEvent(std::move(call.facts), call.ids));
}

std::string CallAudit::JobText(JobId id) const {
  const Job* const job = membership_.jobs().Find(id);
  return job == nullptr ? absl::StrCat("job ", id.value()) : Quoted("job", job->name);
}

std::string CallAudit::ServerText(ServerId id) const {
  const ServerState* const server = membership_.servers().Find(id);
  return server == nullptr ? absl::StrCat("server ", id.value()) : Quoted("server", server->name);
}

void CallAudit::Describe(const Request& request, OpenCall* call) const {
  std::string* const object = &call->facts.object;
  std::visit(
      [&]<typename Asked>(const Asked& asked) {
        if constexpr (std::is_same_v<Asked, Inquiry>) {
          if (const auto* trace = std::get_if<TraceJob>(&asked)) *object = Quoted("job", trace->name);
          if (const auto* sent = std::get_if<SendTrace>(&asked)) *object = absl::StrCat("trace ", sent->trace);
          if (const auto* sent = std::get_if<SendFlightRecord>(&asked)) *object = JobText(sent->job);
        } else if constexpr (std::is_same_v<Asked, AbortJob>) {
          *object = Quoted("job", asked.name);
        } else if constexpr (std::is_same_v<Asked, JoinJob>) {
          *object = Quoted("job", asked.job_name);
          if (!asked.open.has_value()) absl::StrAppend(object, ", rank ", asked.rank.value());
        } else if constexpr (requires { asked.name; }) {
          *object = Quoted("server", asked.name);
        } else if constexpr (std::is_same_v<Asked, HeartbeatServer> || std::is_same_v<Asked, DeregisterServer>) {
          *object = ServerText(asked.server);
        } else if constexpr (requires { asked.job; }) {
          call->ids.job = asked.job;
          call->ids.rank = asked.rank.value();
          *object = absl::StrCat(JobText(asked.job), ", rank ", asked.rank.value());
          if constexpr (std::is_same_v<Asked, JoinGroup>) {
            absl::StrAppend(object, ", ", Quoted("group", asked.group_name));
          } else if constexpr (std::is_same_v<Asked, CloseGroups>) {
            absl::StrAppend(object, ", ", asked.groups.size(), " groups");
          } else if constexpr (std::is_same_v<Asked, ReportServer>) {
            absl::StrAppend(object, ", ", ServerText(asked.server));
          }
        }
      },
      request);
}

}  // namespace shoal::scheduler
