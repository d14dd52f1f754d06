// How peers are refused: with a note that says why, a line in the log, and a count.
//
// One thread.
#ifndef SHOAL_SERVER_MACHINE_REFUSALS_H_
#define SHOAL_SERVER_MACHINE_REFUSALS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/frame.h"
#include "server/machine/group_table.h"
#include "server/machine/server_actions.h"

namespace shoal {

class Refusals {
 public:
  // `groups` outlives this object: the log names the job of a message.
  explicit Refusals(const GroupTable* groups) : groups_(*groups) {}

  // By number of Refusal.
  const std::array<uint64_t, kRefusalCount>& counts() const { return counts_; }

  // Tells the peer that its message `header` is refused, and why.
  void RefuseNote(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                  ServerActions* actions);
  // The same for a push whose payload waits.
  void RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal, std::string_view text,
                   ServerActions* actions);
  // A peer that does not speak the protocol can't be told apart from an attacker: it is told why, and its connection is
  // closed. `offer`: OfferId(0) if none waits.
  void CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions);

 private:
  void Send(PeerId peer, FrameHeader reply, Refusal refusal, std::string_view text, ServerActions* actions);

  const GroupTable& groups_;
  std::array<uint64_t, kRefusalCount> counts_{};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_REFUSALS_H_
