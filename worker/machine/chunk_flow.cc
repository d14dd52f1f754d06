#include "worker/machine/chunk_flow.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/group_description.h"
#include "worker/machine/group_words.h"

namespace shoal {
namespace {

constexpr uint32_t kMostCreditChunks = 1024;

bool ResultFits(const WorkerOp& op, const GroupInfo& group, const FrameHeader& header, uint64_t payload_bytes) {
  const OpLayout& layout = op.layout();
  return header.rank == group.rank && header.codec == layout.codec() && header.reduce_op == op.command().reduce_op &&
         header.bucket_elements == layout.element_count() && header.chunk.value() < layout.chunk_count() &&
         header.first_element == layout.plan().FirstElement(header.chunk) &&
         header.chunk_elements == layout.plan().ElementCount(header.chunk) &&
         (header.contributors == group.size() || (group.min_ranks > 0 && header.contributors < group.size())) &&
         header.contributors > 0 && payload_bytes == header.payload_bytes();
}

}  // namespace

ChunkFlow::ChunkFlow(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared)
    : handle_(command.group),
      info_(command.info),
      options_(*shared.options),
      connections_(*shared.connections),
      tally_(*shared.tally),
      staging_(info_, options_.staging_arena),
      ops_(info_->id),
      sealed_roster_(info_->sealed_roster),
      links_(handle_, generation, info_->map, ops_.first(), &connections_),
      server_waits_(shared.server_waits, info_->id, *info_->map),
      partial_ops_(shared.partial_ops, info_->id, info_->size()),
      results_(&staging_, info_->size()) {
  tally_.NoteEpoch(links_.epoch());
}

void ChunkFlow::Sign(FrameType type, FrameHeader* header) const {
  header->type = type;
  header->group = info_->id;
  header->epoch = links_.epoch();
  header->rank = info_->rank;
  header->landed_watermark = landed_watermark();
  header->commit_watermark = commit_watermark();
}

bool ChunkFlow::Scales(const FrameHeader& header) const {
  return info_->scales_sums && header.reduce_op == ReduceOp::kSum &&
         CanReduce(header.codec.tensor_type(), ReduceOp::kPremulSum);
}

FrameHeader ChunkFlow::Header(FrameType type) const {
  FrameHeader header;
  Sign(type, &header);
  return header;
}

// ---- links ----

void ChunkFlow::Greet(uint32_t shard, WorkerActions* actions) {
  ShardLink& link = links_[shard];
  if (link.greeted()) return;
  link.Greet(landed_watermark());
  FrameHeader header = Header(FrameType::kHello);
  header.op = newest_result();
  actions->push_back(WorkerSendNoteAction{link.peer(), MakeHello(header, info_->token, sealed_roster_)});
}

absl::Status ChunkFlow::Welcome(uint32_t shard, uint32_t credit_chunks) {
  const uint32_t credit = StagingMemory::Places(std::min(credit_chunks, kMostCreditChunks), info_->max_chunk_bytes);
  const bool for_device =
      std::any_of(ops_.begin(), ops_.end(), [](const WorkerOp& op) { return op.on_device() && !op.reported(); });
  absl::StatusOr<std::shared_ptr<StagingMemory>> staging = staging_.Allocate(credit, for_device);
  if (!staging.ok()) return staging.status();
  links_[shard].Welcome(credit, *std::move(staging));
  return absl::OkStatus();
}

void ChunkFlow::AskAboutCommit(WorkerActions* actions) {
  FrameHeader header = Header(FrameType::kCommit);
  header.op = newest_result();  // the others may never call an op without elements that came after it
  for (ShardLink& link : links_) {
    if (!link.TakeCommitQuestion(landed_watermark())) continue;
    actions->push_back(WorkerSendNoteAction{link.peer(), MakeNote(header)});
  }
}

void ChunkFlow::AskWhoHasGoneOn(WorkerActions* actions) const {
  const Note note = MakeNote(Header(FrameType::kCommit));
  for (const ShardLink& link : links_) {
    if (!link.welcomed() || !link.is_up()) continue;
    actions->push_back(WorkerSendNoteAction{link.peer(), note});
  }
}

ShardLink& ChunkFlow::FindLink(OperationToken token) {
  return IsRetired(token) ? retired_.Find(token.generation)[token.shard] : links_[token.shard];
}

// ---- ops and pushes ----

void ChunkFlow::Submit(const SubmitCommand& command, Now now, WorkerActions* actions) {
  WorkerOp& op = ops_.Add(command, links_.map());
  if (op.on_device()) op.SetReadyElements(0);
  if (op.chunk_count() > 0) return;
  ReportOp(&op, absl::OkStatus(), now, actions);
  AdvanceWatermark(now);
}

absl::Status ChunkFlow::MakeReachableByDevices() {
  for (ShardLink& link : links_) {
    if (link.staging() == nullptr || link.staging()->is_in_arena()) continue;
    // The arena was full when the link was welcomed.
    if (!link.MayChangeStaging()) return staging_.ArenaIsFull();
    absl::StatusOr<std::shared_ptr<StagingMemory>> memory = staging_.Allocate(link.credit(), /*for_device=*/true);
    if (!memory.ok()) return memory.status();
    link.ChangeStaging(*std::move(memory));
  }
  return absl::OkStatus();
}

void ChunkFlow::SetReadyElements(OpNumber number, uint64_t elements) {
  if (WorkerOp* const op = ops_.Find(number); op != nullptr) op->SetReadyElements(elements);
}

bool ChunkFlow::NoteTensorReady(uint64_t ticket) {
  WorkerOp* const op = ops_.FindOpen(ticket);
  if (op == nullptr) return false;
  op->SetReadyElements(op->layout().element_count());
  return true;
}

bool ChunkFlow::TakeWaitDueOfOldest(uint64_t now_ns) {
  WorkerOp* const oldest = ops_.OldestOpen();
  return oldest != nullptr && oldest->TakeWaitDue(now_ns);
}

void ChunkFlow::NoteMissingRanks(uint32_t shard, const FrameHeader& header, const Waiting& missing) {
  WorkerOp* const op = ops_.Find(header.op);
  if (op != nullptr) op->NoteMissingRanks(missing, shard, header.chunk);
}

void ChunkFlow::Push(Now now, WorkerActions* actions) {
  // The first op of which this call pushes the first chunk: nothing is waited for between that chunk and those after
  // it.
  std::optional<OpNumber> first_begun;
  while (const auto turn = links_.TakeTurn(ops_, commit_watermark(), info_->look_ahead_chunks)) {
    const ChunkPlace place = links_[turn->shard].chunk(turn->cell).place();
    results_.NotePushed(place);
    server_waits_.OnPushed(turn->shard, now);
    if (place.chunk == ChunkNumber(0) && !first_begun.has_value()) first_begun = place.op;
    const bool in_one_go = first_begun.has_value() && place.op >= *first_begun;
    PushChunk(turn->shard, turn->cell, {.in_one_go = in_one_go, .in_flight = turn->in_flight}, actions);
  }
  const bool due = commit_note_at_ns_ != kNoDeadline && now.monotonic_ns >= commit_note_at_ns_;
  if (due && landed_watermark() > OpNumber(0)) SendCommitNotes(actions);
}

void ChunkFlow::PushChunk(uint32_t shard, uint16_t cell, PushPace pace, WorkerActions* actions) {
  ShardLink& link = links_[shard];
  const ChunkNumber chunk = link.chunk(cell).place().chunk;
  WorkerOp& op = *ops_.Find(link.chunk(cell).place().op);
  link.chunk(cell).StartSend(/*from_tensor=*/!op.staged(), pace);
  op.StartOperation();
  if (!op.staged()) return SendChunk(shard, cell, op, op.Chunk(chunk), actions);
  const DeviceCopyToken token = links_.CopyOf(DeviceCopyKind::kContribution, shard, cell, op.number());
  if (GroupStaging::FromTensor(token, op, chunk, link.staging(), cell, actions)) {
    SendChunk(shard, cell, op, link.staging()->Place(cell), actions);
  } else {
    link.chunk(cell).StartCopy();
  }
}

void ChunkFlow::SendChunk(uint32_t shard, uint16_t cell, const WorkerOp& op, const std::byte* data,
                          WorkerActions* actions) {
  const ShardLink& link = links_[shard];
  const ChunkNumber chunk = link.chunk(cell).place().chunk;
  FrameHeader header = op.HeaderOf(chunk);
  Sign(FrameType::kPush, &header);
  header.scaled_to_all = Scales(header);
  header.in_one_go = link.chunk(cell).pace().in_one_go;
  header.in_flight = link.chunk(cell).pace().in_flight;
  const uint64_t bytes = op.layout().BytesOnWire(chunk);
  connections_.CountPushed(link.connection(), bytes);
  tally_.CountPush(bytes);
  actions->push_back(WorkerSendAction{.peer = link.peer(),
                                      .header = EncodeHeader(header),
                                      .data = data,
                                      .bytes = bytes,
                                      .token = links_.OperationOf(shard, cell)});
}

void ChunkFlow::SendCommitNotes(WorkerActions* actions) {
  commit_note_at_ns_ = kNoDeadline;
  for (ShardLink& link : links_) {
    if (!link.TakeWatermark(landed_watermark())) continue;
    actions->push_back(WorkerSendNoteAction{link.peer(), MakeNote(Header(FrameType::kCommit))});
  }
}

// ---- results ----

absl::Status ChunkFlow::OnOffered(uint32_t shard, const FrameHeader& header, const TransportEvent& event,
                                  WorkerActions* actions) {
  WorkerOp* op = header.epoch == links_.epoch() ? ops_.Find(header.op) : nullptr;
  if (op != nullptr) results_.Commit(header.commit_watermark);
  ShardLink& link = links_[shard];
  const std::optional<uint16_t> cell = op == nullptr ? std::nullopt : link.FindCell({header.op, header.chunk});
  if (!cell.has_value() || link.chunk(*cell).HasResult()) {
    // Late for what ended, or a second time: dropped, and counted.
    tally_.CountRefusal();
    actions->push_back(WorkerDeclineAction{event.offer});
    return absl::OkStatus();
  }
  if (!ResultFits(*op, *info_, header, event.payload_bytes)) {
    actions->push_back(WorkerDeclineAction{event.offer});
    return absl::InternalError(absl::StrCat(connections_.Describe(link.connection()), " sent a result for op ",
                                            header.op.value(), " that does not fit what was pushed"));
  }
  op->NoteContributors(header.chunk, header.contributors, info_->size());
  link.chunk(*cell).Hold(event.offer);
  TakeHeldResult(shard, *cell, actions);
  return absl::OkStatus();
}

void ChunkFlow::TakeHeldResult(uint32_t shard, uint16_t cell, WorkerActions* actions) {
  ShardLink& link = links_[shard];
  const ChunkPlace place = link.chunk(cell).place();
  if (!link.chunk(cell).MayTakeResult()) return;
  WorkerOp& op = *ops_.Find(place.op);
  // What is staged is sent from memory of its own.
  if (retired_.ReadsTensor(place)) return;
  op.StartOperation();
  const OfferId offer = link.chunk(cell).StartLanding();
  std::byte* const tensor = op.Chunk(place.chunk);
  actions->push_back(WorkerAcceptAction{.offer = offer,
                                        .data = link.staging()->Place(cell),
                                        .data_at_once = op.staged() ? nullptr : tensor,
                                        .bytes = op.layout().BytesOnWire(place.chunk),
                                        .token = links_.OperationOf(shard, cell)});
}

absl::Status ChunkFlow::OnSent(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions) {
  if (token.shard == OperationToken::kHandOver) {
    results_.EndHandOver(token.cell);
    return absl::OkStatus();
  }
  ShardLink& link = FindLink(token);
  WorkerOp* const op = ops_.Find(link.chunk(token.cell).place().op);
  const bool again = link.chunk(token.cell).EndSend();
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (IsRetired(token)) return EndRetired(op, now, actions);
  if (!status.ok()) {
    return OperationFailed(
        &link, absl::StrCat("a push to ", connections_.Describe(link.connection()), " failed: ", status.message()),
        actions);
  }
  if (again) {
    PushChunk(token.shard, token.cell, PushPace(), actions);
  } else {
    TakeHeldResult(token.shard, token.cell, actions);
  }
  return absl::OkStatus();
}

absl::Status ChunkFlow::OnLanded(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions) {
  ShardLink& link = FindLink(token);
  ChunkInFlight& chunk = link.chunk(token.cell);
  WorkerOp* const op = ops_.Find(chunk.place().op);
  chunk.EndLanding(status.ok());
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (IsRetired(token)) return EndRetired(op, now, actions);
  if (!status.ok()) {
    const std::string what =
        absl::StrCat("a result from ", connections_.Describe(link.connection()), " did not arrive: ", status.message());
    // The tensor may hold neither the contribution nor the result now.
    if (chunk.WasTakenAtOnce()) return absl::UnavailableError(what);
    return OperationFailed(&link, what, actions);
  }
  const ChunkNumber number = chunk.place().chunk;
  const bool is_beside = op->staged() || chunk.WasTakenBeside();
  const DeviceCopyToken copy = links_.CopyOf(DeviceCopyKind::kResult, token.shard, token.cell, op->number());
  if (is_beside && !GroupStaging::ToTensor(copy, *op, number, link.staging(), token.cell, actions)) {
    chunk.StartCopy();
    op->StartOperation();
    return absl::OkStatus();
  }
  FinishChunk(token.shard, token.cell, op, now);
  return EndOpIfDone(op, now, actions);
}

absl::Status ChunkFlow::OnDeviceCopyEnded(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  const OperationToken token = TokenOf(ended.token);
  WorkerOp* const op = ops_.Find(ended.token.op);
  const bool goes_on = !failed() && ended.status.ok();
  bool was_retired = false;
  switch (ended.token.kind) {
    case DeviceCopyKind::kContribution: {
      ShardLink& link = FindLink(token);
      ChunkInFlight& chunk = link.chunk(token.cell);
      chunk.EndCopy();
      was_retired = IsRetired(token);
      if (goes_on && !was_retired && link.welcomed()) {
        SendChunk(token.shard, token.cell, *op, link.staging()->Place(token.cell), actions);
        return absl::OkStatus();
      }
      chunk.EndSend();  // it is pushed to the chunk's next owner, if at all
      break;
    }
    case DeviceCopyKind::kResult:
      // The group does not move before this copy has ended.
      links_[token.shard].chunk(token.cell).EndCopy();
      if (goes_on) FinishChunk(token.shard, token.cell, op, now);
      break;
    case DeviceCopyKind::kHandOver:
      if (goes_on && !IsRetired(token) && links_[token.shard].in_use()) {
        SendHandOver(token.cell, actions);
      } else {
        results_.EndHandOver(token.cell);
      }
      break;
    case DeviceCopyKind::kKept:
      break;
  }
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (!ended.status.ok()) return ended.status;
  return was_retired ? EndRetired(op, now, actions) : EndOpIfDone(op, now, actions);
}

void ChunkFlow::FinishChunk(uint32_t shard, uint16_t cell, WorkerOp* op, Now now) {
  ShardLink& link = links_[shard];
  const ChunkPlace place = link.chunk(cell).place();
  const uint64_t bytes = op->layout().BytesOnWire(place.chunk);
  op->ForgetMissingRanks(shard, place.chunk);
  connections_.CountPulled(link.connection(), bytes);
  tally_.CountPull(bytes);
  op->Land(place.chunk, now.monotonic_ns);
  server_waits_.OnLanded(shard, now);
  if (results_.NoteLanded(place)) link.KeepAsNewest(cell);
  link.Finish(cell);
}

absl::Status ChunkFlow::EndRetired(WorkerOp* op, Now now, WorkerActions* actions) {
  retired_.DropIdle();
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].lost()) continue;  // what it offered went with its connection
    for (size_t cell = 0; cell < links_[shard].cell_count(); ++cell) {
      TakeHeldResult(shard, static_cast<uint16_t>(cell), actions);
    }
  }
  return EndOpIfDone(op, now, actions);
}

