#include "worker/loop/worker_loop.h"

#include <cstring>
#include <utility>
#include <variant>

#include "reduce/convert.h"

namespace shoal {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

TransportEvent Ended(TransportEventKind kind, uint64_t token, absl::Status status) {
  TransportEvent event;
  event.kind = kind;
  event.token = token;
  event.status = std::move(status);
  return event;
}

}  // namespace

WorkerLoop::WorkerLoop(const WorkerMachineOptions& options, Transport* transport)
    : machine_(options), transport_(transport) {}

bool WorkerLoop::RunOnce(Now now, std::span<const WorkerCommand> commands, WorkerOutcomes* outcomes) {
  const size_t outcomes_before = outcomes->size();
  const std::span<const TransportEvent> events = transport_->Poll();
  for (const WorkerCommand& command : commands) machine_.OnCommand(command, now, &actions_, outcomes);
  for (const TransportEvent& event : events) machine_.OnTransportEvent(event, now, &actions_, outcomes);
  const bool due = now.monotonic_ns >= machine_.NextDeadlineNs();
  if (!events.empty() || !commands.empty() || due) machine_.Tick(now, &actions_, outcomes);
  const bool progress =
      !events.empty() || !commands.empty() || !actions_.empty() || outcomes->size() != outcomes_before;
  Execute(now, outcomes);
  return progress;
}

WorkerCounters WorkerLoop::counters() const {
  WorkerCounters counters = machine_.counters();
  std::vector<PeerId> peers;
  for (const ShardTraffic& shard : counters.shards) peers.push_back(shard.peer);
  TransportReport report = transport_->Report(peers);
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] != PeerId()) counters.shards[i].transport = std::move(report.peer_transports[i]);
  }
  return counters;
}

void WorkerLoop::Execute(Now now, WorkerOutcomes* outcomes) {
  const auto execute = Overloaded{
      [this, now](const WorkerConnectAction& action) {
        machine_.OnConnecting(action.connection, transport_->Connect(machine_.ConnectionAddress(action.connection)),
                              now);
      },
      // A note to a peer that is already gone needs no answer: its kPeerDown follows. A server that takes no notes
      // any more is as good as gone.
      [this](const WorkerSendNoteAction& action) {
        const absl::Status status = transport_->SendNote(action.peer, action.note.view());
        if (absl::IsResourceExhausted(status)) transport_->Close(action.peer);
      },
      [](const WorkerNarrowAction& action) {
        NarrowFloat32(action.type, action.tensor, action.place, action.elements);
      },
      [](const WorkerWidenAction& action) {
        WidenToFloat32(action.type, action.place, action.tensor, action.elements);
      },
      [this](const WorkerSendAction& action) {
        absl::Status status = transport_->Send(action.peer, action.header, {action.data, action.bytes}, action.token);
        if (!status.ok()) failed_.push_back(Ended(TransportEventKind::kSent, action.token, std::move(status)));
      },
      [](const WorkerCopyAction& action) { std::memcpy(action.to, action.from, action.bytes); },
      [this](const WorkerAcceptAction& action) {
        const bool at_once = action.data_at_once != nullptr && transport_->AcceptsAtOnce(action.offer);
        std::byte* const data = at_once ? action.data_at_once : action.data;
        absl::Status status = transport_->Accept(action.offer, {data, action.bytes}, action.token);
        machine_.OnAccepted(action.token, at_once && status.ok());
        if (!status.ok()) failed_.push_back(Ended(TransportEventKind::kLanded, action.token, std::move(status)));
      },
      [this](const WorkerDeclineAction& action) { transport_->Decline(action.offer); },
      [this](const WorkerClosePeerAction& action) { transport_->Close(action.peer); },
  };
  while (!actions_.empty()) {
    std::swap(actions_, executing_);
    for (const WorkerAction& action : executing_) std::visit(execute, action);
    executing_.clear();
    for (const TransportEvent& event : failed_) machine_.OnTransportEvent(event, now, &actions_, outcomes);
    const bool had_failures = !failed_.empty();
    failed_.clear();
    if (had_failures) machine_.Tick(now, &actions_, outcomes);
  }
}

}  // namespace shoal
