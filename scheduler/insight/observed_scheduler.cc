#include "scheduler/insight/observed_scheduler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "scheduler/machine/caller_checks.h"

namespace shoal::scheduler {

absl::StatusOr<std::unique_ptr<ObservedScheduler>> ObservedScheduler::Make(const SchedulerMachine::Settings& settings,
                                                                           const PersistedState& state, bool is_new,
                                                                           Now now) {
  absl::StatusOr<std::unique_ptr<SchedulerMachine>> membership = SchedulerMachine::Make(settings, state, is_new, now);
  if (!membership.ok()) return membership.status();
  return std::unique_ptr<ObservedScheduler>(new ObservedScheduler(*std::move(membership)));
}

ObservedScheduler::ObservedScheduler(std::unique_ptr<SchedulerMachine> membership)
    : membership_(std::move(membership)), insight_(membership_.get()), audit_(membership_.get()) {}

void ObservedScheduler::OnEvent(const SchedulerEvent& event, Now now, SchedulerActions* actions) {
  const size_t begin = actions->size();
  if (RefuseStranger(event, now, actions)) return Exchange(begin, now, actions);
  if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
    audit_.End(cancelled->handle, absl::CancelledError("the caller did not wait for the answer"), now, actions);
  }
  std::visit(
      [&]<typename Event>(const Event& each) {
        constexpr bool kForInsight = requires { insight_.OnEvent(each, now, actions); };
        constexpr bool kForMembership = requires { membership_->OnEvent(each, now, actions); };
        static_assert(kForInsight || kForMembership);
        if constexpr (kForInsight) insight_.OnEvent(each, now, actions);
        if constexpr (kForMembership) membership_->OnEvent(each, now, actions);
      },
      event);
  Exchange(begin, now, actions);
  const auto* arrived = std::get_if<RequestArrived>(&event);
  for (size_t i = begin; arrived != nullptr && i < actions->size(); ++i) {
    auto* reply = std::get_if<Reply>(&(*actions)[i]);
    if (reply == nullptr || reply->handle != arrived->handle || !reply->response.ok()) continue;
    insight_.Complete(arrived->request, now, &*reply->response);
  }
}

bool ObservedScheduler::RefuseStranger(const SchedulerEvent& event, Now now, SchedulerActions* actions) {
  absl::Status status;
  if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
    status = CheckCaller(arrived->caller, arrived->request, membership_->jobs(), membership_->servers());
    audit_.Begin(*arrived, /*may_not=*/!status.ok());
    if (!status.ok()) actions->emplace_back(Reply{arrived->handle, status});
  } else if (const auto* opened = std::get_if<WatchOpened>(&event)) {
    status = CheckCaller(opened->caller, *opened, membership_->jobs());
    if (status.ok()) return false;
    actions->emplace_back(CloseStream{opened->watcher, status});
    audit_.Refuse(*opened, status, now, actions);
  }
  return !status.ok();
}

void ObservedScheduler::Tick(Now now, SchedulerActions* actions) {
  const size_t begin = actions->size();
  insight_.Tick(now);
  membership_->Tick(now, actions);
  Exchange(begin, now, actions);
}

uint64_t ObservedScheduler::NextDeadlineNs() const {
  return std::min(membership_->NextDeadlineNs(), insight_.NextDeadlineNs());
}

void ObservedScheduler::Exchange(size_t begin, Now now, SchedulerActions* actions) {
  for (size_t i = begin; i < actions->size(); ++i) {
    // Copies, as more actions are added.
    if (const auto* recorded = std::get_if<EventRecorded>(&(*actions)[i])) {
      insight_.OnEvent(EventRecorded(*recorded), now, actions);
    } else if (const auto* gone = std::get_if<RankGone>(&(*actions)[i])) {
      insight_.OnEvent(RankGone(*gone), now, actions);
    } else if (const auto* observed = std::get_if<Observed>(&(*actions)[i])) {
      membership_->OnEvent(Observed(*observed), now, actions);
    } else if (const auto* reply = std::get_if<Reply>(&(*actions)[i])) {
      audit_.End(RequestHandle(reply->handle), absl::Status(reply->response.status()), now, actions);
    }
  }
}

}  // namespace shoal::scheduler
