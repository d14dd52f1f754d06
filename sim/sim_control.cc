#include "sim/sim_control.h"

#include <utility>

namespace shoal::sim {

using scheduler::RequestHandle;
using scheduler::WatcherId;

void SimControl::Call(std::weak_ptr<bool> caller, scheduler::Request request, uint64_t timeout_ns, Answer answer) {
  const RequestHandle handle(next_handle_++);
  calls_[handle] = {std::move(caller), std::move(answer)};
  world_->After(timeout_ns, [this, handle] {
    if (up_ && calls_.contains(handle)) Arrive(scheduler::RequestCancelled{handle});
    End(handle, absl::UnavailableError("the scheduler did not answer in time"));
  });
  world_->After(Delay(), [this, handle, request = std::move(request)]() mutable {
    if (!up_) return End(handle, absl::UnavailableError("connection refused"));
    if (calls_.contains(handle)) Arrive(scheduler::RequestArrived{handle, std::move(request)});
  });
}

void SimControl::End(RequestHandle handle, const absl::StatusOr<scheduler::Response>& response) {
  const auto call = calls_.find(handle);
  if (call == calls_.end()) return;
  const PendingCall pending = std::move(call->second);
  calls_.erase(call);
  if (!pending.caller.expired()) pending.answer(response);
}

void SimControl::Watch(std::weak_ptr<bool> caller, JobId job, Update update) {
  OpenStream({std::move(caller), job, std::move(update)});
}

void SimControl::OpenStream(const Watcher& watcher) {
  world_->After(Delay(), [this, watcher] {
    if (watcher.caller.expired()) return;
    if (!up_) return OpenStream(watcher);
    const WatcherId id(next_watcher_++);
    watchers_[id] = watcher;
    Arrive(scheduler::WatchOpened{id, watcher.job});
  });
}

void SimControl::SetUp(bool up) {
  up_ = up;
  ++life_;
  inbox_.clear();
  if (!up) {
    for (const auto& [handle, call] : calls_) {
      world_->After(Delay(), [this, handle = handle] { End(handle, absl::UnavailableError("connection reset")); });
    }
  }
  const std::map<WatcherId, Watcher> broken = std::exchange(watchers_, {});
  for (const auto& [id, watcher] : broken) {
    if (!up && !watcher.caller.expired()) OpenStream(watcher);
  }
}

void SimControl::Arrive(scheduler::SchedulerEvent event) {
  inbox_.push_back(std::move(event));
  wake_();
}

std::optional<scheduler::SchedulerEvent> SimControl::Poll() {
  if (inbox_.empty()) return std::nullopt;
  scheduler::SchedulerEvent event = std::move(inbox_.front());
  inbox_.pop_front();
  return event;
}

void SimControl::Execute(const scheduler::Reply& reply) {
  world_->After(Delay(), [this, life = life_, reply] {
    if (life == life_) End(reply.handle, reply.response);
  });
}

void SimControl::Execute(const scheduler::SendWatch& update) {
  world_->After(Delay(), [this, life = life_, update] {
    const auto watcher = watchers_.find(update.watcher);
    if (life != life_ || watcher == watchers_.end()) return;
    if (watcher->second.caller.expired()) {
      watchers_.erase(watcher);
      return Arrive(scheduler::StreamClosed{update.watcher});
    }
    watcher->second.update(update);
  });
}

// Nobody reads the events of a simulated scheduler.
void SimControl::Execute(const scheduler::SendEvent&) {}

void SimControl::Execute(const scheduler::CloseStream& close) { watchers_.erase(close.watcher); }

}  // namespace shoal::sim
