#include "sim/sim_control.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace shoal::sim {
namespace {

// How long a follower may take to hear who leads.
constexpr uint64_t kLeaderIsKnownNs = 20 * kNsPerMs;
// As proto/scheduler_channel.cc: a connection that is not made within three seconds has failed.
constexpr uint64_t kConnectEveryNs = 100 * kNsPerMs;
constexpr uint32_t kConnectAttempts = 30;
constexpr char kReset[] = "connection reset";
constexpr char kNobodyLeads[] = "no scheduler leads at the moment; try again";
constexpr char kAnotherLeads[] = "another scheduler leads now; try again";

uint64_t AfterCut(const std::map<std::string, uint64_t>& cuts, const std::string& caller, uint64_t at_ns) {
  const auto cut = cuts.find(caller);
  return cut == cuts.end() ? at_ns : std::max(at_ns, cut->second);
}

}  // namespace

using scheduler::RequestHandle;
using scheduler::WatcherId;

void SimControl::Cut(const std::string& caller, bool from_caller, uint64_t until_ns) {
  uint64_t& end_ns = (from_caller ? cut_from_ : cut_to_)[caller];
  end_ns = std::max(end_ns, until_ns);
}

void SimControl::CallerEnded(const std::string& caller) {
  std::vector<RequestHandle> calls;
  for (const auto& [handle, call] : calls_) {
    if (call.caller.name == caller && call.route.host != 0) calls.push_back(handle);
  }
  std::vector<WatcherId> watches;
  for (const auto& [id, watcher] : watchers_) {
    if (watcher.caller.name == caller) watches.push_back(id);
  }
  for (const RequestHandle handle : calls) Cancel(handle);
  for (const WatcherId id : watches) CloseWatch(id);
}

uint64_t SimControl::TimeFrom(const std::string& caller) {
  return AfterCut(cut_from_, caller, world_->now_ns() + Delay());
}

uint64_t SimControl::TimeTo(const Caller& caller, const Route& route, bool stream) {
  const uint64_t passed_on_ns = route.follower == 0 ? 0 : Delay();
  const uint64_t at = AfterCut(cut_to_, caller.name, world_->now_ns() + passed_on_ns + Delay());
  return stream ? AfterCut(streams_held_, caller.name, at) : at;
}

uint64_t SimControl::ConnectedNs(const Caller& caller) const {
  if (caller.connected_ns.has_value()) return *caller.connected_ns;
  const auto found = connected_ns_.find(caller.name);
  return found == connected_ns_.end() ? 0 : found->second;
}

void SimControl::Dispatch(const Caller& caller, const Arrive& arrive, const OnWay& on_way, const Refuse& refuse,
                          uint32_t attempts) {
  if (hosts_.empty() && followers_.empty()) return refuse("connection refused");
  const uint64_t connected_ns = ConnectedNs(caller);
  const uint64_t now_ns = world_->now_ns();
  std::vector<uint64_t> reached;
  const auto consider = [&](uint64_t number, const SimStillness& stillness) {
    if (stillness.IsReachedFrom(connected_ns, now_ns)) reached.push_back(number);
  };
  for (const auto& [number, host] : hosts_) consider(number, host->stillness_);
  for (const auto& [number, follower] : followers_) consider(number, follower->stillness_);
  if (reached.empty()) {
    // Connections are being made; one that stands still takes them, and then says nothing.
    if (attempts == kConnectAttempts) return refuse("connecting took too long");
    return world_->After(kConnectEveryNs, [this, caller, arrive, on_way, refuse, attempts] {
      Dispatch(caller, arrive, on_way, refuse, attempts + 1);
    });
  }
  const uint64_t chosen = reached[world_->random().Below(reached.size())];
  const auto host = hosts_.find(chosen);
  if (host != hosts_.end()) return arrive(host->second, 0);
  on_way(chosen);
  PassOn(chosen, arrive, refuse);
}

void SimControl::PassOn(uint64_t follower, const Arrive& arrive, const Refuse& refuse) {
  Through(follower, [this, follower, arrive, refuse] {
    world_->After(Delay(), [this, follower, arrive, refuse] {
      const auto found = followers_.find(follower);
      if (found == followers_.end()) return refuse(kReset);
      const auto host = hosts_.find(found->second->leader_);
      if (host == hosts_.end()) return refuse(kNobodyLeads);
      arrive(host->second, follower);
    });
  });
}

