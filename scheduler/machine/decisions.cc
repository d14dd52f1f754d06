#include "scheduler/machine/decisions.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"

namespace shoal::scheduler {

Decisions::Decisions(std::string store, std::shared_ptr<const ShardMap> map, uint64_t reserved_event_numbers,
                     bool is_new)
    : store_(std::move(store)),
      event_numbers_(is_new || reserved_event_numbers != 0 ? reserved_event_numbers : kEventNumbersOfOlderReleases),
      saves_(is_new),
      map_(std::move(map)),
      published_(map_) {}

void Decisions::AfterSave(Consequence consequence) {
  if (saves_.all_saved()) {
    Carry(consequence);
  } else {
    saves_.Hold(std::move(consequence));
  }
}

void Decisions::Carry(const Consequence& consequence) {
  if (const auto* reply = std::get_if<Reply>(&consequence)) {
    actions_.push_back(*reply);
  } else if (const auto* event = std::get_if<EventRecord>(&consequence)) {
    EventRecord numbered = *event;
    numbered.sequence = event_numbers_.Next();
    actions_.push_back(EventRecorded{std::move(numbered)});
  } else if (const auto* map = std::get_if<PublishMap>(&consequence)) {
    published_ = map->map;
    Tell(JobId(), {.map = map->map});
  } else if (const auto* lost = std::get_if<PublishLost>(&consequence)) {
    Tell(lost->lost.job, {.lost_ranks = {lost->lost}});
  } else if (const auto* moved = std::get_if<PublishGroupMap>(&consequence)) {
    Tell(moved->job, {.groups = {moved->group}});
  } else if (const auto* wanted = std::get_if<PublishColocationRequest>(&consequence)) {
    Tell(wanted->job, {.colocation = wanted->request});
  } else if (const auto* added = std::get_if<AddWatcher>(&consequence)) {
    watchers_[added->watcher] = added->job;
    actions_.push_back(added->first);
  }
}

void Decisions::Tell(JobId job, const SendWatch& update) {
  for (const auto& [watcher, watched] : watchers_) {
    if (job != JobId() && watched != job) continue;
    std::get<SendWatch>(actions_.emplace_back(update)).watcher = watcher;
  }
}

EventRecord Decisions::MakeRecord(EventKind kind, const std::string& subject, const std::string& reason, Now now,
                                  const EventIds& ids) const {
  EventRecord event;
  event.at_unix_ms = now.unix_ms;
  event.kind = kind;
  event.subject = subject;
  event.reason = reason;
  event.epoch = map_->epoch();
  event.ids = ids;
  return event;
}

void Decisions::Number(EventRecord event) {
  if (event_numbers_.Expect()) saves_.NoteChange();
  AfterSave(std::move(event));
}

void Decisions::Record(EventKind kind, const std::string& subject, const std::string& reason, Now now,
                       const EventIds& ids) {
  Number(MakeRecord(kind, subject, reason, now, ids));
}

void Decisions::RecordCall(const Observed& event, Now now) {
  EventRecord record = MakeRecord(event.kind, event.subject, event.reason, now, event.ids);
  record.call = event.call;
  if (!saves_.last_save_failed()) return Number(std::move(record));
  record.sequence = event_numbers_.newest();
  actions_.push_back(EventRecorded{std::move(record)});
}

void Decisions::Publish(std::shared_ptr<const ShardMap> map) {
  map_ = std::move(map);
  NoteChange();
  AfterSave(PublishMap{map_});
}

void Decisions::ForgetWatcher(WatcherId watcher) {
  watchers_.erase(watcher);
  saves_.ForgetWatcher(watcher);
}

Decisions::Saved Decisions::OnSaved(const Persisted& event, Now now) {
  save_numbers_.Count(/*has_succeeded=*/true, event.took_ns, now);
  Saved saved{.again = saves_.OnSaved(event.number), .leases = {}};
  if (saved.again) {
    Record(EventKind::kSavedAgain, store_,
           absl::StrCat("the state is saved again, after ", save_trouble_.failures(), " failed saves in ",
                        Seconds((now.unix_ms - std::min(now.unix_ms, save_trouble_.since_unix_ms())) * kNsPerMs)),
           now);
    save_trouble_ = SaveTrouble();
  }
  while (const std::optional<Consequence> consequence = saves_.TakeReleased()) {
    if (const auto* lease = std::get_if<LeaseBegins>(&*consequence)) saved.leases.push_back(*lease);
    Carry(*consequence);
  }
  return saved;
}

void Decisions::OnSaveFailed(const Persisted& event, Now now) {
  save_numbers_.Count(/*has_succeeded=*/false, event.took_ns, now);
  const std::string reason = absl::StrCat("the state could not be saved: ", event.status.message());
  if (save_trouble_.Note(std::string(event.status.message()), now)) {
    actions_.push_back(EventRecorded{{.sequence = event_numbers_.newest(),
                                      .at_unix_ms = now.unix_ms,
                                      .kind = EventKind::kSaveFailed,
                                      .subject = store_,
                                      .reason = reason,
                                      .epoch = published_->epoch()}});
  }
  for (const RequestHandle handle : saves_.OnSaveFailed(event.number, now)) {
    AnswerNow(handle, absl::UnavailableError(absl::StrCat(reason, "; fix the store, then try again")));
  }
}

void Decisions::HandOut(SchedulerActions* actions) {
  actions->insert(actions->end(), std::make_move_iterator(actions_.begin()), std::make_move_iterator(actions_.end()));
  actions_.clear();
}

}  // namespace shoal::scheduler
