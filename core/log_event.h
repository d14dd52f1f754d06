// What scheduler and servers say in their logs: one table of the kinds of events, and one event as a value.
//
// A kind's key is stable: alerts and scripts may depend on it. docs/events.md is made of this table
// (scripts/reference_pages.py). Pure values; any thread.
#ifndef SHOAL_CORE_LOG_EVENT_H_
#define SHOAL_CORE_LOG_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/ids.h"

namespace shoal {

// clang-format off
// X(name, key, level, who says it, what it means)
#define SHOAL_EVENT_KINDS(X) \
  X(kSchedulerListening, "scheduler-listening", kInfo, kScheduler, \
    "The process has started and listens for servers, workers and operators.") \
  X(kSchedulerStarted, "scheduler-started", kInfo, kScheduler, \
    "The scheduler is in charge of the cluster from now on: new, or as its saved state says.") \
  X(kSchedulerStopped, "scheduler-stopped", kInfo, kScheduler, \
    "The process ends after a signal.") \
  X(kSchedulerFailed, "scheduler-failed", kError, kScheduler, \
    "The process ends because it cannot serve.") \
  X(kSchedulerStalled, "scheduler-stalled", kWarning, kScheduler, \
    "The scheduler did not run for so long that leases would have ended; all of them start anew.") \
  X(kSchedulerCutOff, "scheduler-cut-off", kWarning, kScheduler, \
    "No member was heard for two pauses between heartbeats, or since the scheduler began; none is marked lost meanwhile.") \
  X(kSchedulerReached, "scheduler-reached", kInfo, kScheduler, \
    "Heartbeats arrive again after scheduler-cut-off.") \
  X(kSaveFailed, "save-failed", kError, kScheduler, \
    "The state could not be saved; what depends on it is refused until a save succeeds. Told once a minute at most.") \
  X(kSavedAgain, "saved-again", kInfo, kScheduler, \
    "A save has succeeded after save-failed.") \
  X(kLeadingBegan, "leading-began", kInfo, kScheduler, \
    "This scheduler became the leader.") \
  X(kLeadingEnded, "leading-ended", kInfo, kScheduler, \
    "This scheduler is no longer the leader.") \
  X(kLeadingRefused, "leading-refused", kError, kScheduler, \
    "This scheduler won the election and cannot lead.") \
  X(kLeaderFollowed, "leader-followed", kInfo, kScheduler, \
    "Another scheduler leads; calls are passed on to it.") \
  X(kLeaderMissing, "leader-missing", kWarning, kScheduler, \
    "No scheduler leads at the moment.") \
  X(kLeaderSilent, "leader-silent", kWarning, kScheduler, \
    "Another scheduler leads and does not answer this one, which refuses calls meanwhile.") \
  X(kElectionFailed, "election-failed", kWarning, kScheduler, \
    "The store of the election could not be asked.") \
  X(kServerRegistered, "server-registered", kInfo, kScheduler, \
    "A server has joined the cluster.") \
  X(kServerReturned, "server-returned", kInfo, kScheduler, \
    "A lost server is back, in the same life of its process.") \
  X(kServerRefused, "server-refused", kWarning, kScheduler, \
    "A server was not let in; the text says why. Told once a minute at most while it asks again.") \
  X(kServerReplaced, "server-replaced", kInfo, kScheduler, \
    "A new process has taken the place of the server with its name.") \
  X(kServerDraining, "server-draining", kInfo, kScheduler, \
    "An operator asked a server to leave.") \
  X(kServerUndrained, "server-undrained", kInfo, kScheduler, \
    "An operator asked a draining server to stay.") \
  X(kServerEvicted, "server-evicted", kWarning, kScheduler, \
    "An operator took a server out at once; groups move away from it.") \
  X(kServerLeft, "server-left", kInfo, kScheduler, \
    "A server has left in good order.") \
  X(kServerSlow, "server-slow", kWarning, kScheduler, \
    "A job's ops wait longer for one server than for others of its weight, for a share of the time that matters.") \
  X(kServerSlowNoMore, "server-slow-no-more", kInfo, kScheduler, \
    "A server that was reported slow for a job is no longer slow; the text says why. Not reported when the job ends.") \
  X(kServerLost, "server-lost", kWarning, kScheduler, \
    "A server's lease has run out; groups move away from it.") \
  X(kMapPublished, "map-published", kInfo, kScheduler, \
    "The cluster's shard map has changed.") \
  X(kMapRefused, "map-refused", kError, kScheduler, \
    "A shard map could not be made of the servers that there are.") \
  X(kJobStarted, "job-started", kInfo, kScheduler, \
    "The first rank of a job has joined.") \
  X(kJobRunning, "job-running", kInfo, kScheduler, \
    "All ranks of a job have joined.") \
  X(kNodeNameShared, "node-name-shared", kWarning, kScheduler, \
    "Different nodes of a job have one name, so that what names a node does not say which one is meant.") \
  X(kJobFailed, "job-failed", kWarning, kScheduler, \
    "A job has lost a rank, or has ended after a group had failed or was not made.") \
  X(kJobAborted, "job-aborted", kWarning, kScheduler, \
    "An operator has ended a job, whose state is failed then; its ranks are told why. No job-failed follows.") \
  X(kJobTraced, "job-traced", kInfo, kScheduler, \
    "An operator has a job's ranks and servers record what their connections do, for some seconds.") \
  X(kJobEnded, "job-ended", kInfo, kScheduler, \
    "All ranks of a job have left.") \
  X(kRosterChanged, "roster-changed", kInfo, kScheduler, \
    "A rank of an open job has joined, has left or was lost; the text lists the ranks that are there now.") \
  X(kRankLost, "rank-lost", kWarning, kScheduler, \
    "A rank was declared lost.") \
  X(kRankReplaced, "rank-replaced", kInfo, kScheduler, \
    "A rank's process had ended and nobody misses it; one of the job that is started again took its place or may.") \
  X(kRankSlow, "rank-slow", kWarning, kScheduler, \
    "The other ranks of a job wait for one rank for a share of the time that matters; the text has the likely cause.") \
  X(kRankSlowNoMore, "rank-slow-no-more", kInfo, kScheduler, \
    "A rank that was reported slow is so no longer: nothing shows any more that the others wait for it.") \
  X(kGroupOpened, "group-opened", kInfo, kScheduler, \
    "All ranks have asked for a group, and it has its map.") \
  X(kGroupMoved, "group-moved", kInfo, kScheduler, \
    "A group continues with another map, in a new epoch.") \
  X(kOpLacksRanks, "op-lacks-ranks", kInfo, kScheduler, \
    "In a group that goes on without lost ranks: how many contributions an op's results have, where that changes.") \
  X(kGroupFailed, "group-failed", kWarning, kScheduler, \
    "A group was given up; its ranks are told why.") \
  X(kGroupClosed, "group-closed", kInfo, kScheduler, \
    "All ranks of a group have closed it.") \
  X(kColocationRequested, "colocation-requested", kWarning, kScheduler, \
    "No server is left for a job, so its ranks were asked to run colocated ones.") \
  X(kCallMade, "call", kInfo, kScheduler, \
    "Somebody made a call that changes something: who, from where, what, and how it ended.") \
  X(kCallRefused, "call-refused", kWarning, kScheduler, \
    "Somebody made a call that he may not make. Told ten times a minute at most of each caller and call.") \
  X(kAuditLogFailed, "audit-log-failed", kError, kScheduler, \
    "The file of --audit-log can't be written; the text says why. Calls go on, and lines wait while there is room.") \
  X(kAuditLogWritten, "audit-log-written", kInfo, kScheduler, \
    "The file of --audit-log is written again after audit-log-failed; the text says how many lines it lacks.") \
  X(kServerNode, "server-node", kInfo, kServer, \
    "Which processors and memory the I/O threads use, and the data plane's transports.") \
  X(kServerMisplaced, "server-misplaced", kWarning, kServer, \
    "An I/O thread could not be placed beside its network device; it works, but slower.") \
  X(kServerListening, "server-listening", kInfo, kServer, \
    "The server is registered and listens for workers.") \
  X(kServerLeaving, "server-leaving", kInfo, kServer, \
    "The server leaves the cluster, after a signal or because an operator asked for it.") \
  X(kServerWaitsForGroups, "server-waits-for-groups", kInfo, kServer, \
    "A leaving server waits for its open groups to end.") \
  X(kServerCutsGroups, "server-cuts-groups", kWarning, kServer, \
    "A leaving server ends although groups are open.") \
  X(kServerStopped, "server-stopped", kInfo, kServer, \
    "The process ends in good order.") \
  X(kServerFailed, "server-failed", kError, kServer, \
    "The process ends because it could not start or lost its place in the cluster.") \
  X(kLinkMissing, "link-missing", kWarning, kServer, \
    "The network device to listen on has no link; the server waits for it before it registers.") \
  X(kLeaseMissing, "lease-missing", kWarning, kServer, \
    "The scheduler does not answer; open groups continue.") \
  X(kLeaseRenewedAgain, "lease-renewed-again", kInfo, kServer, \
    "The scheduler answers again after lease-missing.") \
  X(kLeaseUnknown, "lease-unknown", kWarning, kServer, \
    "The scheduler does not know this server, which therefore registers again.") \
  X(kLeaseGrantedAgain, "lease-granted-again", kInfo, kServer, \
    "The server is registered again.") \
  X(kTokenKeyChanged, "token-key-changed", kWarning, kServer, \
    "The scheduler signs with another key, so it has lost its state.") \
  X(kDrainAsked, "drain-asked", kInfo, kServer, \
    "An operator asked this server to leave.") \
  X(kDrainWithdrawn, "drain-withdrawn", kInfo, kServer, \
    "An operator asked this server to stay after all.") \
  X(kLeaveUntold, "leave-untold", kWarning, kServer, \
    "The scheduler could not be told that this server leaves.") \
  X(kConnections, "connections", kInfo, kServer, \
    "How many workers are connected has changed.") \
  X(kPayloadCorrupted, "payload-corrupted", kError, kServer, \
    "Contributions arrived with a wrong checksum; their ranks send them again.") \
  X(kStrangersTurnedAway, "strangers-turned-away", kWarning, kServer, \
    "Somebody connected to a data port without the greeting of a worker, or with that of another version.") \
  X(kShardGroupOpened, "shard-group-opened", kInfo, kServer, \
    "An I/O thread has reserved slots for a group.") \
  X(kShardGroupMoved, "shard-group-moved", kInfo, kServer, \
    "A rank's hello has started a newer epoch of a group on an I/O thread.") \
  X(kShardGroupFailed, "shard-group-failed", kWarning, kServer, \
    "A group failed on an I/O thread; its ranks are told why.") \
  X(kFlightRecorded, "flight-recorded", kInfo, kServer, \
    "Which file has the connections' last events after a group has failed (--flight-recorder), or why none has.") \
  X(kTraceUnsent, "trace-unsent", kWarning, kServer, \
    "What was recorded for an operator's trace could not be sent to the scheduler.") \
  X(kShardGroupClosed, "shard-group-closed", kInfo, kServer, \
    "A group is over on an I/O thread, and its slots are free again.") \
  X(kRankAbsent, "rank-absent", kWarning, kServer, \
    "The connection of a rank broke in an open group; the server waits for what the scheduler decides.") \
  X(kHelloRefused, "hello-refused", kWarning, kServer, \
    "A rank was not let into a group.") \
  X(kMessageRefused, "message-refused", kInfo, kServer, \
    "A message about an open group was refused, which is usual when a group moves.") \
  X(kPeerClosed, "peer-closed", kWarning, kServer, \
    "A connection was closed because what came in was not the protocol.") \
  X(kAddressTaken, "address-taken", kWarning, kProcess, \
    "Another process has an address or the state file that this one is to use; it is tried again for ten seconds.") \
  X(kCertificateRenewed, "certificate-renewed", kInfo, kProcess, \
    "The files of the certificate, its key or the authorities have changed, and new connections use them.") \
  X(kCertificateNotTaken, "certificate-not-taken", kWarning, kProcess, \
    "Changed files can't be used, or the certificate in use has expired; the text says why. The old ones stay in use.") \
  X(kInsecureNetwork, "insecure-network", kWarning, kProcess, \
    "What everybody on the network can do, since --insecure-network was given.") \
  X(kHttpListening, "http-listening", kInfo, kProcess, \
    "Metrics and health are served at the address of --http.") \
  X(kEventsLeftOut, "events-left-out", kWarning, kProcess, \
    "Events of one kind came too fast, or nobody read the log: so many were not written.")
// clang-format on

enum class EventKind : uint8_t {
#define X(name, key, level, component, meaning) name,
  SHOAL_EVENT_KINDS(X)
#undef X
};
#define X(name, key, level, component, meaning) +1
inline constexpr size_t kEventKindCount = 0 SHOAL_EVENT_KINDS(X);
#undef X

enum class EventLevel : uint8_t { kInfo, kWarning, kError };

std::string_view EventKey(EventKind kind);
EventLevel LevelOf(EventKind kind);
// "scheduler", "server", or "process" for what any of them says.
std::string_view ComponentOf(EventKind kind);

// Whom an event is about, as numbers; 0 or none: it does not concern one.
struct EventIds {
  JobId job;
  GroupId group;
  Epoch epoch;
  std::optional<uint32_t> rank;  // of the group if there is one, else of the job

