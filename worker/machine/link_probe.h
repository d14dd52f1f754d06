// Measures the way to one server before the first group is made: round trip and bandwidth (core/flow_plan.h).
//
// A few empty probes one after the other give the round trip, the shortest counts. Empty ones all at once give what a
// message costs. Then a train of payloads goes out; the server drops each on arrival and says so. How fast the second
// half of these echoes comes in is the bandwidth: the first half is what a shaped link lets through in a burst. But
// where this process had to wait for a processor, the echoes lie there all at once when it runs again, and would make
// any link infinitely fast; so a multiple of what the whole train's time gives is the limit.
//
// Pure, as the machine that drives it. One thread.
#ifndef SHOAL_WORKER_MACHINE_LINK_PROBE_H_
#define SHOAL_WORKER_MACHINE_LINK_PROBE_H_

#include <cstdint>

#include "core/flow_plan.h"
#include "core/now.h"
#include "worker/machine/connections.h"
#include "worker/machine/worker_actions.h"

namespace shoal {

class LinkProbe {
 public:
  static constexpr uint32_t kRoundTrips = 5;
  static constexpr uint32_t kMessages = 32;
  static constexpr uint32_t kTrainPayloads = 64;
  static constexpr uint32_t kFirstOfTrain = kRoundTrips + kMessages;
  // Small enough that every transport sends it without asking first: a payload that is offered has crossed the link.
  static constexpr uint32_t kPayloadBytes = 8192;
  // Of the payloads' operations; no other operation of the worker machine has it.
  static constexpr uint64_t kToken = UINT64_MAX;

  // Measures over that connection; LinkMeasured follows, at the deadline at the latest.
  void Begin(Connections::Use connection, uint64_t deadline_ns);
  // The connection is up.
  void OnUp(PeerId peer, Now now, WorkerActions* actions);
  // An echo came over the connection.
  void OnEcho(const FrameHeader& header, Now now, WorkerActions* actions);
  // Gives up at the deadline, or if the worker is closing.
  void Tick(Now now, bool closing, WorkerActions* actions);
  uint64_t NextDeadlineNs() const { return running_ ? deadline_ns_ : kNoDeadline; }

  bool running() const { return running_; }
  // It is under way over that connection.
  bool Uses(uint32_t connection) const { return running_ && connection == connection_.index(); }

 private:
  void SendRoundTrip(Now now, WorkerActions* actions);
  void SendMessages(Now now, WorkerActions* actions);
  // Of the time since sent_ns_ what is more than a round trip.
  uint64_t BeyondRoundTrip(Now now) const;
  void SendTrain(Now now, WorkerActions* actions);
  // True: that was the last echo.
  bool TakeEcho(const FrameHeader& header, Now now, WorkerActions* actions);
  void End(const LinkFacts& facts, WorkerActions* actions);

  bool running_ = false;
  Connections::Use connection_;  // while it runs
  uint64_t deadline_ns_ = kNoDeadline;
  PeerId peer_;
  uint32_t next_ = 0;  // number of the echo to come
  uint64_t sent_ns_ = 0;
  uint64_t half_ns_ = 0;
  LinkFacts facts_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_LINK_PROBE_H_