void SimControl::Through(uint64_t follower, const std::function<void()>& what) {
  const auto found = followers_.find(follower);
  if (found == followers_.end()) {
    if (follower == 0) what();
    return;
  }
  if (!found->second->stillness_.At(world_->now_ns())) return what();
  world_->At(found->second->stillness_.until_ns(), [this, follower, what] { Through(follower, what); });
}

RequestHandle SimControl::Call(Caller caller, scheduler::Request request, uint64_t timeout_ns, Answer answer) {
  const RequestHandle handle(next_handle_++);
  const uint64_t arrival_ns = TimeFrom(caller.name);
  calls_[handle] = {.caller = std::move(caller), .request = std::move(request), .answer = std::move(answer)};
  world_->After(timeout_ns, [this, handle] {
    const auto call = calls_.find(handle);
    if (call == calls_.end()) return;
    connected_ns_[call->second.caller.name] = world_->now_ns();
    const auto host = hosts_.find(call->second.route.host);
    if (host != hosts_.end()) host->second->Arrive(scheduler::RequestCancelled{handle});
    End(handle, absl::UnavailableError("no answer"));
  });
  world_->At(arrival_ns, [this, handle] {
    const auto call = calls_.find(handle);
    if (call == calls_.end()) return;
    Dispatch(
        call->second.caller,
        [this, handle](SimControlHost* host, uint64_t follower) {
          const auto arrived = calls_.find(handle);
          if (arrived == calls_.end()) return;
          // A follower that was asked by a process that has died meanwhile finds the connection broken.
          if (follower != 0 && arrived->second.caller.alive.expired()) {
            calls_.erase(arrived);
            return;
          }
          arrived->second.route = {host->number_, follower};
          host->Arrive(scheduler::RequestArrived{handle, arrived->second.request});
        },
        [this, handle](uint64_t follower) {
          if (const auto passed = calls_.find(handle); passed != calls_.end()) passed->second.route.follower = follower;
        },
        [this, handle](const std::string& why) { End(handle, absl::UnavailableError(why)); });
  });
  return handle;
}

void SimControl::Cancel(RequestHandle handle) {
  const auto call = calls_.find(handle);
  if (call == calls_.end()) return;
  const uint64_t host = call->second.route.host;
  const std::string caller = call->second.caller.name;
  calls_.erase(call);
  world_->At(TimeFrom(caller), [this, handle, host] {
    const auto found = hosts_.find(host);
    if (found != hosts_.end()) found->second->Arrive(scheduler::RequestCancelled{handle});
  });
}

void SimControl::End(RequestHandle handle, const absl::StatusOr<scheduler::Response>& response) {
  const auto call = calls_.find(handle);
  if (call == calls_.end()) return;
  const PendingCall pending = std::move(call->second);
  calls_.erase(call);
  if (!pending.caller.alive.expired()) pending.answer(response);
}

void SimControl::Break(RequestHandle handle, const char* why) {
  world_->After(Delay(), [this, handle, why] { End(handle, absl::UnavailableError(why)); });
}

WatcherId SimControl::OpenWatch(Caller caller, scheduler::WatchOpened opened, Update update, Ended ended) {
  const WatcherId id(next_watcher_++);
  opened.watcher = id;
  const uint64_t arrival_ns = TimeFrom(caller.name);
  watchers_[id] = {
      .caller = std::move(caller), .opened = opened, .update = std::move(update), .ended = std::move(ended)};
  world_->At(arrival_ns, [this, id] {
    const auto watcher = watchers_.find(id);
    if (watcher == watchers_.end()) return;
    Dispatch(
        watcher->second.caller,
        [this, id](SimControlHost* host, uint64_t follower) {
          const auto arrived = watchers_.find(id);
          if (arrived == watchers_.end()) return;
          arrived->second.route = {host->number_, follower};
          host->Arrive(arrived->second.opened);
        },
        [this, id](uint64_t follower) {
          if (const auto passed = watchers_.find(id); passed != watchers_.end())
            passed->second.route.follower = follower;
        },
        [this, id](const std::string&) { BreakStream(id); });
  });
  return id;
}

void SimControl::CloseWatch(WatcherId id) {
  const auto watcher = watchers_.find(id);
  if (watcher == watchers_.end()) return;
  const uint64_t host = watcher->second.route.host;
  const std::string caller = watcher->second.caller.name;
  watchers_.erase(watcher);
  world_->At(TimeFrom(caller), [this, id, host] {
    const auto found = hosts_.find(host);
    if (found != hosts_.end()) found->second->Arrive(scheduler::StreamClosed{id});
  });
}

