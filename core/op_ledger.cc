#include "core/op_ledger.h"

#include <algorithm>
#include <bit>

namespace shoal {
namespace {

// Factors are compared by their bits: 0.0 and -0.0 give different results, and which rank's is taken must not matter.
bool SameBucket(const OpRecord& record, const FrameHeader& push) {
  return record.plan.element_count == push.bucket_elements && record.codec == push.codec &&
         record.reduce_op == push.reduce_op && record.scaled_to_all == push.scaled_to_all &&
         std::bit_cast<uint64_t>(record.premul_factor) == std::bit_cast<uint64_t>(push.premul_factor);
}

bool ChunkFitsPlan(const BucketPlan& plan, const FrameHeader& push) {
  return push.chunk.value() < plan.chunk_count && push.first_element == plan.FirstElement(push.chunk) &&
         push.chunk_elements == plan.ElementCount(push.chunk);
}

// A record keeps the memory for so many chunks for its next op.
constexpr uint32_t kMaxKeptChunks = 4096;

}  // namespace

OpLedger::OpLedger(uint32_t max_chunk_bytes) : max_chunk_bytes_(max_chunk_bytes), records_(kMaxUncommittedOps) {}

Refusal OpLedger::Admit(const FrameHeader& push, const OpRecord** record) {
  if (push.op <= watermark_) return Refusal::kStaleOp;
  OpRecord& cell = records_[push.op.value() % records_.size()];
  if (cell.op == push.op) {
    *record = &cell;
    if (!SameBucket(cell, push)) return Refusal::kLayoutMismatch;
    return ChunkFitsPlan(cell.plan, push) ? Refusal::kNone : Refusal::kMalformed;
  }
  if (!MayPushOp(push.op, watermark_)) return Refusal::kNoSlot;
  const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(push.bucket_elements, push.codec, max_chunk_bytes_);
  if (!plan.ok() || !ChunkFitsPlan(*plan, push)) return Refusal::kMalformed;
  if (uncommitted_chunks_ + plan->chunk_count > kMaxUncommittedChunks) return Refusal::kNoSlot;
  uncommitted_chunks_ += plan->chunk_count;
  cell.op = push.op;
  cell.plan = *plan;
  cell.codec = push.codec;
  cell.reduce_op = push.reduce_op;
  cell.premul_factor = push.premul_factor;
  cell.scaled_to_all = push.scaled_to_all;
  cell.registered_by = push.rank;
  cell.summed.assign(plan->chunk_count, false);
  *record = &cell;
  return Refusal::kNone;
}

const OpRecord* OpLedger::Find(OpNumber op) const {
  const OpRecord& cell = records_[op.value() % records_.size()];
  return cell.op == op && op > watermark_ ? &cell : nullptr;
}

void OpLedger::NoteSummed(OpNumber op, ChunkNumber chunk) {
  records_[op.value() % records_.size()].summed[chunk.value()] = true;
}

void OpLedger::Restart() {
  for (OpRecord& record : records_) Free(&record);
}

void OpLedger::Commit(OpNumber watermark) {
  if (watermark <= watermark_) return;
  const uint64_t passed = std::min<uint64_t>(watermark.value() - watermark_.value(), records_.size());
  for (uint64_t i = 1; i <= passed; ++i) Free(&records_[(watermark_.value() + i) % records_.size()]);
  watermark_ = watermark;
}

void OpLedger::Free(OpRecord* record) {
  if (record->op == OpNumber(0)) return;
  record->op = OpNumber(0);
  uncommitted_chunks_ -= record->plan.chunk_count;
  if (record->plan.chunk_count > kMaxKeptChunks) record->summed = std::vector<bool>();
}

bool OpLedger::TakeAnnouncement() {
  if (watermark_.value() - announced_.value() < kCommitAnnounceOps) return false;
  announced_ = watermark_;
  return true;
}

}  // namespace shoal
