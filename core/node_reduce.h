// Whether the ranks of a group that are on one node reduce among themselves: what a user asks for, and what the
// scheduler decides for a group.
//
// The numbers are part of the control plane and of the public C header: never renumber. Values; any thread.
#ifndef SHOAL_CORE_NODE_REDUCE_H_
#define SHOAL_CORE_NODE_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

// What the scheduler decides, from the group's layout and its ranks' choices alone: the same for all its ranks.
enum class NodeReduceMode : uint8_t {
  // Each rank pushes its whole contribution to the servers.
  kFlat = 0,
  // All ranks are on one node and reduce through its memory. The group has no servers.
  kNodeAlone = 1,
  // The ranks of each node reduce among themselves, and each pushes its part of the node's sum to the servers.
  kRails = 2,
};

// What a user asks for. All ranks of a group must ask for the same.
enum class NodeReduceChoice : uint8_t {
  // As the scheduler finds best.
  kAuto = 0,
  // Never within a node: always kFlat.
  kOff = 1,
  // Within a node wherever that is possible, through the memory of the host.
  kHost = 2,
  // Likewise, and tensors on devices through NCCL: a group that is reduced within nodes can't be made without it.
  kNccl = 3,
};

// A meeting name (docs/wire.md) has at most as many bytes, so that it fits the name of an abstract Unix socket together
// with what an implementation adds.
inline constexpr size_t kMaxMeetingNameBytes = 88;

// "flat", "node alone", "rails": for messages and logs.
std::string_view NodeReduceModeName(NodeReduceMode mode);

// nullopt for a number that is none of the above, whatever a peer or a file may say.
std::optional<NodeReduceMode> NodeReduceModeFromNumber(uint32_t number);

// "auto", "off", "host", "nccl": the names that users read and type.
std::string_view NodeReduceChoiceName(NodeReduceChoice choice);

// nullopt for a number or name that is none of the above, whatever a peer or a user may have sent.
std::optional<NodeReduceChoice> NodeReduceChoiceFromNumber(uint32_t number);
std::optional<NodeReduceChoice> NodeReduceChoiceFromName(std::string_view name);

}  // namespace shoal

#endif  // SHOAL_CORE_NODE_REDUCE_H_