void SimControl::BreakStream(WatcherId id) {
  world_->After(Delay(), [this, id] {
    const auto watcher = watchers_.find(id);
    if (watcher == watchers_.end()) return;
    const Watcher broken = std::move(watcher->second);
    watchers_.erase(watcher);
    // The follower that passed the stream on may be what is gone.
    const auto host = hosts_.find(broken.route.host);
    if (host != hosts_.end()) host->second->Arrive(scheduler::StreamClosed{id});
    if (!broken.caller.alive.expired()) broken.ended();
  });
}

template <typename Concerns>
void SimControl::BreakAll(const Concerns& concerns, const char* why) {
  for (const auto& [handle, call] : calls_) {
    if (concerns(call.route)) Break(handle, why);
  }
  for (const auto& [id, watcher] : watchers_) {
    if (concerns(watcher.route)) BreakStream(id);
  }
}

void SimControl::HostCame(uint64_t host) {
  for (const auto& [number, follower] : followers_) {
    world_->After(world_->random().Below(kLeaderIsKnownNs), [this, number = number, host] {
      Through(number, [this, number, host] {
        const auto found = followers_.find(number);
        if (found == followers_.end() || found->second->leader_ >= host) return;
        found->second->leader_ = host;
        BreakAll([&](const Route& route) { return route.follower == number && route.host != 0 && route.host != host; },
                 kAnotherLeads);
      });
    });
  }
}

void SimControl::HostIsGone(uint64_t number) {
  hosts_.erase(number);
  BreakAll([number](const Route& route) { return route.host == number; }, kReset);
}

void SimControl::Deliver(WatcherId id, const scheduler::SendWatch& update) {
  const auto watcher = watchers_.find(id);
  if (watcher == watchers_.end()) return;
  if (!watcher->second.caller.alive.expired()) return watcher->second.update(update);
  CloseWatch(id);
}

SimControlHost::SimControlHost(SimControl* control) : control_(control), number_(control->next_number_++) {
  control_->hosts_[number_] = this;
  control_->HostCame(number_);
}

SimControlHost::~SimControlHost() { control_->HostIsGone(number_); }

void SimControlHost::StandStillUntil(uint64_t world_ns) { stillness_.StandStill(control_->world_->now_ns(), world_ns); }

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
  SimControl* const control = control_;
  const auto call = control->calls_.find(reply.handle);
  if (call == control->calls_.end()) return;
  const auto* const reported = reply.response.ok() ? std::get_if<scheduler::ServerReported>(&*reply.response) : nullptr;
  if (reported != nullptr && !reported->newer.has_value()) ++control->reports_without_move_;
  const auto lost = control->answers_lost_.find(call->second.caller.name);
  if (lost != control->answers_lost_.end() && control->world_->now_ns() < lost->second) {
    return control->Break(reply.handle, kReset);
  }
  // What is under way when this scheduler dies is lost.
  const SimControl::Route route = call->second.route;
  control->world_->At(control->TimeTo(call->second.caller, route, /*stream=*/false), [control, route, reply] {
    control->Through(route.follower, [control, route, reply] {
      if (control->hosts_.contains(route.host)) control->End(reply.handle, reply.response);
    });
  });
}

void SimControlHost::Execute(const scheduler::SendWatch& update) {
  SimControl* const control = control_;
  const auto watcher = control->watchers_.find(update.watcher);
  if (watcher == control->watchers_.end()) return;
  const SimControl::Route route = watcher->second.route;
  uint64_t& last_ns = watcher->second.last_ns;
  last_ns = std::max(control->TimeTo(watcher->second.caller, route, /*stream=*/true), last_ns);
  control->world_->At(last_ns, [control, route, update] {
    control->Through(route.follower, [control, route, update] {
      if (control->hosts_.contains(route.host)) control->Deliver(update.watcher, update);
    });
  });
}

void SimControlHost::Execute(const scheduler::CloseStream& close) { control_->BreakStream(close.watcher); }

SimFollower::SimFollower(SimControl* control) : control_(control), number_(control->next_number_++) {
  control_->followers_[number_] = this;
  if (!control_->hosts_.empty()) leader_ = control_->hosts_.rbegin()->first;
}

SimFollower::~SimFollower() {
  control_->followers_.erase(number_);
  control_->BreakAll([this](const SimControl::Route& route) { return route.follower == number_; }, kReset);
}

void SimFollower::StandStillUntil(uint64_t world_ns) { stillness_.StandStill(control_->world_->now_ns(), world_ns); }

}  // namespace shoal::sim
