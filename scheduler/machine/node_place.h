// Which members are on one node, as far as plans go: what shares a network card. Pure; any thread.
//
// A boot id says that for sure, and a name does not: computers that were cloned may have one name, and each pod on a
// computer has its own. So the boot ids count where both are known, and else the names. Which processes of a node can
// meet there is another question (node_reduce_decision.h).
#ifndef SHOAL_SCHEDULER_MACHINE_NODE_PLACE_H_
#define SHOAL_SCHEDULER_MACHINE_NODE_PLACE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>

namespace shoal::scheduler {

// Views: whoever they are of must stay.
struct NodePlace {
  std::string_view node;     // its name
  std::string_view boot_id;  // empty: not known, or the name was chosen for this member, or its process is too old
};

// Of a RankState or a ServerState.
template <typename Member>
NodePlace PlaceOf(const Member& member) {
  return {.node = member.node, .boot_id = member.boot_id};
}

bool AreOnOneNode(const NodePlace& one, const NodePlace& other);

// The nodes of some members, numbered from 0 by boot id in the order of their first members, and then those without.
// A member whose boot id is not known is on the first node that has its name.
class NodeNumbering {
 public:
  explicit NodeNumbering(std::span<const NodePlace> members);

  uint32_t count() const { return count_; }
  // nullopt: no member is on that node.
  std::optional<uint32_t> Find(const NodePlace& place) const;

 private:
  uint32_t count_ = 0;
  std::map<std::string_view, uint32_t> by_boot_id_;
  std::map<std::string_view, uint32_t> by_name_;
  std::map<std::string_view, uint32_t> by_name_alone_;  // of those nodes of which no boot id is known
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_NODE_PLACE_H_