  friend bool operator==(const EventIds&, const EventIds&) = default;
};

// Of kCallMade and kCallRefused, which are all that an audit log has.
struct CallFacts {
  std::string who;          // the caller's identity, or "anybody" where callers are not asked for theirs
  std::string role;         // "operator", "worker of tenant vision"; empty: not known
  std::string from;         // address of the caller's connection, as the first scheduler saw it; empty: not known
  std::string call;         // "DrainServer"
  std::string object;       // `server "alpha"`, `job "gpt", rank 3`; empty: the whole cluster
  std::string outcome;      // "ok", or "NOT_FOUND: ..."
  bool is_refused = false;  // the caller may not make it
  uint64_t left_out = 0;    // so many calls of this caller that ended badly were not told before this one
};

struct LogEvent {
  EventKind kind = EventKind::kEventsLeftOut;
  std::string subject;  // whom it is about in words: `server alpha`; may be empty
  std::string text;     // what happened, and why
  EventIds ids = {};
  uint64_t at_unix_ms = 0;                          // when it happened, if that was before it is written; 0: now
  std::shared_ptr<const CallFacts> call = nullptr;  // `subject` and `text` say the same for people; null: no call
};

// Takes events for the log, from any thread; never blocks.
using EventSink = std::function<void(const LogEvent& event)>;

}  // namespace shoal

#endif  // SHOAL_CORE_LOG_EVENT_H_
