#include "worker/membership/call_book.h"

#include <utility>

#include "core/no_leader.h"

namespace shoal {

CallId CallBook::Start(CallOwner owner, SchedulerCall what, uint64_t deadline_ns, MembershipActions* actions) {
  const CallId call(++last_call_);
  open_[call] = {.owner = owner, .connections = connections_};
  actions->emplace_back(StartCallAction{call, std::move(what), deadline_ns});
  return call;
}

void CallBook::Cancel(CallId* call, MembershipActions* actions) {
  if (open_.erase(*call) > 0) actions->emplace_back(CancelCallAction{*call});
  *call = CallId();
}

std::optional<CallBook::Ended> CallBook::End(const CallEnded& event, MembershipActions* actions) {
  const auto found = open_.find(event.call);
  if (found == open_.end()) return std::nullopt;
  Ended ended{.owner = found->second.owner};
  // gRPC would keep a connection to a node that is gone without a word for many minutes, and would wait for seconds
  // before it tries one again that was refused; a lease may not have that long.
  // A follower's refusal is an answer. Over new connections the same one may come first again, and again; those that
  // there are take turns.
  const bool is_silent = absl::IsUnavailable(event.answer.status()) && !IsRefusedByFollower(event.answer.status());
  ended.gave_connections_up = is_silent && found->second.connections == connections_;
  open_.erase(found);
  if (ended.gave_connections_up) {
    ++connections_;
    actions->emplace_back(UseNewConnectionsAction{});
  }
  return ended;
}

}  // namespace shoal
