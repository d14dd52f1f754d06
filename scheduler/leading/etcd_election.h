// Which of several schedulers leads: the one that put its key into etcd, where it stays as long as its lease does.
//
// A term is the revision at which the leader's key came to be: it grows from leader to leader, and every write of a
// leader is a transaction that holds only while its own term's key is there (EtcdStore). So a leader that was stopped
// and goes on changes nothing, whatever it believes; that it also stops by its own clock, before its lease can have
// ended, only spares its callers a wait. (Leases and guarded writes as in Gray and Cheriton, "Leases", SOSP 1989, and
// Burrows, "The Chubby lock service", OSDI 2006.)
//
// Threads: Stand and Resign from one; leads_until_ns from any. Starts a thread that renews the lease while it leads.
#ifndef SHOAL_SCHEDULER_LEADING_ETCD_ELECTION_H_
#define SHOAL_SCHEDULER_LEADING_ETCD_ELECTION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "scheduler/store/etcd_client.h"

namespace shoal::scheduler {

struct Standing {
  bool leads = false;
  int64_t term = 0;
  std::string leader_address;  // "" while no scheduler leads
};

class EtcdElection {
 public:
  // `own_address`: where the other schedulers reach this one. `client` outlives this.
  EtcdElection(EtcdClient* client, const std::string& own_address, uint64_t lease_ttl_ms);
  ~EtcdElection();  // resigns
  EtcdElection(const EtcdElection&) = delete;
  EtcdElection& operator=(const EtcdElection&) = delete;

  // Takes the lead if no scheduler has it, and says which one has. Blocks for a few seconds at most. Errors of
  // EtcdClient, and ResourceExhausted if the process can't have another thread: ask again later. Not while this one
  // leads.
  absl::StatusOr<Standing> Stand();

  // This process leads until then (monotonic clock), or longer if the lease is renewed meanwhile. 0: it does not.
  uint64_t leads_until_ns() const { return leads_until_ns_.load(std::memory_order_acquire); }

  // Gives the lead up, so that another may have it at once. Idempotent.
  void Resign();

  const std::string& leader_key() const { return leader_key_; }

 private:
  void KeepLease(int64_t lease, uint64_t ttl_ms);
  void StopKeeping();

  EtcdClient* const client_;
  const std::string own_address_;
  const uint64_t lease_ttl_ms_;
  const std::string leader_key_;
  int64_t lease_ = 0;  // 0: none
  std::atomic<uint64_t> leads_until_ns_ = 0;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stop_keeping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_ETCD_ELECTION_H_
