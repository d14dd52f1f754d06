#include "sim/sim_local_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/node_parts.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"

namespace shoal::sim {

class SimLocalReduce;

struct SimOp {
  LocalOp op;
  std::vector<std::byte> contribution;
  uint64_t reduced_elements = 0;    // of the own part; without other nodes all of it in one go
  uint64_t published_elements = 0;  // of the own part
  bool reduced = false;
  std::vector<ContributedRange> published;  // of the own part, where nodes are counted
};

struct SimMember {
  SimLocalReduce* port = nullptr;  // nullptr: it has not come, or is gone
  GroupHandle handle;
  bool came = false;
  bool met = false;
  bool left = false;
  bool counts_nodes = false;
  bool may_advance = false;  // there may be something to do at its next Poll
  std::optional<DeviceMeeting> devices;
  std::optional<LocalGroupFailed> failure;
  uint64_t ended = 0;     // ops
  std::deque<SimOp> ops;  // all of them: others read the contributions
};

struct SimMeeting {
  std::string name;
  std::vector<SimMember> members;

  bool HaveAllCome() const {
    return std::ranges::all_of(members, [](const SimMember& member) { return member.came; });
  }
  bool HaveAllStarted(uint64_t number) const {
    return std::ranges::all_of(members, [&](const SimMember& member) { return member.ops.size() > number; });
  }
};

namespace {

std::string NameOf(const SimMeeting& meeting, size_t rank) {
  return absl::StrCat("local rank ", rank, " of ", meeting.members.size());
}

std::string Describe(const LocalOp& op) {
  return absl::StrCat("call ", op.number.value(), ": ", std::string(ReduceOpName(op.reduce_op)), " of ",
                      op.element_count, " elements of ", std::string(DataTypeName(op.codec.tensor_type())), " (factor ",
                      op.premul_factor, ", bits ", absl::Hex(std::bit_cast<uint64_t>(op.premul_factor)), ", wire ",
                      std::string(WireFormatName(op.codec.format())),
                      op.other_nodes ? ", with other nodes)" : ", on this node alone)");
}

bool Agree(const LocalOp& a, const LocalOp& b) {
  return a.number == b.number && a.element_count == b.element_count && a.codec == b.codec &&
         a.reduce_op == b.reduce_op && a.other_nodes == b.other_nodes &&
         (a.reduce_op != ReduceOp::kPremulSum ||
          std::bit_cast<uint64_t>(a.premul_factor) == std::bit_cast<uint64_t>(b.premul_factor));
}

ElementRange PartOf(const SimMeeting& meeting, uint64_t number, size_t rank) {
  return NodePart(meeting.members[0].ops[number].op.element_count, static_cast<uint32_t>(meeting.members.size()),
                  static_cast<uint32_t>(rank));
}

// The sum over all ranks of some elements, into the tensor of one.
void ReduceInto(const SimMeeting& meeting, uint64_t number, const LocalOp& op, ElementRange elements) {
  const WireCodec codec = op.codec;
  std::vector<std::vector<std::byte>> contributions;
  std::vector<const std::byte*> inputs;
  for (const SimMember& member : meeting.members) {
    std::vector<std::byte>& contribution = contributions.emplace_back(codec.WireBytes(elements.count));
    Encode(codec, member.ops[number].contribution.data() + codec.TensorBytes(elements.first), contribution.data(),
           elements.count);
    inputs.push_back(contribution.data());
  }
  ReduceSpec spec{.codec = codec, .op = op.reduce_op, .premul_factor = op.premul_factor};
  if (op.other_nodes && op.reduce_op == ReduceOp::kAvg) spec.op = ReduceOp::kSum;
  std::vector<std::byte> sum(codec.WireBytes(elements.count));
  Reduce(spec, inputs, sum.data(), elements.count);
  Decode(codec, sum.data(), op.data + codec.TensorBytes(elements.first), elements.count);
}

}  // namespace

class SimLocalReduce : public LocalReduce {
 public:
  SimLocalReduce(SimLocalNode* node, std::function<void()> wake) : node_(node), wake_(std::move(wake)) {}

