#include "worker/loop/worker_loop.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/overloaded.h"
#include "reduce/convert.h"

namespace shoal {

namespace {

WorkerMachineOptions With(WorkerMachineOptions options, const LocalReduce* local_reduce) {
  options.has_local_reduce = local_reduce != nullptr;
  return options;
}

}  // namespace

WorkerLoop::WorkerLoop(const WorkerMachineOptions& options, Transport* transport, LocalReduce* local_reduce,
                       Stager* stager)
    : machine_(With(options, local_reduce)), transport_(transport), local_reduce_(local_reduce), stager_(stager) {}

bool WorkerLoop::RunOnce(Now now, std::span<const WorkerCommand> commands, WorkerOutcomes* outcomes) {
  const std::span<const TransportEvent> events = transport_->Poll();
  const std::span<const LocalReduceEvent> local_events =
      local_reduce_ == nullptr ? std::span<const LocalReduceEvent>() : local_reduce_->Poll();
  const std::span<const DeviceCopyEnded> copies =
      stager_ == nullptr ? std::span<const DeviceCopyEnded>() : stager_->Poll();
  for (const WorkerCommand& command : commands) {
    std::visit([&](const auto& event) { machine_.OnEvent(event, now, &actions_); }, command);
  }
  for (const TransportEvent& event : events) machine_.OnEvent(event, now, &actions_);
  TakeIn(local_events, now);
  for (const DeviceCopyEnded& copy : copies) machine_.OnEvent(copy, now, &actions_);
  const bool happened = !commands.empty() || !events.empty() || !local_events.empty() || !copies.empty();
  if (!happened && now.monotonic_ns < NextDeadlineNs()) return false;
  deadline_ns_.reset();
  machine_.Tick(now, &actions_);
  // What is sent makes room, and brings nothing with it.
  const bool only_sent =
      commands.empty() && local_events.empty() && copies.empty() &&
      std::ranges::all_of(events, [](const TransportEvent& event) { return event.kind == TransportEventKind::kSent; });
  const bool progress = !only_sent || !actions_.empty();
  ExecuteAll(now, outcomes);
  if (std::exchange(local_op_started_, false)) {
    // The other ranks have this one's contribution before its thread gives its turn away, and the last one has the sum.
    TakeIn(local_reduce_->Poll(), now);
    machine_.Tick(now, &actions_);
    ExecuteAll(now, outcomes);
  }
  return progress;
}

void WorkerLoop::TakeIn(std::span<const LocalReduceEvent> local_events, Now now) {
  for (const LocalReduceEvent& local_event : local_events) {
    std::visit([&](const auto& event) { machine_.OnEvent(event, now, &actions_); }, local_event);
  }
}

void WorkerLoop::ExecuteAll(Now now, WorkerOutcomes* outcomes) {
  while (!actions_.empty()) {
    Execute(outcomes);
    HandIn(now);
  }
}

uint64_t WorkerLoop::NextDeadlineNs() {
  if (!deadline_ns_.has_value()) deadline_ns_ = machine_.NextDeadlineNs();
  return *deadline_ns_;
}

WorkerCounters WorkerLoop::counters() const {
  WorkerCounters counters = machine_.counters();
  std::vector<PeerId> peers;
  peers.reserve(counters.shards.size());
  for (const ShardTraffic& shard : counters.shards) peers.push_back(shard.peer);
  TransportReport report = transport_->Report(peers);
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] != PeerId()) counters.shards[i].transport = std::move(report.peer_transports[i]);
  }
  return counters;
}

void WorkerLoop::Execute(WorkerOutcomes* outcomes) {
  const auto execute = Overloaded{
      [this](WorkerConnectAction& action) {
        connects_started_.push_back({action.connection, transport_->Connect(action.address)});
      },
      // A note to a peer that is already gone needs no answer: its kPeerDown follows. A server that takes no notes
      // any more is as good as gone.
      [this](WorkerSendNoteAction& action) {
        const absl::Status status = transport_->SendNote(action.peer, action.note.view());
        if (absl::IsResourceExhausted(status)) transport_->Close(action.peer);
      },
      [](WorkerEncodeAction& action) { Encode(action.codec, action.tensor, action.place, action.elements); },
      [](WorkerDecodeAction& action) { Decode(action.codec, action.place, action.tensor, action.elements); },
      [this](WorkerSendAction& action) {
        absl::Status status = transport_->Send(action.peer, action.header, {action.data, action.bytes}, action.token);
        if (!status.ok())
          not_taken_.push_back(EndOfOperation(TransportEventKind::kSent, action.token, std::move(status)));
      },
      [this](WorkerAcceptAction& action) {
        const bool at_once = action.data_at_once != nullptr && transport_->AcceptsAtOnce(action.offer);
        std::byte* const data = at_once ? action.data_at_once : action.data;
        absl::Status status = transport_->Accept(action.offer, {data, action.bytes}, action.token);
        accepts_started_.push_back({action.token, at_once && status.ok()});
        if (!status.ok())
          not_taken_.push_back(EndOfOperation(TransportEventKind::kLanded, action.token, std::move(status)));
      },
      [this](DeviceCopyAction& action) { stager_->Start(std::move(action.copy)); },
      [this](DeviceCopiesOverAction& action) { stager_->EndCopies(action.ticket); },
      [this](DeviceAbandonAction& action) { stager_->Abandon(action.group); },
      [this](WorkerDeclineAction& action) { transport_->Decline(action.offer); },
      [this](WorkerClosePeerAction& action) { transport_->Close(action.peer); },
      [this](LocalOpenAction& action) { local_reduce_->Open(action.group); },
      [this](LocalStartAction& action) {
        local_reduce_->Start(action.op);
        local_op_started_ = true;
      },
      [this](LocalPublishAction& action) {
        local_reduce_->PublishPart(action.group, action.ticket, action.elements, action.contributors);
      },
      [this](LocalFailAction& action) { local_reduce_->Fail(action.group, action.why); },
      [this](LocalCloseAction& action) { local_reduce_->Close(action.group); },
      [this](LocalMissingAction& action) {
        missing_.push_back({action.group, local_reduce_->Missing(action.group)});
      },
      // What is left is for callers.
      [outcomes](auto& outcome) { outcomes->push_back(std::move(outcome)); },
  };
  std::swap(actions_, executing_);
  for (WorkerAction& action : executing_) std::visit(execute, action);
  executing_.clear();
}

void WorkerLoop::HandIn(Now now) {
  for (const ConnectStarted& started : connects_started_) machine_.OnEvent(started, now, &actions_);
  connects_started_.clear();
  for (const AcceptStarted& started : accepts_started_) machine_.OnEvent(started, now, &actions_);
  accepts_started_.clear();
  for (const LocalRanksMissing& missing : missing_) machine_.OnEvent(missing, now, &actions_);
  missing_.clear();
  if (not_taken_.empty()) return;
  for (const TransportEvent& event : not_taken_) machine_.OnEvent(event, now, &actions_);
  not_taken_.clear();
  machine_.Tick(now, &actions_);
}

}  // namespace shoal
