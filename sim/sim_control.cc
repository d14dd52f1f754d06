#include "sim/sim_control.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shoal::sim {
namespace {

uint64_t AfterCut(const std::map<std::string, uint64_t>& cuts, const std::string& caller, uint64_t at_ns) {
  const auto cut = cuts.find(caller);
  return cut == cuts.end() ? at_ns : std::max(at_ns, cut->second);
}

}  // namespace

using scheduler::RequestHandle;
using scheduler::WatcherId;

void SimControl::Cut(const std::string& caller, bool from_caller, uint64_t until_ns) {
  (from_caller ? cut_from_ : cut_to_)[caller] = until_ns;
}

uint64_t SimControl::TimeFrom(const std::string& caller) {
  return AfterCut(cut_from_, caller, world_->now_ns() + Delay());
}

uint64_t SimControl::TimeTo(const std::string& caller, bool stream) {
  const uint64_t at = AfterCut(cut_to_, caller, world_->now_ns() + Delay());
  return stream ? AfterCut(streams_held_, caller, at) : at;
}

SimControlHost* SimControl::AnyHost() {
  if (hosts_.empty()) return nullptr;
  return std::next(hosts_.begin(), static_cast<int64_t>(world_->random().Below(hosts_.size())))->second;
}

void SimControl::Call(Caller caller, scheduler::Request request, uint64_t timeout_ns, Answer answer) {
  const RequestHandle handle(next_handle_++);
  const uint64_t arrival_ns = TimeFrom(caller.name);
  calls_[handle] = {.caller = std::move(caller), .answer = std::move(answer)};
  world_->After(timeout_ns, [this, handle] {
    const auto call = calls_.find(handle);
    if (call == calls_.end()) return;
    const auto host = hosts_.find(call->second.host);
    if (host != hosts_.end()) host->second->Arrive(scheduler::RequestCancelled{handle});
    End(handle, absl::UnavailableError("the scheduler did not answer in time"));
  });
  world_->At(arrival_ns, [this, handle, request = std::move(request)] {
    const auto call = calls_.find(handle);
    if (call == calls_.end()) return;
    SimControlHost* const host = AnyHost();
    if (host == nullptr) return End(handle, absl::UnavailableError("connection refused"));
    call->second.host = host->number_;
    host->Arrive(scheduler::RequestArrived{handle, request});
  });
}

void SimControl::End(RequestHandle handle, const absl::StatusOr<scheduler::Response>& response) {
  const auto call = calls_.find(handle);
  if (call == calls_.end()) return;
  const PendingCall pending = std::move(call->second);
  calls_.erase(call);
  if (!pending.caller.alive.expired()) pending.answer(response);
}

void SimControl::Watch(Caller caller, JobId job, Update update) {
  OpenStream({.caller = std::move(caller), .job = job, .update = std::move(update)});
}

void SimControl::OpenStream(Watcher watcher) {
  const uint64_t at = TimeFrom(watcher.caller.name);
  world_->At(at, [this, watcher = std::move(watcher)]() mutable {
    if (watcher.caller.alive.expired()) return;
    SimControlHost* const host = AnyHost();
    if (host == nullptr) return OpenStream(watcher);
    const WatcherId id(next_watcher_++);
    watcher.host = host->number_;
    watcher.last_ns = 0;
    const JobId job = watcher.job;
    watchers_[id] = std::move(watcher);
    host->Arrive(scheduler::WatchOpened{id, job});
  });
}

void SimControl::HostIsGone(uint64_t number) {
  hosts_.erase(number);
  for (const auto& [handle, call] : calls_) {
    if (call.host != number) continue;
    world_->After(Delay(), [this, handle = handle] { End(handle, absl::UnavailableError("connection reset")); });
  }
  std::erase_if(watchers_, [&](auto& entry) {
    if (entry.second.host != number) return false;
    if (!entry.second.caller.alive.expired()) OpenStream(std::move(entry.second));
    return true;
  });
}

void SimControl::Deliver(WatcherId id, const scheduler::SendWatch& update) {
  const auto watcher = watchers_.find(id);
  if (watcher == watchers_.end()) return;
  if (!watcher->second.caller.alive.expired()) return watcher->second.update(update);
  const auto host = hosts_.find(watcher->second.host);
  watchers_.erase(watcher);
  if (host != hosts_.end()) host->second->Arrive(scheduler::StreamClosed{id});
}

SimControlHost::SimControlHost(SimControl* control) : control_(control), number_(control->next_host_++) {
  control_->hosts_[number_] = this;
}

SimControlHost::~SimControlHost() { control_->HostIsGone(number_); }

void SimControlHost::Arrive(scheduler::SchedulerEvent event) {
  inbox_.push_back(std::move(event));
  wake_();
}

std::optional<scheduler::SchedulerEvent> SimControlHost::Poll() {
  if (inbox_.empty()) return std::nullopt;
  scheduler::SchedulerEvent event = std::move(inbox_.front());
  inbox_.pop_front();
  return event;
}

void SimControlHost::Execute(const scheduler::Reply& reply) {
  const auto call = control_->calls_.find(reply.handle);
  if (call == control_->calls_.end()) return;
  const auto lost = control_->answers_lost_.find(call->second.caller.name);
  if (lost != control_->answers_lost_.end() && control_->world_->now_ns() < lost->second) {
    control_->world_->After(control_->Delay(), [control = control_, handle = reply.handle] {
      control->End(handle, absl::UnavailableError("connection reset"));
    });
    return;
  }
  // What is under way when this scheduler dies is lost.
  control_->world_->At(control_->TimeTo(call->second.caller.name, /*stream=*/false),
                       [control = control_, number = number_, reply] {
                         if (control->hosts_.contains(number)) control->End(reply.handle, reply.response);
                       });
}

void SimControlHost::Execute(const scheduler::SendWatch& update) {
  const auto watcher = control_->watchers_.find(update.watcher);
  if (watcher == control_->watchers_.end()) return;
  uint64_t& last_ns = watcher->second.last_ns;
  last_ns = std::max(control_->TimeTo(watcher->second.caller.name, /*stream=*/true), last_ns);
  control_->world_->At(last_ns, [control = control_, number = number_, update] {
    if (control->hosts_.contains(number)) control->Deliver(update.watcher, update);
  });
}

void SimControlHost::Execute(const scheduler::CloseStream& close) { control_->watchers_.erase(close.watcher); }

}  // namespace shoal::sim
