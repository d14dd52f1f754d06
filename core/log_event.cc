#include "core/log_event.h"

#include <array>

namespace shoal {
namespace {

enum class Component : uint8_t { kScheduler, kServer, kProcess };

struct KindRow {
  std::string_view key;
  EventLevel level;
  Component component;
};

constexpr std::array<KindRow, kEventKindCount> kKinds = {{
#define X(name, key, level, component, meaning) {key, EventLevel::level, Component::component},
    SHOAL_EVENT_KINDS(X)
#undef X
}};

const KindRow& RowOf(EventKind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

std::string_view EventKey(EventKind kind) { return RowOf(kind).key; }

EventLevel LevelOf(EventKind kind) { return RowOf(kind).level; }

std::string_view ComponentOf(EventKind kind) {
  switch (RowOf(kind).component) {
    case Component::kScheduler:
      return "scheduler";
    case Component::kServer:
      return "server";
    case Component::kProcess:
      return "process";
  }
  return "";
}

}  // namespace shoal
