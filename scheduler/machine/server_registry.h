// The reduction servers that the scheduler knows, with their leases. Pure; one thread.
//
// A server keeps its id over all of its incarnations, by its name. Servers that are gone stay listed (with the reason)
// until kMaxGoneServers newer ones are gone too; colocated servers are dropped from the list first.
#ifndef SHOAL_SCHEDULER_MACHINE_SERVER_REGISTRY_H_
#define SHOAL_SCHEDULER_MACHINE_SERVER_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxGoneServers = 256;
// A process that waits to be let in asks every three seconds at least (server/lease).
inline constexpr uint64_t kUnsavedServerPatienceNs = 10 * kNsPerS;

class ServerRegistry {
 public:
  // Of a server that need not leave any more.
  enum class Recall { kNone, kToBeTold, kTold };

  struct Server {
    ServerState state;
    Recall recall = Recall::kNone;
    uint64_t slot_memory_used_bytes = 0;  // by its newest heartbeat; 0: not known
    uint64_t lease_expires_ns = 0;
    bool is_unsaved_news = false;  // as HoldLease says
    bool lease_extended = false;   // since the last heartbeat
    uint64_t last_heartbeat_ns = 0;
    uint64_t gone_order = 0;  // the higher, the later it was gone
  };

  enum class Change { kNone, kNew, kReturned, kReplaced };

  struct Registration {
    ServerId server;
    Change change = Change::kNone;
  };

  explicit ServerRegistry(uint64_t lease_ttl_ns) : lease_ttl_ns_(lease_ttl_ns) {}

  // Gives each live server a full lease from now.
  void Restore(const std::vector<ServerState>& servers, uint64_t next_server_id, Now now);

  // Idempotent for the same incarnation. ALREADY_EXISTS: a live server of another node has the name, another live
  // server has one of the addresses, or a newer process took this one's place. ABORTED: it was evicted.
  // RESOURCE_EXHAUSTED: too many shards. InvalidArgument, FailedPrecondition: see request_checks.h.
  absl::StatusOr<Registration> Register(const RegisterServer& request, Now now);

  struct Renewal {
    bool is_back = false;       // in the maps from now on, as it knows that it is not to leave any more
    bool freed_memory = false;  // since its heartbeat before
  };
  // NOT_FOUND: not live, register again. ABORTED: another process took its place, or it was evicted.
  absl::StatusOr<Renewal> Renew(const HeartbeatServer& request, Now now);

  // True if it was live until now. NOT_FOUND: no such server or incarnation.
  absl::StatusOr<bool> Deregister(const DeregisterServer& request, Now now);

  // The live server of that name is taken out of the maps; true if it was in them until now. NOT_FOUND: no server has
  // the name. FAILED_PRECONDITION: it is not live, or it is colocated with a rank of a job.
  absl::StatusOr<bool> Drain(const std::string& name);
  // The live server of that name need not leave any more; true if it drained until now. It is in the maps again when it
  // has heard of that, with the second heartbeat from now: until then it refuses groups. Errors: those of Drain.
  absl::StatusOr<bool> Undrain(const std::string& name);
  // The live server of that name is lost at once, and its process is not let in again. Errors: those of Drain.
  absl::StatusOr<ServerState> Evict(const std::string& name, Now now);
  // Null: no server has the name.
  const ServerState* FindByName(const std::string& name) const;
  // NotFound, with the live servers: of a name that no server has.
  absl::Status NoneNamed(const std::string& name) const;

  // The process does not know yet that it is registered: its lease does not run out before BeginLease. `is_news`: what
  // has to be saved before is its own coming. Once a save has failed, such a process has to ask again and again, and is
  // lost when it has ceased to.
  void HoldLease(ServerId id, bool is_news, bool has_save_failed, Now now);
  void OnSaveFailed(Now now);
  // The lease of the live server counts from now, if it is that process.
  void BeginLease(ServerId id, Incarnation incarnation, Now now);
  // Those whose lease ran out, now lost, with the reason.
  std::vector<ServerState> ExpireLeases(Now now);
  // Gives every live server a full lease from now.
  void RenewAll(Now now);
  // The same, but for those whose own coming is not saved.
  void RenewThoseThatAreSaved(Now now);
  // As JobRegistry::ExtendLeasesOnce.
  void ExtendLeasesOnce(Now now);
  // No lease runs out before this; kNoDeadline if none is held.
  uint64_t next_expiry_ns() const { return next_expiry_ns_; }

  const ServerState* Find(ServerId id) const;
  // nullptr: it is not live.
  const ServerState* FindLive(ServerId id) const;
  const std::map<ServerId, Server>& servers() const { return servers_; }
  uint32_t live_count() const { return live_count_; }
  // Of those in workers' processes, or of the others.
  uint32_t CountOf(MemberPhase phase, bool colocated) const;
  // Live servers that serve a job and do not drain: the dedicated ones, and those colocated with the job's ranks.
  std::vector<const ServerState*> ServersOf(JobId job) const;
  // The number of live servers that serve all jobs and do not drain.
  uint32_t dedicated_count() const;
  bool AnyDedicatedOn(const NodePlace& place) const;
  void AddLivePlaces(std::vector<NodePlace>* places) const;
  // The server that is draining, or else the one that went last, in words: "server a is lost (no heartbeat for 5.2 s)".
  std::string DescribeLastGone() const;
  uint64_t next_server_id() const { return next_server_id_; }
  // A shard for each I/O thread of each live server that serves all jobs and does not drain.
  std::vector<Shard> LiveShards() const;
  std::vector<ServerState> States() const;

 private:
  static bool IsInMaps(const Server& server) {
    return server.state.phase == MemberPhase::kLive && !server.state.draining && server.recall == Recall::kNone;
  }
  absl::Status CheckName(const RegisterServer& request) const;
  absl::Status CheckRoom(const RegisterServer& request) const;
  // What an operator wants of it: "drain". Errors: those of Drain.
  absl::StatusOr<Server*> FindForOperator(const std::string& name, std::string_view wanted);
  void GrantLease(Server* server, Now now);
  void MarkGone(Server* server, MemberPhase phase, const std::string& reason, Now now);
  void ForgetOldest();

  const uint64_t lease_ttl_ns_;
  std::map<ServerId, Server> servers_;
  std::map<std::string, ServerId> by_name_;
  uint64_t next_server_id_ = 1;
  uint64_t next_gone_order_ = 1;
  uint32_t live_count_ = 0;
  uint64_t next_expiry_ns_ = kNoDeadline;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SERVER_REGISTRY_H_