absl::Status ChunkFlow::OperationFailed(ShardLink* link, const std::string& what, WorkerActions* actions) {
  connections_.NoteError(link->connection(), what);
  Cut(link, actions);
  return absl::OkStatus();
}

void ChunkFlow::Cut(ShardLink* link, WorkerActions* actions) {
  if (link->TakeCut()) actions->push_back(WorkerClosePeerAction{link->peer()});
}

// ---- the ends of ops ----

absl::Status ChunkFlow::EndOpIfDone(WorkerOp* op, Now now, WorkerActions* actions) {
  if (op->reported() || !op->AllLanded() || op->busy()) return absl::OkStatus();
  if (!op->results_kept()) {
    op->NoteResultsKept();
    if (info_->size() > 1) {
      if (absl::Status kept = results_.Keep(op, links_, actions); !kept.ok()) return kept;
    }
    if (op->busy()) return absl::OkStatus();  // results are copied from a device
  }
  server_waits_.OnOpDone(op->chunk_count(), now);
  ReportOp(op, absl::OkStatus(), now, actions);
  AdvanceWatermark(now);
  return absl::OkStatus();
}

void ChunkFlow::ReportOp(WorkerOp* op, const absl::Status& status, Now now, WorkerActions* actions) {
  if (op->reported()) return;
  op->Report();
  if (info_->is_rail()) return;
  OpDone done = tally_.CountOp(op->command(), status, now);
  done.contributors = op->ContributorsOf(info_->size());
  actions->push_back(std::move(done));
}

