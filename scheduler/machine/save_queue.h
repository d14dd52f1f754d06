// What follows from a change of the scheduler's state (replies, publications, records) and must not be seen before the
// change is saved. Keeps count of changes and saves. Pure; one thread.
//
// Changes are numbered 1, 2, 3, ...; a save covers all changes up to its number. Changes that are made while a save is
// under way go into the next one together.
#ifndef SHOAL_SCHEDULER_MACHINE_SAVE_QUEUE_H_
#define SHOAL_SCHEDULER_MACHINE_SAVE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

inline constexpr uint64_t kSaveRetryNs = 1'000'000'000;

struct PublishMap {
  std::shared_ptr<const ShardMap> map;
};
struct PublishLost {
  RankLost lost;
};
struct PublishGroupMap {
  JobId job;
  GroupMap group;
};
struct PublishColocationRequest {
  JobId job;
  ColocationRequest request;
};
struct AddWatcher {
  WatcherId watcher;
  JobId job;
  SendWatch first;  // the state when it came
};
// The reply behind it tells a process that it is a member: its lease counts from there.
struct BeginRankLease {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
};
struct BeginServerLease {
  ServerId server;
  Incarnation incarnation;
};
using LeaseBegins = std::variant<BeginRankLease, BeginServerLease>;
using Consequence = std::variant<Reply, PublishMap, PublishLost, PublishGroupMap, PublishColocationRequest, AddWatcher,
                                 EventRecord, LeaseBegins>;

class SaveQueue {
 public:
  // `changed`: the first state itself has to be saved.
  explicit SaveQueue(bool changed) : changes_(changed ? 1 : 0) {}

  void NoteChange() { ++changes_; }
  bool all_saved() const { return saved_ == changes_; }

  // Holds the consequence until all changes made so far are saved.
  void Hold(Consequence consequence);
  // The oldest held consequence whose changes are saved; nullopt: there is none.
  std::optional<Consequence> TakeReleased();
  // A watcher that is gone need not be added any more.
  void ForgetWatcher(WatcherId watcher);

  // The number of the save that is to begin now, which counts as under way from here on; nullopt: nothing is unsaved,
  // a save is under way, or the last one failed less than kSaveRetryNs ago.
  std::optional<uint64_t> BeginSave(Now now);
  // The save under way has ended well. True if the one before it had failed.
  bool OnSaved(uint64_t number);
  // The save under way has failed. Its changes stay unsaved; the replies that waited for it are taken out and their
  // handles returned, oldest first: what the callers asked for may be repeated.
  std::vector<RequestHandle> OnSaveFailed(uint64_t number, Now now);
  bool last_save_failed() const { return last_save_failed_; }

  // When BeginSave has something to do next; kNoDeadline: nothing is unsaved, or a save is under way.
  uint64_t NextSaveNs() const;

 private:
  struct Held {
    uint64_t change = 0;  // the last one that must be saved before
    Consequence consequence;
  };

  uint64_t changes_ = 0;  // made so far
  uint64_t saved_ = 0;    // of these
  bool save_under_way_ = false;
  uint64_t save_not_before_ns_ = 0;
  bool last_save_failed_ = false;
  std::deque<Held> held_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SAVE_QUEUE_H_