  ~SimLocalReduce() override {
    for (auto& [handle, place] : places_) {
      SimMember& member = place.member();
      if (!member.failure.has_value()) {
        const absl::Status why = absl::UnavailableError(absl::StrCat(NameOf(*place.meeting, place.rank), " died"));
        CountDeath(place);
        member.failure = LocalGroupFailed{handle, why, LocalRank(place.rank)};
        Spread(place, why, LocalRank(place.rank));
      }
      Go(place);
    }
  }

  void Open(const LocalGroup& group) override {
    std::shared_ptr<SimMeeting>& meeting = node_->meetings_[group.meeting_name];
    if (meeting == nullptr) {
      meeting = std::make_shared<SimMeeting>(
          SimMeeting{.name = group.meeting_name, .members = std::vector<SimMember>(group.size)});
    }
    const Place place{meeting, group.rank.value()};
    place.member().port = this;
    place.member().handle = group.group;
    place.member().came = true;
    place.member().devices = group.devices;
    place.member().counts_nodes = group.counts_nodes;
    places_.insert_or_assign(group.group, place);
    node_->Stir(meeting);
  }

  void Start(const LocalOp& op) override {
    const Place& place = places_.at(op.group);
    SimMember& member = place.member();
    if (member.failure.has_value()) return Tell(LocalOpEnded{op.group, op.ticket, member.failure->status});
    const size_t bytes = op.codec.TensorBytes(op.element_count);
    member.ops.push_back({.op = op, .contribution = {op.data, op.data + bytes}});
    node_->Stir(place.meeting);
  }

  void PublishPart(GroupHandle group, uint64_t ticket, ElementRange elements, uint32_t contributors) override {
    const auto [first_element, element_count] = elements;
    const Place& place = places_.at(group);
    SimMember& member = place.member();
    for (uint64_t number = member.ended; number < member.ops.size() && !member.failure.has_value(); ++number) {
      SimOp& op = member.ops[number];
      if (op.op.ticket != ticket) continue;
      // Kept where the contribution was, which nobody reads there any more.
      const size_t offset = op.op.codec.TensorBytes(first_element);
      std::memcpy(op.contribution.data() + offset, op.op.data + offset, op.op.codec.TensorBytes(element_count));
      op.published_elements = first_element + element_count - PartOf(*place.meeting, number, place.rank).first;
      if (!member.counts_nodes) continue;
      AddContributed({.first = first_element, .count = element_count, .contributors = contributors}, &op.published);
    }
    node_->Stir(place.meeting);
  }

  void Fail(GroupHandle group, const absl::Status& why) override {
    const Place& place = places_.at(group);
    if (place.member().failure.has_value()) return;
    Spread(place, why, LocalRank(place.rank));
    FailMember(place.member(), why, LocalRank(place.rank));
  }

  void Close(GroupHandle group) override {
    const Place place = places_.at(group);
    places_.erase(group);
    // A rank of a failed group does not leave it: it has told the others why it can't go on.
    place.member().left = !place.member().failure.has_value();
    Go(place);
  }

  std::vector<LocalRank> Missing(GroupHandle group) const override {
    const Place& place = places_.at(group);
    const SimMeeting& meeting = *place.meeting;
    const SimMember& own = place.member();
    std::vector<LocalRank> missing;
    if (own.failure.has_value() || (own.met && own.ended == own.ops.size())) return missing;
    const auto add_if = [&](auto is_missing) {
      for (uint32_t rank = 0; rank < meeting.members.size(); ++rank) {
        if (rank != place.rank && is_missing(meeting.members[rank], rank)) missing.push_back(LocalRank(rank));
      }
    };
    if (!own.met) {
      add_if([](const SimMember& member, uint32_t) { return !member.came; });
      return missing;
    }
    add_if([&](const SimMember& member, uint32_t) { return member.ops.size() <= own.ended; });
    if (!missing.empty()) return missing;
    add_if([&](const SimMember& member, uint32_t rank) {
      return member.ops[own.ended].published_elements < PartOf(meeting, own.ended, rank).count;
    });
    return missing;
  }

