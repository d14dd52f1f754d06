// What can go wrong in a simulation, and what each kind of it may cost.
#ifndef SHOAL_SIM_FAULT_H_
#define SHOAL_SIM_FAULT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shoal::sim {

// A benign fault may cost time but never a result. Neither may a survivable one, which makes groups move to other
// servers or wait for one. A destructive one may fail the ops of the jobs that it hits, but of no other job, and must
// leave nothing behind. Where the scheduler forgets its state, ops that are not in progress may fail (docs/failover.md,
// F12), and any op where a scheduler that does not lead answers. A result must never be wrong.
// X(name, human-readable text)
// clang-format off
#define SHOAL_SIM_FAULTS(X)                                                                                   \
  /* benign */                                                                                                \
  X(kClog, "clog")                           /* nothing gets through on some connections for a while */       \
  X(kPause, "pause")                         /* a process stands still, for less than a lease */              \
  X(kControlCut, "control-cut")              /* a worker's calls, or their answers, are lost: under a lease */ \
  X(kLateMap, "late-map")                    /* a worker hears of losses and new maps much later than others */ \
  X(kAnswersLost, "answers-lost")            /* a worker's calls are heard, and break before their answers */ \
  X(kSchedulerOutage, "scheduler-outage")    /* the scheduler is down and comes back from its store */        \
  X(kStoreFailures, "store-failures")        /* saves fail for a while */                                     \
  X(kStoreSlow, "store-slow")                /* saves take long, up to seconds */                              \
  X(kSaveAnswersLost, "save-answers-lost")   /* saves take place, and the scheduler hears that they failed */        \
  X(kLeaderCut, "leader-cut")               /* the scheduler that leads does not reach the store */              \
  X(kLeaderChange, "leader-change")          /* another scheduler leads; what the old one began ends late */  \
  X(kFollowerStop, "follower-stop")          /* of several schedulers one that follows stands still, ends and is back, or is cut off from the leader */ \
  X(kRogueClient, "rogue-client")            /* somebody sends garbage and forged frames to a server */       \
  /* survivable */                                                                                            \
  X(kReset, "reset")                         /* a connection between a worker and a server breaks */          \
  X(kCorruption, "corruption")              /* bits of some payloads with checksums are flipped on their way */  \
  X(kPathCut, "path-cut")                    /* nothing gets through between a worker and a server */         \
  X(kOneWay, "one-way")                      /* likewise, in one direction */                                 \
  X(kRankDataCut, "rank-data-cut")           /* a worker reaches no server, but the scheduler */              \
  X(kServerNodeCut, "server-node-cut")       /* a server's node is cut off from everything */                 \
  X(kEveryServerCut, "every-server-cut")     /* so are the nodes of all servers, as by a switch */            \
  X(kServerCrash, "server-crash")            /* not of the last one */                                        \
  X(kServerSilent, "server-silent")          /* gone without a word, as by a power cut; not the last one */   \
  X(kServerRestart, "server-restart")        /* it crashes, and a new process has its name after a while */   \
  X(kServerStop, "server-stop")              /* it stands still for longer than its lease, and then goes on */ \
  X(kServerCut, "server-cut")                /* likewise, and its connections break at the start */           \
  X(kServerControlCut, "server-control-cut") /* it does not reach the scheduler for longer than its lease */  \
  X(kServerDrain, "server-drain")            /* it leaves and ends */                                         \
  X(kRollingRestart, "rolling-restart")      /* each server in turn leaves, ends and starts again */          \
  X(kServerAdd, "server-add")                                                                                 \
  X(kEveryServerCrash, "every-server-crash") /* all that serve all jobs, and they start again later than a lease */ \
  /* destructive */                                                                                           \
  X(kWorkerCrash, "worker-crash")                                                                             \
  X(kWorkerSilent, "worker-silent")          /* gone without a word */                                        \
  X(kWorkerStop, "worker-stop")              /* it stands still for longer than its lease, and then goes on */ \
  X(kWorkerNodeCut, "worker-node-cut")       /* its node is cut off from everything for longer than its lease */ \
  X(kJobRestart, "job-restart")              /* a worker crashes; all ranks are started again after a while */ \
  X(kDisagree, "disagree")                   /* one rank calls an op of another size */                       \
  X(kAbort, "abort")                         /* one rank aborts its group */                                  \
  X(kMissingRank, "missing-rank")            /* one rank stops calling, and stays alive */                    \
  /* of a scheduler that forgets */                                                                           \
  X(kSchedulerAmnesia, "scheduler-amnesia")  /* the scheduler comes back without its state */                 \
  X(kStaleLeader, "stale-leader")            /* another scheduler leads, and the old one goes on answering */
// clang-format on

enum class FaultKind : uint8_t {
#define X(name, text) name,
  SHOAL_SIM_FAULTS(X)
#undef X
};

#define X(name, text) +1
inline constexpr size_t kFaultKindCount = 0 SHOAL_SIM_FAULTS(X);
#undef X

inline bool IsBenign(FaultKind kind) { return kind < FaultKind::kReset; }
inline bool IsSurvivable(FaultKind kind) { return kind >= FaultKind::kReset && kind < FaultKind::kWorkerCrash; }
inline bool IsDestructive(FaultKind kind) {
  return kind >= FaultKind::kWorkerCrash && kind < FaultKind::kSchedulerAmnesia;
}

// Of the scheduler; what it does afterwards can't be held against it, so few runs have such a fault.
inline bool MakesForgetful(FaultKind kind) { return kind >= FaultKind::kSchedulerAmnesia; }

std::string_view FaultName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kClog;
  uint64_t at_ns = 0;
  uint64_t duration_ns = 0;
  uint32_t target = 0;  // a server, job or worker, by kind; taken modulo how many there are
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_FAULT_H_
