// How much a transport may hold, fixed at construction (clauses T6 and T7 of net/transport.h).
//
// Limits count per peer where one slow or hostile peer could otherwise use up what the others need.
//
// A peer that follows the protocol never reaches a limit: between a worker and a shard there are at most 256 groups
// (kMaxWorkerGroups), each with a window of kMaxCreditChunks that is open, one of an earlier epoch that the network
// still has, and as many results again as a server has slots, which are two windows. A late rank, or a server that
// stands still, can cause all of that. Each of those payloads may be asked for or refused once, with a note, and each
// group opens, moves, commits and ends with a few. What is repeated for as long as somebody waits (kWaiting) goes
// beyond any number; so it is left out for a peer that has read so little that the limit is reached (server/loop).
#ifndef SHOAL_NET_TRANSPORT_LIMITS_H_
#define SHOAL_NET_TRANSPORT_LIMITS_H_

#include <cstddef>

#include "core/flow_plan.h"

namespace shoal {

// Payloads on their way in one direction between a worker and a shard, at most.
inline constexpr size_t kMaxPayloadsOnTheirWay = size_t{4} * 256 * kMaxCreditChunks;
// Notes likewise.
inline constexpr size_t kMaxNotesOnTheirWay = kMaxPayloadsOnTheirWay + size_t{16} * 256;

struct TransportLimits {
  // Connections, those that are still being closed included. Connect beyond it: ResourceExhausted. A peer that connects
  // beyond it is turned away.
  size_t max_peers = 4096;
  // Of one peer, handed to SendNote or Send and not yet taken by the network. Beyond: ResourceExhausted.
  size_t max_notes_per_peer = kMaxNotesOnTheirWay;
  size_t max_sends_per_peer = kMaxPayloadsOnTheirWay;
  // Of one peer, offered and neither accepted nor declined, or lent. A peer that goes beyond it ignores the credit that
  // it was given: its connection is closed (kPeerDown with ResourceExhausted).
  size_t max_offers_per_peer = kMaxPayloadsOnTheirWay;
  // All groups that a worker may have open, with the windows that flow plans give them, need a quarter of these bytes.
  size_t max_held_bytes_per_peer = size_t{1} << 30;
  // Poll stops asking the network for more at this many events, so that a flood can't keep its caller from its work.
  size_t max_events_per_poll = 4096;
};

}  // namespace shoal

#endif  // SHOAL_NET_TRANSPORT_LIMITS_H_