void ChunkFlow::NotePartialOp(const WorkerOp& op) {
  if (failed() || op.chunk_count() == 0) return;
  const ElementRange all = {.first = 0, .count = op.layout().element_count()};
  if (info_->is_rail()) {
    if (info_->min_ranks > 0) contributed_[op.number()] = op.ContributedRanges(all, info_->size());
    return;
  }
  const Contributors contributors = op.ContributorsOf(info_->size());
  if (!partial_ops_.Differs(contributors.least, contributors.most)) return;
  partial_ops_.Tell(links_.epoch(), op.number(), op.ContributedRanges(all, info_->size()));
}

std::vector<ContributedRange> ChunkFlow::ContributedRanges(OpNumber number, ElementRange elements) const {
  if (const WorkerOp* const op = ops_.Find(number); op != nullptr) {
    return op->ContributedRanges(elements, info_->size());
  }
  std::vector<ContributedRange> ranges;
  const auto ended = contributed_.find(number);
  if (ended == contributed_.end()) return ranges;
  const uint64_t end = elements.first + elements.count;
  for (const ContributedRange& each : ended->second) {
    const uint64_t first = std::max(each.first, elements.first);
    const uint64_t last = std::min(each.first + each.count, end);
    if (first >= last) continue;
    AddContributed({.first = first, .count = last - first, .contributors = each.contributors}, &ranges);
  }
  return ranges;
}

