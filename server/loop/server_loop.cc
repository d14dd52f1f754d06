#include "server/loop/server_loop.h"

#include <utility>
#include <variant>

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

ServerLoop::ServerLoop(const ServerMachineOptions& options, Transport* transport, Reducer* reducer,
                       std::span<std::byte> slot_memory)
    : machine_(options),
      transport_(transport),
      reducer_(reducer),
      slot_memory_(slot_memory),
      loans_(transport->lender()) {}

// What was borrowed goes back before the machine may use the slot for something else.
void ServerLoop::OnReduced(uint64_t token, Now now) {
  loans_.EndJob(token);
  machine_.OnReduced(token, now, &actions_);
}

bool ServerLoop::RunOnce(Now now) {
  const std::span<const TransportEvent> events = transport_->Poll();
  bool progress = !events.empty();
  for (const TransportEvent& event : events) machine_.OnTransportEvent(event, now, &actions_);
  for (uint64_t token : reducer_->Poll()) {
    progress = true;
    OnReduced(token, now);
  }
  if (now.monotonic_ns >= machine_.NextDeadlineNs()) machine_.Tick(now, &actions_);
  progress = progress || !actions_.empty();
  Execute(now);
  return progress;
}

ServerCounters ServerLoop::counters() const {
  ServerCounters counters = machine_.counters();
  TransportReport report = transport_->Report({});
  counters.transports = std::move(report.description);
  counters.corrupted_payloads = report.corrupted_payloads;
  counters.shared_memory_peers = static_cast<uint32_t>(report.shared_memory_peers);
  return counters;
}

void ServerLoop::Execute(Now now) {
  const auto execute = Overloaded{
      // A note or result to a peer that is already gone needs no answer: its kPeerDown follows. One that can't be sent
      // would leave its worker waiting: better that it sees the connection end.
      [this](const SendNoteAction& action) {
        const absl::Status status = transport_->SendNote(action.peer, action.note.view());
        if (absl::IsResourceExhausted(status)) transport_->Close(action.peer);
      },
      [this](const AcceptAction& action) {
        if (!action.into_slot && loans_.Take(action.offer, action.offset)) {
          ended_.push_back(Ended(TransportEventKind::kLanded, action.token, absl::OkStatus()));
          return;
        }
        absl::Status status =
            transport_->Accept(action.offer, slot_memory_.subspan(action.offset, action.bytes), action.token);
        if (!status.ok()) ended_.push_back(Ended(TransportEventKind::kLanded, action.token, std::move(status)));
      },
      [this](const DeclineAction& action) { transport_->Decline(action.offer); },
      [this](const SendPayloadAction& action) {
        absl::Status status = transport_->Send(action.peer, action.header,
                                               slot_memory_.subspan(action.offset, action.bytes), action.token);
        if (status.ok()) return;
        if (absl::IsResourceExhausted(status)) transport_->Close(action.peer);
        ended_.push_back(Ended(TransportEventKind::kSent, action.token, std::move(status)));
      },
      [this](const ReduceAction& action) {
        reducer_->Start({.spec = action.spec,
                         .inputs = loans_.StartJob(action, slot_memory_),
                         .output = slot_memory_.data() + action.offset,
                         .elements = action.elements,
                         .token = action.token});
      },
      [this](const ForgetInputsAction& action) { loans_.Forget(action.offset, action.bytes); },
      [this](const ClosePeerAction& action) { transport_->Close(action.peer); },
  };
  while (!actions_.empty()) {
    std::swap(actions_, executing_);
    for (const ServerAction& action : executing_) std::visit(execute, action);
    executing_.clear();
    for (uint64_t token : reducer_->Poll()) OnReduced(token, now);
    for (const TransportEvent& event : ended_) machine_.OnTransportEvent(event, now, &actions_);
    ended_.clear();
  }
}

}  // namespace shoal
