// Which ranks a server lets into groups: those whose token the scheduler signed, and that fit the group.
//
// One thread.
#ifndef SHOAL_SERVER_MACHINE_ADMISSION_H_
#define SHOAL_SERVER_MACHINE_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/frame.h"
#include "core/now.h"
#include "core/token.h"
#include "core/transport_event.h"
#include "server/machine/group_table.h"

namespace shoal {

struct Hello {
  PeerId peer;
  FrameHeader header;
  GroupToken token;
  std::vector<std::byte> sealed_roster = {};  // core/token.h; empty: all ranks are in the epoch
  uint64_t refuse_at_ns = 0;                  // it waits no longer for a key
};

// Hellos whose token is of a key that this server does not know. A rank may hear of a server, and greet it, before the
// scheduler's answer to that server's registration has brought a new key here: so it waits for that.
class HeldHellos {
 public:
  static constexpr uint64_t kTokenKeyPatienceNs = kNsPerS;

  // False: there is no room. A worker has no more groups; a stranger may send any number.
  bool TryHold(const Hello& hello);
  // Those of the peer in that group; in all its groups if none is given.
  void Forget(PeerId peer, std::optional<GroupId> group);
  // The oldest one, if its time is over.
  std::optional<Hello> TakeDue(Now now);
  // All of them, the oldest first.
  std::deque<Hello> TakeAll();
  // kNoDeadline: none is held.
  uint64_t NextDeadlineNs() const { return held_.empty() ? kNoDeadline : held_.front().refuse_at_ns; }

 private:
  static constexpr size_t kMax = 1024;
  static constexpr size_t kMaxOfPeer = 256;

  std::deque<Hello> held_;  // the oldest first
};

class Admission {
 public:
  Admission(std::string server_name, const TokenKey& key) : server_name_(std::move(server_name)), key_(key) {}

  // False: it is this key already.
  bool ChangeKey(const TokenKey& key);
  // A server that drains opens no new group.
  void SetDraining(bool draining) { draining_ = draining; }

  // The rank may enter, and these are the ranks of its epoch. Else *refusal and the text say why not. Unauthenticated:
  // the token or the roster was not signed with the key that is known here.
  absl::StatusOr<Roster> Check(const Hello& hello, const GroupTable& groups, Now now, Refusal* refusal) const;

 private:
  absl::Status CheckNewGroup(const Hello& hello, const GroupTable& groups, Refusal* refusal) const;
  static absl::Status CheckOpenGroup(const Hello& hello, const Roster& roster, const ServerGroup& group,
                                     Refusal* refusal);

  const std::string server_name_;
  TokenKey key_;
  bool draining_ = false;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_ADMISSION_H_
