#include "scheduler/machine/caller_checks.h"

#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {
namespace {

absl::Status CheckJob(const Caller& caller, const Job* job) {
  if (job == nullptr || job->tenant.empty()) return absl::OkStatus();
  if (caller.role == Role::kWorker && caller.tenant == job->tenant) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(CallerText(caller), " may not act for job \"", job->name, "\", which is another tenant's"));
}

absl::Status CheckServer(const Caller& caller, const ServerState* server) {
  if (server == nullptr || server->identity.empty() || caller.identity == server->identity) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(CallerText(caller), " may not act for server ", server->name,
                                                  ", which another identity has registered"));
}

}  // namespace

absl::Status CheckCaller(const Caller& caller, const Request& request, const JobRegistry& jobs,
                         const ServerRegistry& servers) {
  if (!caller.is_known()) return absl::OkStatus();
  return std::visit(
      [&]<typename Asked>(const Asked& asked) -> absl::Status {
        if constexpr (std::is_same_v<Asked, Inquiry>) {
          if (const auto* trace = std::get_if<SendTrace>(&asked)) {
            const TraceMemberId& member = trace->member;
            return member.server.value() != 0 ? CheckServer(caller, servers.Find(member.server))
                                              : CheckJob(caller, jobs.Find(member.job));
          }
          if (const auto* record = std::get_if<SendFlightRecord>(&asked)) {
            return record->server.value() != 0 ? CheckServer(caller, servers.Find(record->server))
                                               : CheckJob(caller, jobs.Find(record->job));
          }
          return absl::OkStatus();
        } else if constexpr (std::is_same_v<Asked, RegisterServer>) {
          const ServerState* const before = servers.FindByName(asked.name);
          const bool is_live = before != nullptr && before->phase == MemberPhase::kLive;
          return is_live ? CheckServer(caller, before) : absl::OkStatus();
        } else if constexpr (std::is_same_v<Asked, HeartbeatServer> || std::is_same_v<Asked, DeregisterServer>) {
          return CheckServer(caller, servers.Find(asked.server));
        } else if constexpr (std::is_same_v<Asked, JoinJob>) {
          const Job* const job = jobs.FindByName(asked.job_name);
          return job != nullptr && (job->open() || job->live_count > 0) ? CheckJob(caller, job) : absl::OkStatus();
        } else if constexpr (requires { asked.job; }) {
          return CheckJob(caller, jobs.Find(asked.job));
        } else {
          return absl::OkStatus();
        }
      },
      request);
}

absl::Status CheckCaller(const Caller& caller, const WatchOpened& stream, const JobRegistry& jobs) {
  return caller.is_known() ? CheckJob(caller, jobs.Find(stream.job)) : absl::OkStatus();
}

}  // namespace shoal::scheduler
