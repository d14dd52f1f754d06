// What a server machine asks of its loop.
//
// Plain values. Buffers are offsets into the loop's slot memory: the machine never sees memory.
#ifndef SHOAL_SERVER_MACHINE_SERVER_ACTIONS_H_
#define SHOAL_SERVER_MACHINE_SERVER_ACTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "core/frame.h"
#include "core/log_event.h"
#include "core/transport_event.h"
#include "reduce/reduce.h"

namespace shoal {

struct SendNoteAction {
  PeerId peer;
  Note note;
  // It is said again if it stays true: a peer that does not read its notes may miss this one.
  bool may_be_missed = false;
};

struct AcceptAction {
  OfferId offer;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t token = 0;
  bool into_slot = false;  // the payload is sent on from the slot, so it must not be borrowed
};

struct DeclineAction {
  OfferId offer;
};

struct SendPayloadAction {
  PeerId peer;
  FrameHeaderBytes header;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t token = 0;
};

// Reduce input_count arrays of `elements` that start at offset, offset + stride_bytes, ...; the result replaces the
// first.
struct ReduceAction {
  ReduceSpec spec;
  uint64_t offset = 0;
  uint64_t stride_bytes = 0;
  uint32_t input_count = 0;
  uint32_t elements = 0;
  uint32_t group_index = 0;  // the groups' sums take turns
  uint64_t token = 0;
};

// Contributions that were accepted into [offset, offset + bytes) won't be reduced: what was lent of them is returned.
struct ForgetInputsAction {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct ClosePeerAction {
  PeerId peer;
};

// Hand it to the log. The text lies in the action, so that actions stay plain bytes; a longer one is cut.
struct LogAction {
  EventKind kind = EventKind::kMessageRefused;
  EventIds ids;
  size_t text_bytes = 0;
  std::array<char, kMaxNoteBytes - 64> text{};

  LogAction(EventKind event_kind, const EventIds& event_ids, std::string_view event_text)
      : kind(event_kind), ids(event_ids) {
    text_bytes = event_text.copy(text.data(), text.size());
  }
};

using ServerAction = std::variant<SendNoteAction, AcceptAction, DeclineAction, SendPayloadAction, ReduceAction,
                                  ForgetInputsAction, ClosePeerAction, LogAction>;
using ServerActions = std::vector<ServerAction>;

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_ACTIONS_H_