void ChunkFlow::AdvanceWatermark(Now now) {
  if (!ops_.DropReported([this](const WorkerOp& op) { NotePartialOp(op); })) return;
  commit_note_at_ns_ = std::min(commit_note_at_ns_, now.monotonic_ns + options_.commit_note_delay_ns);
}

void ChunkFlow::EndOperation(WorkerOp* op, Now now, WorkerActions* actions) {
  op->EndOperation();
  if (!op->busy() && failed()) ReportOp(op, FailureOf(*op), now, actions);
}

absl::Status ChunkFlow::FailureOf(const WorkerOp& op) const {
  return FailureOfOp(failure_, absl::StrCat(OpOfGroup(*info_, op), ": ", GroupDescription::Progress(op)));
}

void ChunkFlow::TellFailure(const absl::Status& why, WorkerActions* actions) const {
  const absl::string_view text = why.message();
  FrameHeader header = Header(FrameType::kGroupFailed);
  if (LacksMemory(why)) header.refusal = Refusal::kGroupLackedMemory;
  const Note note = MakeTextNote(header, std::string_view(text.data(), text.size()));
  for (const ShardLink& link : links_) {
    if (link.in_use() && link.is_up()) actions->push_back(WorkerSendNoteAction{link.peer(), note});
  }
}