  std::span<const LocalReduceEvent> Poll() override {
    for (const auto& [handle, place] : places_) {
      if (std::exchange(place.member().may_advance, false) && Advance(place)) node_->Stir(place.meeting);
    }
    returned_.clear();
    returned_.swap(pending_);
    return returned_;
  }

  bool Arm() override { return pending_.empty(); }
  int wake_fd() const override { return -1; }

 private:
  friend class SimLocalNode;

  struct Place {
    std::shared_ptr<SimMeeting> meeting;
    uint32_t rank = 0;

    SimMember& member() const { return meeting->members[rank]; }
  };

  void Tell(LocalReduceEvent event) {
    pending_.push_back(std::move(event));
    wake_();
  }

  void CountDeath(const Place& place) {
    const SimMember& own = place.member();
    for (uint64_t number = own.ended; number < own.ops.size(); ++number) {
      const SimOp& op = own.ops[number];
      if (!op.op.other_nodes) continue;
      const auto ranks = static_cast<uint32_t>(place.meeting->members.size());
      const bool is_published = op.published_elements == NodePart(op.op.element_count, ranks, place.rank).count;
      const NodeStage stage = !op.reduced     ? NodeStage::kReduceScatter
                              : !is_published ? NodeStage::kOtherNodes
                                              : NodeStage::kAllGather;
      ++node_->deaths_[static_cast<size_t>(stage)];
    }
  }

  // The port is gone from the meeting, whose name is free when all are.
  void Go(const Place& place) {
    place.member().port = nullptr;
    const auto is_here = [](const SimMember& member) { return member.port != nullptr; };
    if (std::ranges::none_of(place.meeting->members, is_here)) node_->meetings_.erase(place.meeting->name);
    node_->Stir(place.meeting);
  }

  static void FailMember(SimMember& member, const absl::Status& why, std::optional<LocalRank> culprit) {
    if (member.port == nullptr || member.failure.has_value()) return;
    member.failure = LocalGroupFailed{member.handle, why, culprit};
    member.port->Tell(*member.failure);
    for (uint64_t number = member.ended; number < member.ops.size(); ++number) {
      member.port->Tell(LocalOpEnded{member.handle, member.ops[number].op.ticket, why});
    }
  }

  // The others hear of it in a while.
  void Spread(const Place& place, const absl::Status& why, std::optional<LocalRank> culprit) {
    for (uint32_t rank = 0; rank < place.meeting->members.size(); ++rank) {
      if (rank == place.rank) continue;
      node_->world_->After(
          node_->world_->random().Below(node_->max_delay_ns_ + 1),
          [meeting = place.meeting, rank, why, culprit] { FailMember(meeting->members[rank], why, culprit); });
    }
  }

  // Whatever this rank can do next. True if there was something.
  bool Advance(const Place& place) {
    SimMember& own = place.member();
    const SimMeeting& meeting = *place.meeting;
    if (own.failure.has_value()) return false;
    for (const SimMember& member : meeting.members) {
      if (!member.failure.has_value()) continue;
      FailMember(own, member.failure->status, member.failure->culprit);
      return true;
    }
    if (!meeting.HaveAllCome()) return false;
    if (!own.met) {
      own.met = true;
      const bool all_can =
          std::ranges::all_of(meeting.members, [](const SimMember& member) { return member.devices.has_value(); });
      Tell(LocalGroupMet{own.handle, all_can ? meeting.members.front().devices : std::nullopt});
      return true;
    }
    for (uint32_t rank = 0; rank < meeting.members.size(); ++rank) {
      const SimMember& member = meeting.members[rank];
      if (!member.left || member.ops.size() >= own.ops.size()) continue;
      const absl::Status why = absl::UnavailableError(absl::StrCat(NameOf(meeting, rank), " has closed the group"));
      Spread(place, why, LocalRank(rank));
      FailMember(own, why, LocalRank(rank));
      return true;
    }
    for (uint64_t number = own.ended; number < own.ops.size() && meeting.HaveAllStarted(number); ++number) {
      if (ReduceNext(place, number)) return true;
    }
    return own.ended < own.ops.size() && EndFirst(place);
  }

