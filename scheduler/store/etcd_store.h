// The state in etcd, written only while the writer's term lasts (etcd_election.h).
//
// A state may be larger than etcd takes in one request, so it is kept in pieces under PREFIXstate/GENERATION/ and a key
// PREFIXstate that names the generation; the transaction that writes the last piece moves that key and removes older
// generations. A reader sees one whole state or the one before.
//
// etcd keeps every value that was ever written until somebody compacts it, and refuses writes when it is full. So the
// writer compacts: when its term begins, and after every kCompactAfterBytes or kCompactAfterSaves, up to where it was
// the last time. Other users of the same etcd keep the history since then.
#ifndef SHOAL_SCHEDULER_STORE_ETCD_STORE_H_
#define SHOAL_SCHEDULER_STORE_ETCD_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "scheduler/store/etcd_client.h"
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
  // OutOfRange: while it was read, others have been saved, and the revision that was read was compacted away.
  absl::StatusOr<std::optional<std::string>> ReadOnce();
  absl::Status Write(const std::string& state);
  // `revision`: of etcd after the write.
  absl::Status WritePiece(const etcdserverpb::TxnRequest& request, int64_t* revision);
  void CompactIfDue(int64_t revision);
  etcdserverpb::TxnRequest PutPiece(const std::string& key, const std::string& piece) const;

  EtcdClient* const client_;
  const std::string leader_key_;
  const int64_t term_;
  const std::string state_key_;
  // Of the save thread:
  uint64_t generation_ = 0;
  int64_t compact_to_;  // the next time
  uint64_t bytes_since_compaction_ = kCompactAfterBytes;
  uint64_t saves_since_compaction_ = 0;
  std::atomic<bool> term_is_over_ = false;
  SaveThread thread_;  // last: it ends first
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_ETCD_STORE_H_
