// One chunk of an op on its way to its shard and back.
//
//   pushed -> sent (the transport is done with the contribution) -> landing (it writes the result) -> landed -> free
//
// A chunk of a tensor on a device is copied from there before it is sent, and back after it has landed. A result may be
// offered before the transport is done with the push: it is held until then. A value without heap memory; one thread.
#ifndef SHOAL_WORKER_MACHINE_CHUNK_IN_FLIGHT_H_
#define SHOAL_WORKER_MACHINE_CHUNK_IN_FLIGHT_H_

#include <compare>
#include <cstdint>
#include <utility>

#include "core/ids.h"
#include "core/transport_event.h"

namespace shoal {

// A chunk's place in the order in which all ranks push.
struct ChunkPlace {
  OpNumber op;
  ChunkNumber chunk;

  friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};

// What a push tells the server about the rank, as in FrameHeader. One that is pushed again tells nothing.
struct PushPace {
  bool in_one_go = false;
  uint8_t in_flight = 0;
};

class ChunkInFlight {
 public:
  ChunkInFlight() = default;  // free
  // `position`: in its link's window.
  ChunkInFlight(ChunkPlace place, uint64_t position) : place_(place), position_(position), open_(true) {}

  ChunkPlace place() const { return place_; }
  uint64_t position() const { return position_; }
  bool open() const { return open_; }
  bool Is(ChunkPlace place) const { return open_ && place_ == place; }
  bool IsOf(OpNumber op) const { return open_ && place_.op == op; }

  // The tensor is read, where the contribution lies.
  bool ReadsTensor() const { return open_ && !sent_ && (copying_ || sent_from_tensor_); }
  // The transport, or a copy, reads or writes memory for it.
  bool HoldsMemory() const { return open_ && (!sent_ || landing_ || copying_); }
  // The transport does.
  bool IsInTransport() const { return open_ && ((!sent_ && !copying_) || landing_); }
  // Its result was offered: a second one is not taken.
  bool HasResult() const { return landing_ || landed_ || held_offer_ != OfferId(0); }
  // A result was offered and the push is done.
  bool MayTakeResult() const { return sent_ && held_offer_ != OfferId(0); }
  // The result is written to the tensor, or may be: until that ends the chunk is neither contribution nor result.
  bool ResultMayBeInTensor() const {
    return open_ && ((landing_ && taking_ != Taking::kBeside) || (landed_ && copying_));
  }
  bool WasTakenAtOnce() const { return taking_ == Taking::kAtOnce; }
  bool WasTakenBeside() const { return taking_ == Taking::kBeside; }

  // `from_tensor`: that is where the transport reads.
  void StartSend(bool from_tensor, PushPace pace) {
    sent_ = false;
    again_ = false;
    sent_from_tensor_ = from_tensor;
    pace_ = pace;
  }
  PushPace pace() const { return pace_; }
  // True: it is to be pushed again now.
  bool EndSend() {
    sent_ = true;
    return again_;
  }
  // The server dropped the push. True: push it again now; otherwise EndSend says when, or the result is here already.
  bool Preempt() {
    if (landing_ || held_offer_ != OfferId(0)) return false;
    again_ = true;
    return sent_;
  }
  void Hold(OfferId offer) { held_offer_ = offer; }
  // The offer that is held and is to be declined now; 0: none.
  OfferId DropHeld() { return std::exchange(held_offer_, OfferId(0)); }
  // MayTakeResult() holds. The transport is asked to write the result.
  OfferId StartLanding() {
    landing_ = true;
    taking_ = Taking::kAsked;
    return std::exchange(held_offer_, OfferId(0));
  }
  void NoteTaken(bool at_once) { taking_ = at_once ? Taking::kAtOnce : Taking::kBeside; }
  void EndLanding(bool whole) {
    landing_ = false;
    landed_ = whole;
  }
  // Between a tensor on a device and the chunk's place: the contribution before it is sent, the result once it landed.
  void StartCopy() { copying_ = true; }
  void EndCopy() { copying_ = false; }
  bool copying() const { return copying_; }
  void Free() { open_ = false; }

 private:
  // How the result is written: not known until the loop says so; to the tensor at once; beside it.
  enum class Taking : uint8_t { kAsked, kAtOnce, kBeside };

  ChunkPlace place_;
  uint64_t position_ = 0;
  OfferId held_offer_;
  Taking taking_ = Taking::kAsked;
  bool open_ = false;
  bool sent_ = false;
  bool landing_ = false;
  bool landed_ = false;
  bool again_ = false;  // to be pushed again once it is sent
  bool copying_ = false;
  bool sent_from_tensor_ = false;
  PushPace pace_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_CHUNK_IN_FLIGHT_H_
