#include "sim/sim_control.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/failure_detection.h"
#include "core/no_leader.h"

namespace shoal::sim {
namespace {

// How long a follower may take to hear who leads.
constexpr uint64_t kLeaderIsKnownNs = 20 * kNsPerMs;
// As proto/scheduler_channel.cc: a connection that is not made within three seconds has failed.
constexpr uint64_t kConnectEveryNs = 100 * kNsPerMs;
constexpr uint32_t kConnectAttempts = 30;
constexpr char kReset[] = "connection reset";

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
  std::vector<WatcherId> streams;
  for (const auto& [id, stream] : streams_) {
    if (stream.caller.name == caller) streams.push_back(id);
  }
  for (const RequestHandle handle : calls) Cancel(handle);
  for (const WatcherId id : streams) CloseStream(id);
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

uint64_t SimControl::TakeTurn(const Caller& caller) {
  const uint64_t connected_ns = ConnectedNs(caller);
  const auto [turn, is_new] = turns_.try_emplace(caller.name);
  if (is_new || turn->second.connected_ns != connected_ns) turn->second = {connected_ns, world_->random().Next() >> 1};
  return turn->second.next++;
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
  const uint64_t chosen = reached[TakeTurn(caller) % reached.size()];
  const auto host = hosts_.find(chosen);
  if (host != hosts_.end()) return arrive(host->second, 0);
  on_way(chosen);
  PassOn(chosen, arrive, refuse);
}

void SimControl::PassOn(uint64_t follower, const Arrive& arrive, const Refuse& refuse) {
  WhenAwake(follower, [this, follower, arrive, refuse] {
    if (followers_.at(follower)->TakesLeaderForSilent(world_->now_ns())) return refuse(kLeaderIsSilent);
    world_->After(Delay(), [this, follower, arrive, refuse] {
      if (!followers_.contains(follower)) return refuse(kReset);
      Through(follower, [this, follower, arrive, refuse] {
        const auto host = hosts_.find(followers_.at(follower)->leader_);
        if (host == hosts_.end()) return refuse(kNobodyLeads);
        arrive(host->second, follower);
      });
    });
  });
}

void SimControl::WhenAwake(uint64_t follower, std::function<void()> what) {
  const auto found = followers_.find(follower);
  if (found == followers_.end()) return;
  const SimStillness& stillness = found->second->stillness_;
  if (!stillness.At(world_->now_ns())) return what();
  world_->At(stillness.until_ns(), [this, follower, what = std::move(what)] { WhenAwake(follower, what); });
}

void SimControl::Through(uint64_t follower, std::function<void()> what) {
  const auto found = followers_.find(follower);
  if (found == followers_.end()) {
    if (follower == 0) what();
    return;
  }
  const uint64_t until_ns = std::max(found->second->stillness_.until_ns(), found->second->cut_until_ns_);
  if (world_->now_ns() >= until_ns) return what();
  world_->At(until_ns, [this, follower, what = std::move(what)] { Through(follower, what); });
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
          if (host->IsOverloaded()) return Break(handle, scheduler::OverloadedError());
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
  const auto cut = cut_from_.find(pending.caller.name);
  const bool is_cut = cut != cut_from_.end() && world_->now_ns() < cut->second;
  if (absl::IsUnavailable(response.status()) && !is_cut) on_unanswered_();
  if (!pending.caller.alive.expired()) pending.answer(response);
}

void SimControl::Break(RequestHandle handle, const absl::Status& why) {
  world_->After(Delay(), [this, handle, why] { End(handle, why); });
}

WatcherId SimControl::OpenWatch(Caller caller, scheduler::WatchOpened opened, TakeUpdate take, Ended ended) {
  opened.watcher = WatcherId(next_watcher_++);
  return Open(
      opened.watcher,
      {.caller = std::move(caller), .opened = opened, .take_update = std::move(take), .ended = std::move(ended)});
}

WatcherId SimControl::OpenEvents(Caller caller, scheduler::EventsOpened opened, TakeEvent take, Ended ended) {
  opened.watcher = WatcherId(next_watcher_++);
  return Open(
      opened.watcher,
      {.caller = std::move(caller), .opened = opened, .take_event = std::move(take), .ended = std::move(ended)});
}

WatcherId SimControl::Open(WatcherId id, Stream stream) {
  const uint64_t arrival_ns = TimeFrom(stream.caller.name);
  streams_[id] = std::move(stream);
  world_->At(arrival_ns, [this, id] {
    const auto opening = streams_.find(id);
    if (opening == streams_.end()) return;
    Dispatch(
        opening->second.caller,
        [this, id](SimControlHost* host, uint64_t follower) {
          const auto arrived = streams_.find(id);
          if (arrived == streams_.end()) return;
          if (host->IsOverloaded()) return BreakStream(id, scheduler::OverloadedError());
          arrived->second.route = {host->number_, follower};
          host->Arrive(arrived->second.opened);
        },
        [this, id](uint64_t follower) {
          if (const auto passed = streams_.find(id); passed != streams_.end()) passed->second.route.follower = follower;
        },
        [this, id](const std::string& why) { BreakStream(id, absl::UnavailableError(why)); });
  });
  return id;
}

void SimControl::CloseStream(WatcherId id) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) return;
  const uint64_t host = stream->second.route.host;
  const std::string caller = stream->second.caller.name;
  streams_.erase(stream);
  world_->At(TimeFrom(caller), [this, id, host] {
    const auto found = hosts_.find(host);
    if (found != hosts_.end()) found->second->Arrive(scheduler::StreamClosed{id});
  });
}

