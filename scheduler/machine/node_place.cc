#include "scheduler/machine/node_place.h"

namespace shoal::scheduler {
namespace {

std::optional<uint32_t> NumberIn(const std::map<std::string_view, uint32_t>& numbers, std::string_view key) {
  const auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

bool AreOnOneNode(const NodePlace& one, const NodePlace& other) {
  if (one.boot_id.empty() || other.boot_id.empty()) return one.node == other.node;
  return one.boot_id == other.boot_id;
}

NodeNumbering::NodeNumbering(std::span<const NodePlace> members) {
  for (const NodePlace& member : members) {
    if (member.boot_id.empty()) continue;
    const auto [entry, added] = by_boot_id_.try_emplace(member.boot_id, count_);
    if (added) ++count_;
    by_name_.try_emplace(member.node, entry->second);
  }
  for (const NodePlace& member : members) {
    if (!member.boot_id.empty() || !by_name_.try_emplace(member.node, count_).second) continue;
    by_name_alone_.emplace(member.node, count_++);
  }
}

std::optional<uint32_t> NodeNumbering::Find(const NodePlace& place) const {
  if (place.boot_id.empty()) return NumberIn(by_name_, place.node);
  const std::optional<uint32_t> number = NumberIn(by_boot_id_, place.boot_id);
  return number.has_value() ? number : NumberIn(by_name_alone_, place.node);
}

}  // namespace shoal::scheduler