void ChunkFlow::Fail(absl::Status why, Now now, WorkerActions* actions) {
  failure_ = std::move(why);
  links_.StopWanting();
  server_waits_.End();
  for (ShardLink& link : links_) {
    for (const OfferId offer : link.DropHeld()) actions->push_back(WorkerDeclineAction{offer});
  }
  for (WorkerOp& op : ops_) {
    if (!op.busy()) ReportOp(&op, FailureOf(op), now, actions);
  }
}

// ---- from epoch to epoch ----

void ChunkFlow::MoveTo(MoveGroupCommand next, uint16_t generation, Now now, WorkerActions* actions) {
  const std::shared_ptr<const ShardMap>& map = next.map;
  for (ShardLink& link : links_) {
    const bool stays = std::any_of(map->shards().begin(), map->shards().end(), [&](const Shard& shard) {
      return shard.address == connections_.address(link.connection());
    });
    if (!stays) TellLeaving(link, OpNumber(0), actions);
    for (const OfferId offer : link.DropHeld()) actions->push_back(WorkerDeclineAction{offer});
  }
  results_.LeaveEpoch(links_, ops_);
  sealed_roster_ = std::move(next.sealed_roster);
  EpochLinks fresh(handle_, generation, map, ops_.first(), &connections_);
  retired_.Add(std::exchange(links_, std::move(fresh)), now.monotonic_ns + options_.force_after_ns);
  ops_.Deal(links_.map());
  server_waits_.MoveTo(links_.map());
  tally_.NoteEpoch(links_.epoch());
}