void SimControl::SendOn(Stream* stream, const std::function<void()>& arrive) {
  const Route route = stream->route;
  stream->last_ns = std::max(TimeTo(stream->caller, route, /*stream=*/true), stream->last_ns);
  world_->At(stream->last_ns, [this, route, arrive] {
    Through(route.follower, [this, route, arrive] {
      if (hosts_.contains(route.host)) arrive();
    });
  });
}

void SimControl::EndStream(WatcherId id, const absl::Status& status) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end() || stream->second.ends) return;
  stream->second.ends = true;
  SendOn(&stream->second, [this, id, status] { StreamEnded(id, status); });
}

void SimControl::BreakStream(WatcherId id, const absl::Status& why) {
  world_->After(Delay(), [this, id, why] { StreamEnded(id, why); });
}

void SimControl::StreamEnded(WatcherId id, const absl::Status& status) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) return;
  const Stream ended = std::move(stream->second);
  streams_.erase(stream);
  // The follower that passed the stream on may be what is gone; or it is cut off, and the host hears of the end later.
  const auto host = hosts_.find(ended.route.host);
  const auto follower = followers_.find(ended.route.follower);
  if (host != hosts_.end() && follower != followers_.end() && follower->second->cut_until_ns_ > world_->now_ns()) {
    world_->At(follower->second->cut_until_ns_, [this, id, number = ended.route.host] {
      const auto later = hosts_.find(number);
      if (later != hosts_.end()) later->second->Arrive(scheduler::StreamClosed{id});
    });
  } else if (host != hosts_.end()) {
    host->second->Arrive(scheduler::StreamClosed{id});
  }
  if (!ended.caller.alive.expired()) ended.ended(status);
}

template <typename Concerns>
void SimControl::BreakAll(const Concerns& concerns, const absl::Status& why) {
  for (const auto& [handle, call] : calls_) {
    if (concerns(call.route)) Break(handle, why);
  }
  for (const auto& [id, stream] : streams_) {
    if (concerns(stream.route)) BreakStream(id, why);
  }
}

void SimControl::HostCame(uint64_t host) {
  for (const auto& [number, follower] : followers_) {
    world_->After(world_->random().Below(kLeaderIsKnownNs), [this, number = number, host] {
      WhenAwake(number, [this, number, host] {
        const auto found = followers_.find(number);
        if (found == followers_.end() || found->second->is_told_ || found->second->leader_ >= host) return;
        found->second->SetLeader(host);
      });
    });
  }
}