  bool ReduceNext(const Place& place, uint64_t number) {
    const SimMeeting& meeting = *place.meeting;
    SimMember& own = place.member();
    SimOp& op = own.ops[number];
    if (op.reduced) return false;
    const LocalOp& first = meeting.members[0].ops[number].op;
    for (size_t rank = 1; rank < meeting.members.size(); ++rank) {
      const LocalOp& other = meeting.members[rank].ops[number].op;
      if (Agree(first, other)) continue;
      const absl::Status why = absl::InvalidArgumentError(
          absl::StrCat("the ranks of this node disagree on op ", number + 1, ": ", NameOf(meeting, 0), " asked for ",
                       Describe(first), "; ", NameOf(meeting, rank), " for ", Describe(other)));
      Spread(place, why, std::nullopt);
      FailMember(own, why, std::nullopt);
      return true;
    }
    if (!op.op.other_nodes) {
      ReduceInto(meeting, number, op.op, {.first = 0, .count = op.op.element_count});
      op.published_elements = PartOf(meeting, number, place.rank).count;
      op.reduced = true;
      return true;
    }
    const ElementRange part = PartOf(meeting, number, place.rank);
    const uint64_t left = part.count - op.reduced_elements;
    if (left > 0) {
      // Where numbers are encoded, whole blocks of them.
      const uint64_t step = op.op.codec.is_identity() ? 1 : op.op.codec.alignment_elements();
      const uint64_t drawn = 1 + node_->world_->random().Below(left);
      const ElementRange piece{.first = part.first + op.reduced_elements,
                               .count = std::min(left, (drawn + step - 1) / step * step)};
      ReduceInto(meeting, number, op.op, piece);
      op.reduced_elements += piece.count;
      Tell(LocalPartReduced{own.handle, op.op.ticket, piece.first, piece.count});
    }
    op.reduced = op.reduced_elements == part.count;
    return true;
  }

  bool EndFirst(const Place& place) {
    const SimMeeting& meeting = *place.meeting;
    SimMember& own = place.member();
    const uint64_t number = own.ended;
    const LocalOp& op = own.ops[number].op;
    if (!own.ops[number].reduced) return false;
    for (uint32_t rank = 0; rank < meeting.members.size() && op.other_nodes; ++rank) {
      if (meeting.members[rank].ops[number].published_elements < PartOf(meeting, number, rank).count) return false;
    }
    for (uint32_t rank = 0; rank < meeting.members.size() && op.other_nodes; ++rank) {
      const ElementRange part = PartOf(meeting, number, rank);
      const size_t offset = op.codec.TensorBytes(part.first);
      const SimOp& theirs = meeting.members[rank].ops[number];
      if (rank == place.rank) continue;
      std::memcpy(op.data + offset, theirs.contribution.data() + offset, op.codec.TensorBytes(part.count));
    }
    std::vector<ContributedRange> contributed;
    for (const SimMember& member : meeting.members) {
      for (const ContributedRange& range : member.ops[number].published) AddContributed(range, &contributed);
    }
    ++own.ended;
    Tell(LocalOpEnded{own.handle, op.ticket, absl::OkStatus(), std::move(contributed)});
    return true;
  }

  SimLocalNode* const node_;
  const std::function<void()> wake_;
  std::map<GroupHandle, Place> places_;
  std::vector<LocalReduceEvent> pending_;
  std::vector<LocalReduceEvent> returned_;
};

std::unique_ptr<LocalReduce> SimLocalNode::Make(std::function<void()> wake) {
  return std::make_unique<SimLocalReduce>(this, std::move(wake));
}

void SimLocalNode::Stir(const std::shared_ptr<SimMeeting>& meeting) {
  for (uint32_t rank = 0; rank < meeting->members.size(); ++rank) {
    world_->After(world_->random().Below(max_delay_ns_ + 1), [meeting, rank] {
      SimMember& member = meeting->members[rank];
      member.may_advance = true;
      if (member.port != nullptr) member.port->wake_();
    });
  }
}

}  // namespace shoal::sim
