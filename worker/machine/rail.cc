#include "worker/machine/rail.h"

#include <algorithm>
#include <utility>

#include "worker/machine/op_layout.h"

namespace shoal {
namespace {

// Deadlines are those of the whole group, whose owner knows what else they may wait for.
OpenGroupCommand OfRail(const OpenGroupCommand& command) {
  return {.group = command.group, .info = command.info->rail, .deadline_ns = kNoDeadline};
}

}  // namespace

Rail::Rail(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now)
    : handle_(command.group),
      local_ranks_(static_cast<uint32_t>(command.info->local_ranks.size())),
      local_rank_(command.info->local_rank()),
      group_(OfRail(command), generation, shared, now) {}

absl::Status Rail::Submit(const SubmitCommand& whole, Now now, WorkerActions* actions) {
  const DataType dtype = whole.layout.dtype();
  const ElementRange part = NodePart(whole.layout.element_count(), local_ranks_, local_rank_);
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(group_.info(), part.count, dtype);
  if (!layout.ok()) return layout.status();
  SubmitCommand command = whole;
  command.data = whole.data + part.first * DataTypeSize(dtype);
  command.layout = *layout;
  command.deadline_ns = kNoDeadline;
  if (absl::Status taken = group_.Submit(command, now, actions); !taken.ok()) return taken;
  if (whole.on_device) {
    // Its device has the node's sum when it says that the tensor is ready, and gives the result to the others.
    parts_.push_back({.ticket = whole.ticket, .elements = part, .on_device = true, .copies_over = part.count == 0});
    return absl::OkStatus();
  }
  parts_.push_back({.ticket = whole.ticket, .elements = part});
  group_.SetReadyElements(OpNumber(first_ + parts_.size() - 1), 0);
  return absl::OkStatus();
}

void Rail::NoteReduced(OpNumber op, ElementRange elements) {
  Part& part = PartOf(op);
  part.reduced = elements.first + elements.count - part.elements.first;
  group_.SetReadyElements(op, part.reduced);
}

void Rail::PublishLanded(WorkerActions* actions) {
  published_ = std::max(published_, first_);
  const uint64_t end = std::min(first_ + parts_.size(), group_.newest_result().value() + 1);
  for (uint64_t number = published_; number < end; ++number) {
    Part& part = PartOf(OpNumber(number));
    if (part.on_device) {
      if (!part.copies_over && IsOver(OpNumber(number))) {
        actions->push_back(DeviceCopiesOverAction{part.ticket});
        part.copies_over = true;
      }
      if (number == published_ && part.copies_over) ++published_;
      continue;
    }
    const uint64_t landed = Landed(OpNumber(number));
    if (landed > part.published) {
      actions->push_back(LocalPublishAction{
          .group = handle_,
          .ticket = part.ticket,
          .elements = {.first = part.elements.first + part.published, .count = landed - part.published}});
      part.published = landed;
    }
    if (number == published_ && part.published == part.elements.count) ++published_;
  }
}

std::optional<absl::Status> Rail::Ended(OpNumber op) const { return IsOver(op) ? PartOf(op).node_ended : std::nullopt; }

void Rail::Forget(OpNumber before) {
  for (; first_ < before.value(); ++first_) parts_.pop_front();
}

bool Rail::IsOver(OpNumber op) const {
  const WorkerOp* const in_rail = group_.FindOp(op);
  return in_rail == nullptr || in_rail->reported();
}

uint64_t Rail::Landed(OpNumber op) const {
  const uint64_t elements = PartOf(op).elements.count;
  if (IsOver(op)) return elements;
  const WorkerOp& in_rail = *group_.FindOp(op);
  const uint32_t missing = in_rail.FirstMissing();
  return missing == in_rail.chunk_count() ? elements : in_rail.layout().plan().FirstElement(ChunkNumber(missing));
}

// ---- words ----

bool Rail::IsUnderWay(OpNumber op) const {
  const Part& part = PartOf(op);
  if (IsOver(op)) return false;
  return part.on_device ? group_.FindOp(op)->HasAllElements() : part.reduced == part.elements.count;
}

std::string Rail::WaitedFor(OpNumber op) const {
  const WorkerOp& in_rail = *group_.FindOp(op);
  return group_.Description().WaitedFor(&in_rail, in_rail.missing_ranks());
}

std::string Rail::Progress(OpNumber op) const { return GroupDescription::Progress(*group_.FindOp(op)); }

std::string Rail::WhyNotDone(OpNumber op) const {
  return group_.Description().WhyNotDone(*group_.FindOp(op), group_.opening());
}

}  // namespace shoal