void SimControl::HostIsGone(uint64_t number) {
  hosts_.erase(number);
  BreakAll([number](const Route& route) { return route.host == number; }, absl::UnavailableError(kReset));
}

void SimControl::Deliver(WatcherId id, const scheduler::SendWatch& update) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) return;
  if (!stream->second.caller.alive.expired()) return stream->second.take_update(update);
  CloseStream(id);
}

void SimControl::DeliverEvent(WatcherId id) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end() || stream->second.unread.empty()) return;  // it was lost, and the stream's end follows
  if (stream->second.caller.alive.expired()) return CloseStream(id);
  const scheduler::EventRecord event = std::move(stream->second.unread.front());
  stream->second.unread.pop_front();
  stream->second.take_event(event);
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
    return control->Break(reply.handle, absl::UnavailableError(kReset));
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
  const auto stream = control->streams_.find(update.watcher);
  if (stream == control->streams_.end() || stream->second.ends) return;
  control->SendOn(&stream->second, [control, update] { control->Deliver(update.watcher, update); });
}

void SimControlHost::Execute(const scheduler::SendEvent& event) {
  const auto found = control_->streams_.find(event.watcher);
  if (found == control_->streams_.end() || found->second.ends) return;
  SimControl::Stream& stream = found->second;
  if (stream.unread.size() >= scheduler::kMaxQueuedStreamEvents) {
    stream.unread.clear();
    return control_->EndStream(event.watcher, scheduler::ReaderTooSlowError());
  }
  stream.unread.push_back(event.event);
  control_->SendOn(&stream, [control = control_, id = event.watcher] { control->DeliverEvent(id); });
}

void SimControlHost::Execute(const scheduler::CloseStream& close) { control_->EndStream(close.watcher, close.status); }

SimFollower::SimFollower(SimControl* control, uint64_t lease_ttl_ns, bool is_told)
    : control_(control), lease_ttl_ns_(lease_ttl_ns), is_told_(is_told), number_(control->next_number_++) {
  control_->followers_[number_] = this;
  if (!is_told && !control_->hosts_.empty()) leader_ = control_->hosts_.rbegin()->first;
}

SimFollower::~SimFollower() {
  control_->followers_.erase(number_);
  control_->BreakAll([this](const SimControl::Route& route) { return route.follower == number_; },
                     absl::UnavailableError(kReset));
}

void SimFollower::SetLeader(uint64_t host) {
  if (leader_ == host) return;
  leader_ = host;
  cut_until_ns_ = silent_from_ns_ = silent_until_ns_ = 0;  // nothing is between it and the new one
  control_->BreakAll([&](const SimControl::Route& route) { return route.follower == number_ && route.host != host; },
                     absl::UnavailableError(kAnotherLeads));
}

void SimFollower::CutFromLeaderUntil(uint64_t world_ns) {
  World* const world = control_->world_;
  cut_until_ns_ = std::max(cut_until_ns_, world_ns);
  const uint64_t period_ns = LeaderProbePeriodNs(lease_ttl_ns_);
  const uint64_t timeout_ns = LeaderProbeTimeoutNs(lease_ttl_ns_);
  const uint64_t noticed_ns = world->now_ns() + timeout_ns + world->random().Below(timeout_ns);
  if (noticed_ns >= cut_until_ns_) return;
  world->At(noticed_ns, [this, alive = std::weak_ptr<bool>(alive_), period_ns] {
    if (alive.expired() || cut_until_ns_ == 0) return;
    silent_from_ns_ = control_->world_->now_ns();
    // It asks over a new connection every time.
    silent_until_ns_ = cut_until_ns_ + control_->world_->random().Below(period_ns);
    control_->BreakAll([this](const SimControl::Route& route) { return route.follower == number_; },
                       absl::UnavailableError(kLeaderIsSilent));
  });
}

void SimFollower::StandStillUntil(uint64_t world_ns) { stillness_.StandStill(control_->world_->now_ns(), world_ns); }

}  // namespace shoal::sim
