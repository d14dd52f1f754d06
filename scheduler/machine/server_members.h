// Servers as members: they register, renew their leases, leave, are lost, and do what operators ask of them. Pure; one
// thread.
//
// ServerRegistry owns the servers. This decides what else follows, and remembers which were refused. A server that is
// to drain goes out of the maps at once, so that its groups move as they do when it leaves by itself. It is told with
// its next heartbeat, and stays a member until it has no group left: an operator can follow its progress, and can ask
// it to stay after all. It is in the maps again when it has heard of that. A server that is evicted is lost, as if its
// lease had run out, and its process is told to end.
#ifndef SHOAL_SCHEDULER_MACHINE_SERVER_MEMBERS_H_
#define SHOAL_SCHEDULER_MACHINE_SERVER_MEMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/token.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_moves.h"
#include "scheduler/machine/group_requests.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/refused_servers.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class ServerMembers {
 public:
  struct Settings {
    uint64_t lease_ttl_ms = 0;
    bool is_colocated = false;  // the scheduler runs inside a worker
    TokenKey token_key{};
    bool encrypt = false;  // what ranks and servers send each other
  };

  // All outlive it.
  ServerMembers(const Settings& settings, ServerRegistry* servers, JobRegistry* jobs, GroupMoves* moves,
                GroupRequests* groups, Decisions* decisions)
      : settings_(settings),
        servers_(*servers),
        jobs_(*jobs),
        moves_(*moves),
        groups_(*groups),
        decisions_(*decisions) {}

  void Answer(RequestHandle handle, const RegisterServer& request, Now now);
  void Answer(RequestHandle handle, const HeartbeatServer& request, Now now);
  void Answer(RequestHandle handle, const DeregisterServer& request, Now now);
  void Answer(RequestHandle handle, const DrainServer& request, Now now);
  void Answer(RequestHandle handle, const UndrainServer& request, Now now);
  void Answer(RequestHandle handle, const EvictServer& request, Now now);

  // Servers whose leases have run out are lost.
  void Tick(Now now);
  std::vector<RefusedServerView> Refused(Now now) const { return refused_.List(now); }

 private:
  // Answers it with `why`, and tells operators of it.
  void Refuse(RequestHandle handle, const RegisterServer& request, const absl::Status& why, Now now);
  // FailedPrecondition: no other node reaches the server, and the cluster has members on others.
  absl::Status CheckReach(const RegisterServer& request) const;
  absl::Status CheckEncryption(const RegisterServer& request) const;
  // FailedPrecondition: the server is for a job that is not open.
  absl::Status CheckJob(const RegisterServer& request) const;
  // The server has changed.
  void Note(EventKind kind, const ServerState& server, const std::string& reason, Now now);
  // Open groups that need servers, whose map has this life of the server.
  uint32_t GroupsWith(const ServerState& server) const;

  const Settings settings_;
  ServerRegistry& servers_;
  JobRegistry& jobs_;
  GroupMoves& moves_;
  GroupRequests& groups_;
  Decisions& decisions_;
  RefusedServers refused_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SERVER_MEMBERS_H_
