// Some local ranks in one thread, each with its own LocalReduce, polled in an order that a seed decides.
#ifndef SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_HARNESS_H_
#define SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_HARNESS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/wire_codec.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"
#include "worker/local_reduce/local_reduce.h"

namespace shoal {

using Bytes = std::vector<std::byte>;

// What makes the LocalReduce of each rank, and what stands behind all of them.
class LocalReduceNode {
 public:
  virtual ~LocalReduceNode() = default;
  virtual std::unique_ptr<LocalReduce> Make() = 0;
  // Lets a little time pass.
  virtual void Wait() {}
};

inline Bytes RandomBytes(size_t count, std::mt19937_64* random) {
  Bytes bytes(count);
  for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
    const uint64_t word = (*random)();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), count - at));
  }
  return bytes;
}

// A tensor with other bytes on both sides, which nobody may touch. It starts at any multiple of its elements' size.
class GuardedTensor {
 public:
  static constexpr size_t kGuardBytes = 512;

  GuardedTensor(Bytes content, size_t shift_bytes)
      : start_(kGuardBytes + shift_bytes), size_(content.size()), memory_(size_ + 2 * start_, std::byte{0xa5}) {
    std::ranges::copy(content, memory_.begin() + static_cast<ptrdiff_t>(start_));
  }

  std::byte* data() { return memory_.data() + start_; }
  Bytes content() const {
    return {memory_.begin() + static_cast<ptrdiff_t>(start_), memory_.end() - static_cast<ptrdiff_t>(start_)};
  }
  bool IsGuardIntact() const {
    const auto is_guard = [](std::byte byte) { return byte == std::byte{0xa5}; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(start_), is_guard) &&
           std::all_of(memory_.end() - static_cast<ptrdiff_t>(start_), memory_.end(), is_guard);
  }

 private:
  const size_t start_;
  const size_t size_;
  Bytes memory_;
};

// The op's arithmetic as the port promises it: reduce/reduce.h over all contributions, in order.
inline Bytes ExpectedResult(const LocalOp& op, const std::vector<Bytes>& contributions) {
  std::vector<Bytes> encoded;
  std::vector<const std::byte*> inputs;
  for (const Bytes& contribution : contributions) {
    encoded.emplace_back(op.codec.WireBytes(op.element_count));
    Encode(op.codec, contribution.data(), encoded.back().data(), op.element_count);
    inputs.push_back(encoded.back().data());
  }
  ReduceSpec spec{.codec = op.codec, .op = op.reduce_op, .premul_factor = op.premul_factor};
  if (op.other_nodes && op.reduce_op == ReduceOp::kAvg) spec.op = ReduceOp::kSum;
  Bytes sum(op.codec.WireBytes(op.element_count));
  Reduce(spec, inputs, sum.data(), op.element_count);
  Bytes result(op.codec.TensorBytes(op.element_count));
  Decode(op.codec, sum.data(), result.data(), op.element_count);
  return result;
}

// One rank with all that it was told. Checks what holds for every sequence of events (L1).
class RankUnderTest {
 public:
  explicit RankUnderTest(std::unique_ptr<LocalReduce> port) : port_(std::move(port)) {}

  LocalReduce& port() { return *port_; }
  bool is_alive() const { return port_ != nullptr; }
  void Die() { port_.reset(); }

  void Start(const LocalOp& op) {
    groups_[op.group].open.push_back(op.ticket);
    port_->Start(op);
  }

  void Poll() {
    if (port_ == nullptr) return;
    const std::span<const LocalReduceEvent> events = port_->Poll();
    const std::vector<LocalReduceEvent> copy(events.begin(), events.end());
    for (const LocalReduceEvent& event : copy) std::visit([this](const auto& one) { On(one); }, event);
  }

  bool HasMet(GroupHandle group) { return groups_[group].met; }
  // What it heard of devices when it met.
  const std::optional<DeviceMeeting>& devices(GroupHandle group) { return groups_[group].devices; }
  const std::shared_ptr<const NodeFailures>& failures(GroupHandle group) { return groups_[group].failures; }
  const std::optional<LocalGroupFailed>& failure(GroupHandle group) { return groups_[group].failed; }
  // nullptr: the op is open.
  const absl::Status* EndOf(GroupHandle group, uint64_t ticket) {
    const auto found = groups_[group].ended.find(ticket);
    return found == groups_[group].ended.end() ? nullptr : &found->second;
  }
  size_t ended_count(GroupHandle group) { return groups_[group].ended.size(); }
  // The group was closed; its handle may be used again.
  void ForgetMeeting(GroupHandle group) { groups_[group].met = false; }
  bool HasOpenOps(GroupHandle group) { return !groups_[group].open.empty(); }

  // Called for each.
  std::function<void(const LocalPartReduced&)> on_part_reduced = [](const LocalPartReduced&) {};
  std::function<void(const LocalOpEnded&)> on_op_ended = [](const LocalOpEnded&) {};

 private:
  struct Group {
    bool met = false;
    std::optional<DeviceMeeting> devices;
    std::shared_ptr<const NodeFailures> failures;
    std::optional<LocalGroupFailed> failed;
    std::deque<uint64_t> open;
    std::map<uint64_t, absl::Status> ended;
  };

