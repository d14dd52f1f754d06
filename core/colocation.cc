#include "core/colocation.h"

namespace shoal {
namespace {

constexpr Colocation kColocations[] = {Colocation::kOff, Colocation::kAuto, Colocation::kOn};

}  // namespace

std::string_view ColocationName(Colocation colocation) {
  switch (colocation) {
    case Colocation::kOff:
      return "off";
    case Colocation::kAuto:
      return "auto";
    case Colocation::kOn:
      return "on";
  }
  return "unknown";
}

std::optional<Colocation> ColocationFromNumber(uint32_t number) {
  for (const Colocation colocation : kColocations) {
    if (static_cast<uint32_t>(colocation) == number) return colocation;
  }
  return std::nullopt;
}

std::optional<Colocation> ColocationFromName(std::string_view name) {
  for (const Colocation colocation : kColocations) {
    if (ColocationName(colocation) == name) return colocation;
  }
  return std::nullopt;
}

}  // namespace shoal