void ChunkFlow::TellLeaving(const ShardLink& link, OpNumber calls_none_from, WorkerActions* actions) const {
  if (!link.in_use() || !link.is_up()) return;
  FrameHeader header = Header(FrameType::kLeaveGroup);
  header.op = calls_none_from;
  actions->push_back(WorkerSendNoteAction{link.peer(), MakeNote(header)});
}

void ChunkFlow::TickRetired(Now now, WorkerActions* actions) {
  const auto is_spared = [this](uint32_t connection) { return !failed() && links_.FindShard(connection).has_value(); };
  const auto cut = [&](ShardLink* link) { Cut(link, actions); };
  retired_.Tick(now.monotonic_ns, options_.force_after_ns, is_spared, cut);
}

void ChunkFlow::CutWhatHoldsMemory(WorkerActions* actions) {
  if (std::any_of(ops_.begin(), ops_.end(), [](const WorkerOp& op) { return op.on_device() && op.busy(); })) {
    actions->push_back(DeviceAbandonAction{handle_});
  }
  for (ShardLink& link : links_) {
    if (link.IsInTransport()) Cut(&link, actions);
  }
  results_.ForEachHandOver([&](PeerId peer) { actions->push_back(WorkerClosePeerAction{peer}); });
}

// ---- for other ranks ----

absl::Status ChunkFlow::OnAsk(uint32_t shard, const FrameHeader& header, WorkerActions* actions) {
  const absl::StatusOr<std::optional<uint16_t>> index =
      results_.OnAsk(ops_.Find(header.op), {header.op, header.chunk}, shard, links_, actions);
  if (!index.ok()) return index.status();
  if (index->has_value()) SendHandOver(**index, actions);
  return absl::OkStatus();
}

void ChunkFlow::SendHandOver(uint16_t index, WorkerActions* actions) {
  const ResultKeeper::HandOver& hand_over = results_.FindHandOver(index);
  FrameHeader header = hand_over.header;
  Sign(FrameType::kPush, &header);
  header.scaled_to_all = Scales(header);
  tally_.CountHandOver();
  results_.NoteSent(index);
  actions->push_back(WorkerSendAction{.peer = hand_over.connection.peer(),
                                      .header = EncodeHeader(header),
                                      .data = hand_over.memory->Place(0),
                                      .bytes = header.payload_bytes(),
                                      .token = links_.OperationOf(OperationToken::kHandOver, index)});
}

absl::Status ChunkFlow::OnPreempted(uint32_t shard, const FrameHeader& header, WorkerActions* actions) {
  ShardLink& link = links_[shard];
  const std::optional<uint16_t> cell = link.FindCell({header.op, header.chunk});
  if (!cell.has_value()) return OnAsk(shard, header, actions);
  if (link.chunk(*cell).Preempt()) PushChunk(shard, *cell, PushPace(), actions);
  return absl::OkStatus();
}

}  // namespace shoal
