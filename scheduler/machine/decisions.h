// What was decided, and when it goes out: replies, publications and records of events. Pure; one thread.
//
// What others will rely on is saved first. Every reply and publication waits until the changes made before it are
// saved; changes made while a save is under way go into the next one together. Heartbeats and status queries don't
// wait.
#ifndef SHOAL_SCHEDULER_MACHINE_DECISIONS_H_
#define SHOAL_SCHEDULER_MACHINE_DECISIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "scheduler/machine/event_numbers.h"
#include "scheduler/machine/save_queue.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_numbers.h"

namespace shoal::scheduler {

class Decisions {
 public:
  // `store`: where the state is kept, in words. `map`: of the first state's servers. `is_new`: that state has to be
  // saved.
  Decisions(std::string store, std::shared_ptr<const ShardMap> map, uint64_t reserved_event_numbers, bool is_new);

  // The state has changed: what is decided from now on waits until that is saved.
  void NoteChange() { saves_.NoteChange(); }
  bool all_saved() const { return saves_.all_saved(); }
  bool last_save_failed() const { return saves_.last_save_failed(); }

  // ---- once all changes made so far are saved ----

  void AfterSave(Consequence consequence);
  // Also of refusals that rest on what was decided, as that a rank is lost: another scheduler may lead before that is
  // saved, and would not know of it.
  void Answer(RequestHandle handle, absl::StatusOr<Response> response) {
    AfterSave(Reply{handle, std::move(response)});
  }
  void Record(EventKind kind, const std::string& subject, const std::string& reason, Now now, const EventIds& ids = {});
  // While saves fail calls are told at once, so that however many come take no room.
  void RecordCall(const Observed& event, Now now);
  // The cluster has this map from now on, which is a change.
  void Publish(std::shared_ptr<const ShardMap> map);

  // ---- at once ----

  void AtOnce(SchedulerAction action) { actions_.push_back(std::move(action)); }
  void AnswerNow(RequestHandle handle, absl::StatusOr<Response> response) {
    AtOnce(Reply{handle, std::move(response)});
  }
  // The stream has ended.
  void ForgetWatcher(WatcherId watcher);

  // ---- saves ----

  // The number of the save that is to begin now; nullopt: none is.
  std::optional<uint64_t> BeginSave(Now now) { return saves_.BeginSave(now); }
  uint64_t NextSaveNs() const { return saves_.NextSaveNs(); }
  struct Saved {
    bool again = false;  // the save before had failed
    std::vector<LeaseBegins> leases;
  };
  // The save has ended well. What waited for it goes out, and leases begin.
  Saved OnSaved(const Persisted& event, Now now);
  void OnSaveFailed(const Persisted& event, Now now);

  // Appends what goes out.
  void HandOut(SchedulerActions* actions);

  // The cluster's map with all changes, and the newest one whose epoch is saved.
  const std::shared_ptr<const ShardMap>& map() const { return map_; }
  const std::shared_ptr<const ShardMap>& published() const { return published_; }
  // For the state that is saved.
  uint64_t reserved_event_numbers() const { return event_numbers_.reserved(); }
  const SaveNumbers& save_numbers() const { return save_numbers_; }
  const SaveTrouble& save_trouble() const { return save_trouble_; }

 private:
  EventRecord MakeRecord(EventKind kind, const std::string& subject, const std::string& reason, Now now,
                         const EventIds& ids) const;
  void Number(EventRecord event);
  void Carry(const Consequence& consequence);
  // Sends the update to the watchers of the job; 0: to all. The update's own `watcher` does not count.
  void Tell(JobId job, const SendWatch& update);

  const std::string store_;
  EventNumbers event_numbers_;
  std::map<WatcherId, JobId> watchers_;  // open streams, and the job that each follows; 0: none
  SaveQueue saves_;
  SaveNumbers save_numbers_;
  SaveTrouble save_trouble_;
  std::shared_ptr<const ShardMap> map_;
  std::shared_ptr<const ShardMap> published_;
  SchedulerActions actions_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_DECISIONS_H_