  void On(const LocalGroupMet& event) {
    EXPECT_FALSE(groups_[event.group].met);
    EXPECT_FALSE(groups_[event.group].failed.has_value());
    groups_[event.group].met = true;
    groups_[event.group].devices = event.devices;
    groups_[event.group].failures = event.failures;
  }
  void On(const LocalPartReduced& event) {
    EXPECT_FALSE(groups_[event.group].failed.has_value());
    EXPECT_GT(event.element_count, 0u);
    on_part_reduced(event);
  }
  void On(const LocalOpEnded& event) {
    Group& group = groups_[event.group];
    ASSERT_FALSE(group.open.empty());
    EXPECT_EQ(group.open.front(), event.ticket) << "ops end in the order of their Start";
    group.open.pop_front();
    EXPECT_TRUE(group.ended.emplace(event.ticket, event.status).second) << "an op ended twice";
    if (group.failed.has_value()) {
      EXPECT_EQ(event.status, group.failed->status);
    } else {
      EXPECT_TRUE(event.status.ok()) << event.status;
    }
    on_op_ended(event);
  }
  void On(const LocalGroupFailed& event) {
    EXPECT_FALSE(groups_[event.group].failed.has_value()) << "a group failed twice";
    EXPECT_FALSE(event.status.ok());
    groups_[event.group].failed = event;
  }

  std::unique_ptr<LocalReduce> port_;
  std::map<GroupHandle, Group> groups_;
};

class RanksUnderTest {
 public:
  RanksUnderTest(LocalReduceNode* node, uint32_t count, uint64_t seed) : node_(node), random_(seed) {
    for (uint32_t rank = 0; rank < count; ++rank) ranks_.push_back(std::make_unique<RankUnderTest>(node->Make()));
  }

  RankUnderTest& operator[](uint32_t rank) { return *ranks_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  std::mt19937_64& random() { return random_; }
  // Other tests may run beside this one.
  static std::string MeetingName(uint32_t number) {
    static uint32_t meetings = 0;
    if (number == 0) ++meetings;
    return "conformance-" + std::to_string(getpid()) + "-" + std::to_string(meetings) + "-" + std::to_string(number);
  }

  void Open(GroupHandle group, const std::string& meeting_name, uint32_t rank,
            const std::optional<DeviceMeeting>& devices = std::nullopt, bool counts_nodes = false) {
    ranks_[rank]->port().Open({.group = group,
                               .meeting_name = meeting_name,
                               .rank = LocalRank(rank),
                               .size = size(),
                               .devices = devices,
                               .counts_nodes = counts_nodes});
  }
  void OpenAll(GroupHandle group, bool counts_nodes = false) {
    const std::string name = MeetingName(group.value());
    for (uint32_t rank = 0; rank < size(); ++rank) Open(group, name, rank, std::nullopt, counts_nodes);
  }

  // Each rank a few times or never.
  void PollSome() {
    for (uint32_t i = 0; i < size(); ++i) ranks_[random_() % size()]->Poll();
    node_->Wait();
  }
  // False: it has not come true in a long time.
  bool PollUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      PollSome();
    }
    return true;
  }
  bool PollUntilAll(const std::function<bool(RankUnderTest&)>& done) {
    return PollUntil(
        [&] { return std::ranges::all_of(ranks_, [&](auto& rank) { return !rank->is_alive() || done(*rank); }); });
  }
  // Long enough for anything to happen that can.
  void PollForAWhile() {
    for (int i = 0; i < 500; ++i) PollSome();
  }

 private:
  LocalReduceNode* const node_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<RankUnderTest>> ranks_;
};

// The tensors of one op on all ranks.
class OpUnderTest {
 public:
  OpUnderTest(RanksUnderTest* ranks, const LocalOp& op) : ranks_(ranks), op_(op) {
    const size_t element_bytes = op.codec.TensorBytes(1);
    for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
      contributions_.push_back(RandomBytes(op.element_count * element_bytes, &ranks->random()));
      tensors_.emplace_back(contributions_.back(), ranks->random()() % 64 * element_bytes);
    }
    expected_ = ExpectedResult(op_, contributions_);
  }

  LocalOp ForRank(uint32_t rank) {
    LocalOp op = op_;
    op.data = tensors_[rank].data();
    return op;
  }
  void StartAt(uint32_t rank) { (*ranks_)[rank].Start(ForRank(rank)); }
  void StartAll() {
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank) StartAt(rank);
  }
  bool HasEnded() {
    return ranks_->PollUntilAll([&](RankUnderTest& rank) { return rank.EndOf(op_.group, op_.ticket) != nullptr; });
  }

  const LocalOp& op() const { return op_; }
  GuardedTensor& tensor(uint32_t rank) { return tensors_[rank]; }
  const Bytes& expected() const { return expected_; }
  // Another result than the node's, as other nodes would make it.
  void Expect(Bytes expected) { expected_ = std::move(expected); }
  void ExpectResults() {
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank) {
      EXPECT_TRUE(tensors_[rank].content() == expected_) << "the result of rank " << rank << " differs";
      EXPECT_TRUE(tensors_[rank].IsGuardIntact()) << "rank " << rank << " wrote beside its tensor";
    }
  }

 private:
  RanksUnderTest* const ranks_;
  const LocalOp op_;
  std::vector<Bytes> contributions_;
  std::vector<GuardedTensor> tensors_;
  Bytes expected_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_HARNESS_H_
