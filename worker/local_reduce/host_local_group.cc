#include "worker/local_reduce/host_local_group.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/dtype.h"
#include "core/wire_codec.h"
#include "net/payload_copy.h"
#include "process/clock.h"
#include "reduce/convert.h"

namespace shoal {
namespace {

// Of one group in one Poll, so that it keeps nothing else waiting: about 0.1 ms.
constexpr uint64_t kMaxBytesPerAdvance = uint64_t{1} << 20;
// What a round costs beside its bytes, in bytes.
constexpr uint64_t kRoundCostBytes = 4096;

std::string Describe(const OpRecord& record) {
  const std::optional<DataType> dtype = DataTypeFromWire(record.dtype);
  const std::optional<ReduceOp> reduce_op = ReduceOpFromWire(record.reduce_op);
  const std::optional<WireFormat> wire = WireFormatFromNumber(record.wire);
  if (!dtype.has_value() || !reduce_op.has_value() || !wire.has_value()) return "an invalid op";
  std::string text = absl::StrCat("call ", record.call, ": ", std::string(ReduceOpName(*reduce_op)), " of ",
                                  record.element_count, " elements of ", std::string(DataTypeName(*dtype)));
  if (reduce_op == ReduceOp::kPremulSum) {
    absl::StrAppend(&text, " with factor ", std::bit_cast<double>(record.premul_factor_bits), " (bits ",
                    absl::Hex(record.premul_factor_bits), ")");
  }
  if (wire != WireFormat::kAsIs) absl::StrAppend(&text, " sent as ", std::string(WireFormatName(*wire)));
  return absl::StrCat(text, record.other_nodes != 0 ? " with other nodes" : " on this node alone");
}

}  // namespace

HostLocalGroup::HostLocalGroup(const LocalGroup& group, int epoll, uint64_t first_key, FlightRecorder* recorder)
    : peers_(group, epoll, first_key),
      recorder_(recorder),
      places_(group.size),
      seen_(group.size),
      inputs_(group.size) {}

void HostLocalGroup::Open(Events* events) {
  peers_.Begin();
  EndIfFailed(events);
  if (failure_.has_value() || !peers_.met()) return;
  has_met_ = true;
  events->push_back(Met());
}

void HostLocalGroup::Start(const LocalOp& op, Events* events) {
  if (failure_.has_value()) {
    events->push_back(LocalOpEnded{op.group, op.ticket, failure_->status});
    return;
  }
  Op& added = ops_.emplace_back();
  added.op = op;
  added.rounds = OpRounds::Of(op.element_count, op.codec, op.other_nodes, size());
  added.spec = {.codec = op.codec, .op = op.reduce_op, .premul_factor = op.premul_factor};
  // The divisor is the whole group's.
  if (op.other_nodes && op.reduce_op == ReduceOp::kAvg) added.spec.op = ReduceOp::kSum;
  added.number = next_op_++;
  added.first_round = next_round_;
  next_round_ = added.end_round();
  if (CountsNodes(added)) added.contributed.resize(size());
  if (recorder_ != nullptr) added.begun_ns = MonotonicNs();
}

void HostLocalGroup::PublishPart(uint64_t ticket, ElementRange elements, uint32_t contributors) {
  if (failure_.has_value()) return;
  for (Op& op : ops_) {
    if (op.op.ticket != ticket) continue;
    op.published_end = elements.first + elements.count;
    if (!CountsNodes(op)) continue;
    AddContributed({.first = elements.first, .count = elements.count, .contributors = contributors}, &op.published);
  }
}

void HostLocalGroup::Fail(const absl::Status& why, Events* events) {
  if (!failure_.has_value()) End({.status = why, .culprit = peers_.group().rank}, events);
}

void HostLocalGroup::Close() {
  if (!failure_.has_value()) peers_.Leave();
}

std::vector<LocalRank> HostLocalGroup::Missing() const {
  std::vector<LocalRank> missing;
  const auto add_behind = [&](NodeCounter counter, uint64_t round) {
    for (uint32_t rank = 0; rank < size(); ++rank) {
      if (rank == self() || peers_.header(rank).counters[counter].rounds.load(std::memory_order_relaxed) > round) {
        continue;
      }
      missing.push_back(LocalRank(rank));
    }
  };
  if (failure_.has_value()) return missing;
  if (!peers_.met()) {
    for (uint32_t rank = 0; rank < size(); ++rank) {
      if (!peers_.HasMet(rank)) missing.push_back(LocalRank(rank));
    }
    return missing;
  }
  if (ops_.empty()) return missing;
  if (reduce_.op == ops_.front().number) add_behind(kContributed, reduce_.round);
  // A result that is late because a contribution is late is not its rank's fault.
  if (missing.empty()) add_behind(kPublished, collect_.round);
  return missing;
}

LocalGroupMet HostLocalGroup::Met() const {
  const std::optional<DeviceMeeting> devices = peers_.Devices();
  return {
      .group = peers_.group().group, .devices = devices, .failures = devices.has_value() ? peers_.Failures() : nullptr};
}

void HostLocalGroup::OnReadable(uint64_t key, Events* events) {
  if (failure_.has_value()) return;
  peers_.OnReadable(key);
  EndIfFailed(events);
  if (failure_.has_value() || has_met_ || !peers_.met()) return;
  has_met_ = true;
  events->push_back(Met());
}

void HostLocalGroup::Advance(Events* events) {
  if (peers_.AnyHasLeft()) FailIfNeededRankHasLeft(events);
  uint64_t moved = 0;
  while (has_met_ && !failure_.has_value() && !ops_.empty() && moved < kMaxBytesPerAdvance) {
    const uint64_t before = moved;
    const auto count = [&](uint64_t bytes) {
      moved += kRoundCostBytes + bytes;
      time_is_old_ = time_is_old_ || bytes > kBytesOfSomeTime;
    };
    time_is_old_ = true;
    if (CanContribute()) count(Contribute());
    if (CanReduce()) count(Reduce(events));
    if (failure_.has_value()) return;
    if (CanPublish()) count(Publish());
    if (CanCollect()) count(Collect(events));
    if (moved == before) return;
    peers_.WakeSleepers();
  }
}

bool HostLocalGroup::CanAdvance() {
  return has_met_ && !ops_.empty() && (CanContribute() || CanReduce() || CanPublish() || CanCollect());
}

void HostLocalGroup::FallAsleep() {
  if (has_met_ && !failure_.has_value() && !ops_.empty()) peers_.FallAsleep();
}

void HostLocalGroup::WakeUp() {
  if (has_met_) peers_.WakeUp();
}

HostLocalGroup::Op* HostLocalGroup::OpOf(const Stage& stage) {
  if (ops_.empty()) return nullptr;
  const uint64_t index = stage.op - ops_.front().number;
  return index < ops_.size() ? &ops_[index] : nullptr;
}

void HostLocalGroup::Finish(Stage* stage, Op* op, NodeCounter counter) {
  peers_.own_header().counters[counter].rounds.store(++stage->round, std::memory_order_release);
  if (stage->round != op->end_round()) return;
  ++stage->op;
  if (recorder_ != nullptr) op->ended_ns[counter] = TimeNs();
}

uint64_t HostLocalGroup::TimeNs() {
  if (time_is_old_) time_ns_ = MonotonicNs();
  time_is_old_ = false;
  return time_ns_;
}

void HostLocalGroup::Record(const Op& op, uint64_t ended_ns, bool failed) {
  recorder_->AddNodeOp({.group = peers_.group().id.value(),
                        .op = op.op.number.value(),
                        .begun_ns = op.begun_ns,
                        .contributed_ns = op.ended_ns[kContributed],
                        .reduced_ns = op.ended_ns[kReduced],
                        .published_ns = op.ended_ns[kPublished],
                        .ended_ns = ended_ns},
                       op.op.codec.TensorBytes(op.op.element_count), failed);
}

bool HostLocalGroup::HaveReached(NodeCounter counter, uint64_t rounds) {
  for (uint32_t rank = 0; rank < size(); ++rank) {
    uint64_t& seen = seen_[rank][counter];
    if (rank == self() || seen >= rounds) continue;
    seen = peers_.header(rank).counters[counter].rounds.load(std::memory_order_acquire);
    if (seen < rounds) return false;
  }
  return true;
}

bool HostLocalGroup::IsSlotFree(NodeCounter reader, uint64_t round) {
  return round < kSlots || HaveReached(reader, round + 1 - kSlots);
}

bool HostLocalGroup::CanContribute() {
  const Op* const op = OpOf(contribute_);
  return op != nullptr && op->number < ops_.front().number + kMaxOpsUnderWay &&
         contribute_.round < reduce_.round + kSlots && IsSlotFree(kReduced, contribute_.round);
}

uint64_t HostLocalGroup::Contribute() {
  Op& op = *OpOf(contribute_);
  const uint64_t round = contribute_.round;
  if (round == op.first_round) peers_.own_header().records[op.number % kMaxOpsUnderWay].op = RecordOf(op);
  uint64_t elements = 0;
  const auto contribute_to = [&](uint32_t rank) {
    const ElementRange piece = op.rounds.Piece(rank, round - op.first_round);
    if (piece.count > 0) CopyIn(op, piece, peers_.own_memory() + places_.ContributionOffset(round, rank));
    elements += piece.count;
  };
  if (op.rounds.whole) {
    if (size() > 1 || !op.op.codec.is_identity()) contribute_to(0);
  } else {
    // Not all to the same rank first. The own contribution is read where it is, unless it has to be encoded.
    for (uint32_t i = 1; i < size(); ++i) contribute_to((self() + i) % size());
    if (!op.op.codec.is_identity()) contribute_to(self());
  }
  Finish(&contribute_, &op, kContributed);
  return op.op.codec.TensorBytes(elements);
}

bool HostLocalGroup::CanReduce() {
  const Op* const op = OpOf(reduce_);
  if (op == nullptr || reduce_.round >= contribute_.round) return false;
  if (!op->op.other_nodes && publish_.round != reduce_.round) return false;
  return HaveReached(kContributed, reduce_.round + 1) &&
         (op->op.other_nodes || op->rounds.whole || IsSlotFree(kCollected, reduce_.round));
}

uint64_t HostLocalGroup::Reduce(Events* events) {
  Op& op = *OpOf(reduce_);
  const uint64_t round = reduce_.round;
  if (round == op.first_round) {
    if (absl::Status status = CompareRecords(op); !status.ok()) {
      End({.status = std::move(status)}, events);
      return 0;
    }
  }
  const ElementRange piece = op.rounds.Piece(self(), round - op.first_round);
  const bool publishes = !op.op.other_nodes && !op.rounds.whole;
  ReduceElements(op, round, piece, publishes ? peers_.own_memory() + places_.ResultOffset(round) : nullptr);
  if (op.op.other_nodes && piece.count > 0) {
    auto* const last = events->empty() ? nullptr : std::get_if<LocalPartReduced>(&events->back());
    if (last != nullptr && last->group == op.op.group && last->ticket == op.op.ticket) {
      last->element_count += piece.count;
    } else {
      events->push_back(LocalPartReduced{op.op.group, op.op.ticket, piece.first, piece.count});
    }
  }
  Finish(&reduce_, &op, kReduced);
  if (!op.op.other_nodes) Finish(&publish_, &op, kPublished);
  return op.op.codec.TensorBytes(piece.count) * size();
}

bool HostLocalGroup::CanPublish() {
  const Op* const op = OpOf(publish_);
  if (op == nullptr || publish_.round >= reduce_.round || !op->op.other_nodes) return false;
  const ElementRange piece = op->rounds.Piece(self(), publish_.round - op->first_round);
  const bool is_there = piece.count == 0 || piece.first + piece.count <= op->published_end;
  return is_there && IsSlotFree(kCollected, publish_.round);
}

uint64_t HostLocalGroup::Publish() {
  Op& op = *OpOf(publish_);
  const ElementRange piece = op.rounds.Piece(self(), publish_.round - op.first_round);
  if (piece.count > 0) CopyIn(op, piece, peers_.own_memory() + places_.ResultOffset(publish_.round));
  if (CountsNodes(op)) PublishRuns(op, publish_.round, piece);
  Finish(&publish_, &op, kPublished);
  return op.op.codec.TensorBytes(piece.count);
}

void HostLocalGroup::PublishRuns(const Op& op, uint64_t round, ElementRange piece) {
  NodeMemoryHeader::Runs& runs = peers_.own_header().runs[round % kSlots];
  runs.count = 0;
  const uint64_t end = piece.first + piece.count;
  for (const ContributedRange& range : op.published) {
    const uint64_t first = std::max(range.first, piece.first);
    const uint64_t last = std::min(range.first + range.count, end);
    if (range.first >= end) break;
    if (first >= last) continue;
    const auto elements = static_cast<uint32_t>(last - first);
    if (runs.count < NodeMemoryHeader::kMostRuns) {
      runs.runs[runs.count++] = {.elements = elements, .nodes = range.contributors};
      continue;
    }
    NodeMemoryHeader::Run& rest = runs.runs.back();
    rest = {.elements = rest.elements + elements, .nodes = std::min(rest.nodes, range.contributors)};
  }
}

// What stands there may be anything: the piece's elements are told once, whatever it says.
void HostLocalGroup::CollectRuns(uint32_t rank, uint64_t round, ElementRange piece, Op* op) {
  NodeMemoryHeader::Runs runs;
  std::memcpy(&runs, &peers_.header(rank).runs[round % kSlots], sizeof(runs));
  std::vector<ContributedRange>& contributed = op->contributed[rank];
  uint64_t done = 0;
  for (uint32_t i = 0; i < std::min(runs.count, NodeMemoryHeader::kMostRuns) && done < piece.count; ++i) {
    const uint64_t count = std::min<uint64_t>(runs.runs[i].elements, piece.count - done);
    AddContributed({.first = piece.first + done, .count = count, .contributors = runs.runs[i].nodes}, &contributed);
    done += count;
  }
  AddContributed({.first = piece.first + done, .count = piece.count - done, .contributors = 0}, &contributed);
}

bool HostLocalGroup::CanCollect() {
  const Op* const op = OpOf(collect_);
  return op != nullptr && collect_.round < publish_.round &&
         (op->rounds.whole || HaveReached(kPublished, collect_.round + 1));
}

uint64_t HostLocalGroup::Collect(Events* events) {
  Op& op = *OpOf(collect_);
  const uint64_t round = collect_.round;
  uint64_t elements = 0;
  for (uint32_t i = 1; i < size() && !op.rounds.whole; ++i) {
    const uint32_t rank = (self() + i) % size();
    const ElementRange piece = op.rounds.Piece(rank, round - op.first_round);
    if (piece.count > 0) CopyOut(op, piece, peers_.memory(rank) + places_.ResultOffset(round));
    if (piece.count > 0 && CountsNodes(op)) CollectRuns(rank, round, piece, &op);
    elements += piece.count;
  }
  const uint64_t bytes = op.op.codec.TensorBytes(elements);
  Finish(&collect_, &op, kCollected);
  if (collect_.round == op.end_round()) {
    events->push_back(LocalOpEnded{op.op.group, op.op.ticket, absl::OkStatus(), TakeContributed(&op)});
    if (recorder_ != nullptr) Record(op, op.ended_ns[kCollected], /*failed=*/false);
    ops_.pop_front();
  }
  return bytes;
}

std::vector<ContributedRange> HostLocalGroup::TakeContributed(Op* op) {
  std::vector<ContributedRange> ranges;
  if (!CountsNodes(*op)) return ranges;
  op->contributed[self()] = std::move(op->published);
  for (const std::vector<ContributedRange>& part : op->contributed) {
    for (const ContributedRange& range : part) AddContributed(range, &ranges);
  }
  return ranges;
}

OpRecord HostLocalGroup::RecordOf(const Op& op) const {
  const LocalOp& asked = op.op;
  const bool has_factor = asked.reduce_op == ReduceOp::kPremulSum;
  return {.number = op.number,
          .call = asked.number.value(),
          .element_count = asked.element_count,
          .premul_factor_bits = has_factor ? std::bit_cast<uint64_t>(asked.premul_factor) : 0,
          .dtype = static_cast<uint8_t>(asked.codec.tensor_type()),
          .reduce_op = static_cast<uint8_t>(asked.reduce_op),
          .wire = static_cast<uint8_t>(asked.codec.format()),
          .other_nodes = asked.other_nodes};
}

absl::Status HostLocalGroup::CompareRecords(const Op& op) const {
  const auto record_of = [&](uint32_t rank) {
    OpRecord record;
    std::memcpy(&record, &peers_.header(rank).records[op.number % kMaxOpsUnderWay].op, sizeof(record));
    return record;
  };
  // All ranks compare with the first, so that all of them name the same two.
  const OpRecord first = record_of(0);
  for (uint32_t rank = 1; rank < size(); ++rank) {
    const OpRecord record = record_of(rank);
    if (record == first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks of this node disagree on op ", op.number + 1, " of ", peers_.group().meeting_name, ": ",
                     peers_.NameOf(0), " asked for ", Describe(first), "; ", peers_.NameOf(rank), " for ",
                     Describe(record), ". All ranks have to make the same calls in the same order"));
  }
  // Where memory holds garbage on all sides alike.
  if (first == RecordOf(op)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the shared memory of ", peers_.NameOf(0), " holds no op of ", peers_.group().meeting_name));
}

void HostLocalGroup::ReduceElements(const Op& op, uint64_t round, ElementRange elements, std::byte* result) {
  const WireCodec codec = op.op.codec;
  const uint64_t place = places_.ContributionOffset(round, op.rounds.whole ? 0 : self());
  const uint64_t block = codec.ElementsIn(encoded_sum_.size());
  // Block by block, so that what was reduced is still in the first-level cache when it is copied on.
  for (uint64_t done = 0; done < elements.count; done += block) {
    const uint64_t count = std::min(block, elements.count - done);
    const uint64_t offset = codec.WireBytes(done);
    std::byte* const tensor = op.Tensor(elements.first + done);
    for (uint32_t rank = 0; rank < size(); ++rank) {
      inputs_[rank] = peers_.memory(rank) + place + offset;
    }
    std::byte* sum = encoded_sum_.data();
    if (codec.is_identity()) {
      inputs_[self()] = tensor;
      sum = tensor;
    }
    shoal::Reduce(op.spec, inputs_, sum, count);
    if (!codec.is_identity()) Decode(codec, sum, tensor, count);
    if (result != nullptr) CopyPiece(result + offset, sum, codec.WireBytes(count));
  }
}

void HostLocalGroup::CopyIn(const Op& op, ElementRange elements, std::byte* place) {
  const WireCodec codec = op.op.codec;
  const std::byte* const tensor = op.Tensor(elements.first);
  if (codec.is_identity()) {
    CopyPiece(place, tensor, codec.TensorBytes(elements.count));
  } else {
    Encode(codec, tensor, place, elements.count);
  }
}

void HostLocalGroup::CopyOut(const Op& op, ElementRange elements, const std::byte* place) {
  const WireCodec codec = op.op.codec;
  std::byte* const tensor = op.Tensor(elements.first);
  if (codec.is_identity()) {
    CopyPiece(tensor, place, codec.TensorBytes(elements.count));
  } else {
    Decode(codec, place, tensor, elements.count);
  }
}

void HostLocalGroup::EndIfFailed(Events* events) {
  const std::optional<LocalFailure>& failure = peers_.failure();
  if (failure.has_value() && !failure_.has_value()) End(LocalFailure(*failure), events);
}

void HostLocalGroup::FailIfNeededRankHasLeft(Events* events) {
  if (failure_.has_value() || ops_.empty()) return;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == self() || !peers_.HasLeft(rank)) continue;
    // It had no open op then, so it has contributed to all that it started.
    if (peers_.header(rank).counters[kContributed].rounds.load(std::memory_order_acquire) >= next_round_) continue;
    return End({.status = absl::UnavailableError(absl::StrCat(peers_.NameOf(rank), " has closed the group ",
                                                              peers_.group().meeting_name, ", and op ",
                                                              ops_.back().number + 1, " has no contribution of it")),
                .culprit = LocalRank(rank)},
               events);
  }
}

void HostLocalGroup::End(const LocalFailure& failure, Events* events) {
  failure_ = failure;
  peers_.Fail(failure);
  events->push_back(LocalGroupFailed{peers_.group().group, failure.status, failure.culprit});
  for (const Op& op : ops_) events->push_back(LocalOpEnded{op.op.group, op.op.ticket, failure.status});
  if (recorder_ != nullptr) {
    const uint64_t now_ns = MonotonicNs();
    // The others have not begun.
    const size_t under_way = std::min<size_t>(ops_.size(), kMaxOpsUnderWay);
    for (size_t i = 0; i < under_way; ++i) Record(ops_[i], now_ns, /*failed=*/true);
  }
  ops_.clear();
}

}  // namespace shoal
