#include "server/loop/server_loop.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/overloaded.h"
#include "core/rank_text.h"

namespace shoal {

ServerLoop::ServerLoop(const ServerMachineOptions& options, Transport* transport, Reducer* reducer,
                       std::span<std::byte> slot_memory, EventSink log)
    : machine_(options),
      transport_(transport),
      reducer_(reducer),
      slot_memory_(slot_memory),
      loans_(transport->lender()),
      log_(std::move(log)) {}

bool ServerLoop::RunOnce(Now now) {
  TakeInOrders(now);
  bool progress = TakeInTransportEvents(now);
  progress = TakeInResults(now) || progress;
  if (now.monotonic_ns >= machine_.NextDeadlineNs()) machine_.Tick(now, &actions_);
  // With one group nobody else's message waits, and whole chunks are summed fastest.
  uint64_t reduce_budget_bytes = machine_.open_group_count() > 1 ? kReduceBytesPerRound : UINT64_MAX;
  do {
    // All that is at hand is handed to the reducer before it works, so that it can choose what comes first.
    while (!actions_.empty()) {
      progress = true;
      Execute();
      TakeInResults(now);
    }
    reducer_->Work(&reduce_budget_bytes);
    TakeInResults(now);
  } while (!actions_.empty());
  return progress || reducer_->HasWork();
}

void ServerLoop::TakeInOrders(Now now) {
  if (const auto key = std::exchange(new_token_key_, std::nullopt)) {
    machine_.OnEvent(TokenKeyChanged{*key}, now, &actions_);
  }
  if (const auto heard = std::exchange(scheduler_heard_, std::nullopt)) machine_.OnEvent(*heard, now, &actions_);
  if (const auto drain = std::exchange(drain_requested_, std::nullopt)) machine_.OnEvent(*drain, now, &actions_);
}

bool ServerLoop::TakeInTransportEvents(Now now) {
  const std::span<const TransportEvent> events = transport_->Poll();
  for (const TransportEvent& event : events) machine_.OnEvent(event, now, &actions_);
  took_something_ = !events.empty();
  // What is sent makes room, and brings nothing with it.
  return std::ranges::any_of(events,
                             [](const TransportEvent& event) { return event.kind != TransportEventKind::kSent; });
}

bool ServerLoop::TakeInResults(Now now) {
  const std::span<const uint64_t> reduced = reducer_->Poll();
  const bool any = !reduced.empty() || !ended_.empty();
  for (const uint64_t token : reduced) {
    // What was borrowed goes back before the machine may use the slot for something else.
    loans_.EndJob(token);
    machine_.OnEvent(ReduceDone{token}, now, &actions_);
  }
  for (const TransportEvent& event : ended_) machine_.OnEvent(event, now, &actions_);
  ended_.clear();
  return any;
}

ServerCounters ServerLoop::counters() const {
  ServerCounters counters = machine_.counters();
  TransportReport report = transport_->Report({});
  counters.transports = std::move(report.description);
  counters.corrupted_payloads = report.corrupted_payloads;
  counters.strangers = report.strangers;
  counters.last_stranger = std::move(report.last_stranger);
  counters.shared_memory_peers = static_cast<uint32_t>(report.shared_memory_peers);
  return counters;
}

void ServerLoop::Execute() {
  const auto execute = Overloaded{
      // A note or result to a peer that is already gone needs no answer: its kPeerDown follows. If the transport has no
      // room for it, the worker would wait for ever, so the connection is closed.
      [this](const SendNoteAction& action) {
        const absl::Status status = transport_->SendNote(action.peer, action.note.view());
        if (absl::IsResourceExhausted(status) && !action.may_be_missed) transport_->Close(action.peer);
      },
      [this](const AcceptAction& action) {
        if (!action.into_slot && loans_.Take(action.offer, action.offset)) {
          ended_.push_back(EndOfOperation(TransportEventKind::kLanded, action.token, absl::OkStatus()));
          return;
        }
        absl::Status status =
            transport_->Accept(action.offer, slot_memory_.subspan(action.offset, action.bytes), action.token);
        if (!status.ok())
          ended_.push_back(EndOfOperation(TransportEventKind::kLanded, action.token, std::move(status)));
      },
      [this](const DeclineAction& action) { transport_->Decline(action.offer); },
      [this](const SendPayloadAction& action) {
        absl::Status status = transport_->Send(action.peer, action.header,
                                               slot_memory_.subspan(action.offset, action.bytes), action.token);
        if (status.ok()) return;
        if (absl::IsResourceExhausted(status)) transport_->Close(action.peer);
        ended_.push_back(EndOfOperation(TransportEventKind::kSent, action.token, std::move(status)));
      },
      [this](const ReduceAction& action) {
        reducer_->Start({.spec = action.spec,
                         .inputs = loans_.StartJob(action, slot_memory_),
                         .output = slot_memory_.data() + action.offset,
                         .elements = action.elements,
                         .group = action.group_index,
                         .token = action.token});
      },
      [this](const ForgetInputsAction& action) { loans_.Forget(action.offset, action.bytes); },
      [this](const ClosePeerAction& action) { transport_->Close(action.peer); },
      [this](const LogAction& action) {
        if (!log_) return;
        log_({.kind = action.kind, .text = WithoutMarks({action.text.data(), action.text_bytes}), .ids = action.ids});
      },
  };
  for (const ServerAction& action : actions_) std::visit(execute, action);
  actions_.clear();
}

}  // namespace shoal
