#include "core/node_reduce.h"

#include <array>

namespace shoal {
namespace {

// By number.
constexpr std::array<std::string_view, 3> kModeNames = {"flat", "node alone", "rails"};
constexpr std::array<std::string_view, 4> kChoiceNames = {"auto", "off", "host", "nccl"};

}  // namespace

std::string_view NodeReduceModeName(NodeReduceMode mode) { return kModeNames[static_cast<uint8_t>(mode)]; }

std::optional<NodeReduceMode> NodeReduceModeFromNumber(uint32_t number) {
  if (number >= kModeNames.size()) return std::nullopt;
  return static_cast<NodeReduceMode>(number);
}

std::string_view NodeReduceChoiceName(NodeReduceChoice choice) { return kChoiceNames[static_cast<uint8_t>(choice)]; }

std::optional<NodeReduceChoice> NodeReduceChoiceFromNumber(uint32_t number) {
  if (number >= kChoiceNames.size()) return std::nullopt;
  return static_cast<NodeReduceChoice>(number);
}

std::optional<NodeReduceChoice> NodeReduceChoiceFromName(std::string_view name) {
  for (uint32_t number = 0; number < kChoiceNames.size(); ++number) {
    if (kChoiceNames[number] == name) return NodeReduceChoiceFromNumber(number);
  }
  return std::nullopt;
}

}  // namespace shoal
