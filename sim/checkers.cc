#include "sim/checkers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/hash.h"

namespace shoal::sim {
namespace {

constexpr std::byte kGrave{0x5c};

uint64_t HashOf(uint64_t seed, uint32_t job, const std::string& group, uint64_t op, uint64_t what) {
  uint64_t state = StableHash({seed, job, op, what});
  for (char c : group) state = StableHash({state, static_cast<unsigned char>(c)});
  return state;
}

// A small integer, so that sums are exact in every dtype (bfloat16 too) and any order.
int Value(uint64_t base, uint32_t rank, uint64_t index) {
  return static_cast<int>(StableHash({base, rank, index}) % 9) - 4;
}

template <typename T>
void Store(std::vector<std::byte>* bytes, uint64_t index, T value) {
  std::memcpy(bytes->data() + index * sizeof(T), &value, sizeof(T));
}

void StoreAs(DataType dtype, std::vector<std::byte>* bytes, uint64_t index, double value) {
  switch (dtype) {
    case DataType::kFloat32:
      return Store(bytes, index, static_cast<float>(value));
    case DataType::kFloat64:
      return Store(bytes, index, value);
    case DataType::kBfloat16: {
      const auto single = static_cast<float>(value);  // a small integer: its low 16 bits are zero
      uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof(bits));
      return Store(bytes, index, static_cast<uint16_t>(bits >> 16));
    }
    case DataType::kInt64:
      return Store(bytes, index, static_cast<int64_t>(value));
    default:
      return Store(bytes, index, static_cast<int32_t>(value));
  }
}

}  // namespace

OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op) {
  Random random(HashOf(seed, job, group, op, 1));
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16, DataType::kInt32,
                                 DataType::kInt64};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
  OpPlan plan;
  plan.dtype = kTypes[random.Below(std::size(kTypes))];
  plan.reduce_op = kOps[random.Below(std::size(kOps))];
  const uint64_t limits[] = {1, 10, 300, 3000, 12000};
  plan.elements = random.Below(limits[random.Below(std::size(limits))] + 1);
  return plan;
}

std::vector<std::byte> Contribution(uint64_t seed, uint32_t job, const std::string& group, uint64_t op,
                                    const OpPlan& plan, uint32_t rank) {
  const uint64_t base = HashOf(seed, job, group, op, 2);
  std::vector<std::byte> bytes(plan.elements * DataTypeSize(plan.dtype));
  for (uint64_t i = 0; i < plan.elements; ++i) StoreAs(plan.dtype, &bytes, i, Value(base, rank, i));
  return bytes;
}

std::vector<std::byte> ExpectedResult(uint64_t seed, uint32_t job, const std::string& group, uint64_t op,
                                      const OpPlan& plan, uint32_t ranks) {
  const uint64_t base = HashOf(seed, job, group, op, 2);
  std::vector<std::byte> bytes(plan.elements * DataTypeSize(plan.dtype));
  for (uint64_t i = 0; i < plan.elements; ++i) {
    int result = Value(base, 0, i);
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      const int value = Value(base, rank, i);
      result = plan.reduce_op == ReduceOp::kSum   ? result + value
               : plan.reduce_op == ReduceOp::kMin ? std::min(result, value)
                                                  : std::max(result, value);
    }
    StoreAs(plan.dtype, &bytes, i, result);
  }
  return bytes;
}

void Checkers::Fail(const std::string& what) {
  failures_.push_back(what);
  world_->TraceText("FAILED: " + what);
}

void Checkers::OpEnded(uint32_t job, const std::string& group, uint64_t op, uint32_t rank, uint32_t ranks,
                       const OpPlan& plan, const absl::Status& status, const std::vector<std::byte>& memory) {
  if (!status.ok()) {
    ++ops_failed_;
    ++ops_failed_by_job_[job];
    if (status.message().empty())
      Fail(absl::StrCat("job ", job, " rank ", rank, " op ", op, " failed without a reason"));
    return;
  }
  ++ops_ok_;
  const std::string where = absl::StrCat("job ", job, " group ", group, " op ", op, " rank ", rank);
  if (memory != ExpectedResult(seed_, job, group, op, plan, ranks)) {
    Fail(absl::StrCat(where, ": the result is wrong (exactly-once)"));
  }
  uint64_t digest = StableHash({memory.size()});
  for (std::byte byte : memory) digest = StableHash({digest, static_cast<uint64_t>(byte)});
  const auto [entry, first] = digests_.try_emplace({job, group, op}, digest);
  if (!first && entry->second != digest) Fail(absl::StrCat(where, ": ranks were told different results (agreement)"));
  world_->Trace({job, op, rank, digest});
}

void Checkers::Bury(const std::string& whose, std::vector<std::byte> memory) {
  std::fill(memory.begin(), memory.end(), kGrave);
  graves_.push_back({whose, std::move(memory)});
}

void Checkers::CheckGraves() {
  for (const Grave& grave : graves_) {
    if (std::any_of(grave.memory.begin(), grave.memory.end(), [](std::byte byte) { return byte != kGrave; })) {
      Fail(absl::StrCat(grave.whose, ": its memory was written after the op had ended (ownership)"));
    }
  }
}

void Checkers::CheckLoans(const SimNetwork& network) {
  for (const std::string& fault : network.loan_faults()) Fail(absl::StrCat(fault, " (loans)"));
  if (network.loans_open() > 0) {
    Fail(absl::StrCat(network.loans_open(), " loans are still open after everybody has gone (loans)"));
  }
}

void Checkers::CheckServerBounds(const std::string& server, const ServerCounters& counters,
                                 uint64_t slot_memory_bytes) {
  if (counters.slot_memory_used_bytes > slot_memory_bytes) Fail(absl::StrCat(server, " uses more memory than it has"));
}

void Checkers::CheckServerEmpty(const std::string& server, const ServerCounters& counters) {
  refusals_ += counters.RefusalTotal();
  preemptions_ += counters.refusals[static_cast<size_t>(Refusal::kPreempted)];
  if (counters.groups_open > 0 || counters.slot_memory_used_bytes > 0 || counters.peers > 0) {
    Fail(absl::StrCat(server, " still has ", counters.groups_open, " groups, ", counters.slot_memory_used_bytes,
                      " bytes of slots and ", counters.peers, " peers after everybody has gone"));
  }
}

uint64_t Checkers::ops_failed_of(uint32_t job) const {
  const auto found = ops_failed_by_job_.find(job);
  return found == ops_failed_by_job_.end() ? 0 : found->second;
}

}  // namespace shoal::sim
