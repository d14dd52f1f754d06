// The state in etcd, written only while the writer's term lasts (etcd_election.h).
//
// The state lies in pieces under PREFIXstate/GENERATION/ and is all of them in the order of their keys. The key
// PREFIXstate names the generation and has the digest of the state. A save changes those pieces of the generation that
// have changed (piece_plan.h) in one transaction, for etcd holds in memory what was written last, until it takes a
// snapshot. Where that is too much for one, in the first save of a term and after a save that failed, it writes all
// pieces under a new generation, in as many transactions as etcd's limits ask for; the last one lets PREFIXstate name
// it and removes the former ones. A reader sees one whole state or the one before, and need not know which of the two
// was done, nor how a state is cut: so builds that wrote larger pieces, and each time all of them, read what this one
// writes, and the other way round.
//
// The state stays whole whatever becomes of a transaction, even if etcd does one long after its answer was given up:
// each holds only while PREFIXstate is as its writer last knew it, and each save moves that key. So one that comes late
// does nothing, or the next one finds PREFIXstate moved and fails. This concerns those that only put pieces as well:
// once the generation is there, a late one would put back what has been changed since. What lies there is known to a
// writer from its own last save alone, never from what it finds.
//
// etcd keeps every value that was ever written until somebody compacts it, and refuses writes when it is full. So the
// writer compacts: when its term begins, and after every kCompactAfterBytes that it sent or kCompactAfterSaves, up to
// where it was the last time. Other users of the same etcd keep the history since then.
#ifndef SHOAL_SCHEDULER_STORE_ETCD_STORE_H_
#define SHOAL_SCHEDULER_STORE_ETCD_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/store/etcd_client.h"
#include "scheduler/store/piece_plan.h"
#include "scheduler/store/save_thread.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

class EtcdStore : public Store {
 public:
  static constexpr uint64_t kCompactAfterBytes = 16 << 20;
  static constexpr uint64_t kCompactAfterSaves = 1000;

  // Writes are done while `leader_key` was created at revision `term`. `client` outlives this.
  EtcdStore(EtcdClient* client, const std::string& leader_key, int64_t term);

  // Unavailable: etcd does not answer, or the state was replaced again and again while it was read.
  absl::StatusOr<std::optional<std::string>> Load() override;
  // FailedPrecondition in the outcome: the term has ended, another scheduler leads.
  void StartSave(uint64_t number, std::string state) override { thread_.StartSave(number, std::move(state)); }
  std::optional<Saved> PollSaved() override { return thread_.PollSaved(); }
  void SetWake(std::function<void()> wake) override { thread_.SetWake(std::move(wake)); }
  std::string Describe() const override { return client_->Describe(); }

  // Any thread: a write was refused because the term has ended.
  bool term_is_over() const { return term_is_over_.load(std::memory_order_acquire); }

 private:
  // What lies in etcd.
  struct Kept {
    int64_t moved_at = 0;  // revision at which PREFIXstate was put the last time
    std::string generation_key;
    std::vector<KeptPiece> pieces;
  };

  // OutOfRange: while it was read, others have been saved, and the revision that was read was compacted away.
  absl::StatusOr<std::optional<std::string>> ReadOnce();
  absl::Status Write(const std::string& state);
  // `kept`: what lies in etcd, if that is known. Returns what lies there then.
  absl::StatusOr<Kept> WriteNext(std::optional<Kept> kept, const std::string& state);
  // The two ways to save: as one transaction in the generation that lies there, and as a new one. `moved_at` 0:
  // PREFIXstate is not there.
  absl::StatusOr<Kept> WriteChange(Kept kept, PiecePlan plan, const std::string& digest);
  absl::StatusOr<Kept> WriteAnew(int64_t moved_at, PiecePlan plan, const std::string& digest);
  absl::StatusOr<int64_t> ReadMovedAt();
  // Does `request` if the term lasts and PREFIXstate is as it was put at `moved_at`; returns the revision. `becomes`:
  // the value of PREFIXstate that this save puts with its last transaction.
  absl::StatusOr<int64_t> Send(etcdserverpb::TxnRequest request, int64_t moved_at, const std::string& becomes);
  void CompactIfDue(int64_t revision);

  EtcdClient* const client_;
  const std::string leader_key_;
  const int64_t term_;
  const std::string state_key_;
  // Of the save thread:
  std::optional<Kept> kept_;  // nullopt: not known
  uint64_t generation_ = 0;   // the last one that this term has begun to write
  int64_t compact_to_;        // the next time
  uint64_t bytes_since_compaction_ = kCompactAfterBytes;
  uint64_t saves_since_compaction_ = 0;
  std::atomic<bool> term_is_over_ = false;
  SaveThread thread_;  // last: it ends first
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_ETCD_STORE_H_
