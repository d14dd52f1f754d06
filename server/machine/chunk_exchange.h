// The way of a chunk through a server: a push gets a slot, contributions land there, their sum is asked for, and the
// result goes to the ranks that contributed.
//
// Which rank may have its payload accepted next is decided here (TryAccept), and nowhere else.
//
// One thread.
#ifndef SHOAL_SERVER_MACHINE_CHUNK_EXCHANGE_H_
#define SHOAL_SERVER_MACHINE_CHUNK_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "core/now.h"
#include "core/op_ledger.h"
#include "core/transport_event.h"
#include "server/machine/group_table.h"
#include "server/machine/refusals.h"
#include "server/machine/server_actions.h"
#include "server/machine/server_counters.h"
#include "server/machine/server_events.h"

namespace shoal {

class ChunkExchange {
 public:
  // Both outlive this object.
  ChunkExchange(GroupTable* groups, Refusals* refusals) : groups_(*groups), refusals_(*refusals) {}

  // A push of `push.rank` of the group, of an op that was admitted as `record`: it is accepted, held until a slot is
  // free, or refused.
  void OnPush(uint32_t group_index, const ServerGroup::PendingPush& push, const OpRecord& record, Now now,
              ServerActions* actions);
  // The end of an AcceptAction, of a ReduceAction and of a SendPayloadAction. True: the memory of a slot came free, so
  // the group may be over (GroupTable::CloseIfOver).
  [[nodiscard]] bool OnLanded(SlotOperation operation, const TransportEvent& event, Now now, ServerActions* actions);
  [[nodiscard]] bool OnReduced(SlotOperation operation, Now now, ServerActions* actions);
  [[nodiscard]] bool OnSent(SlotOperation operation, Now now, ServerActions* actions);

  // Gives up all that the group has gathered, and declines what it holds.
  static void AbandonAll(ServerGroup* group, ServerActions* actions);

  // When a small op last went on, by a push or a result, whatever large ones did since (core/small_op.h); 0: none did.
  uint64_t last_small_op_ns() const { return last_small_op_ns_; }
  void AddTo(ServerCounters* counters) const;

 private:
  // Puts a push into a slot. False: no slot is free now.
  bool TryAccept(uint32_t group_index, const ServerGroup::PendingPush& push, Now now, ServerActions* actions);
  // Index of the slot for the chunk of a push, which gathers it already or is free now; -1: there is none. In a group
  // that has moved, an older chunk takes the place of a younger one.
  int FindSlotFor(ServerGroup* group, const FrameHeader& push, bool* begins, ServerActions* actions);
  // The ranks that pushed are told to push again.
  void Preempt(ServerGroup* group, uint32_t slot, ServerActions* actions);
  void RetryPending(uint32_t group_index, Now now, ServerActions* actions);
  // Sends a chunk's result, which lies at the place of `source`, to the ranks that contributed. True: there was nobody
  // to send it to, and the slot came free.
  bool SendResult(SlotOperation operation, Rank source, Now now, ServerActions* actions);
  void FindReceivers(const ServerGroup& group, const ChunkSlot& slot);
  void NoteSmallOp(const OpRecord& record, Now now);
  // A slot that will be neither reduced nor replied.
  static void Abandon(ServerGroup* group, uint32_t slot, ServerActions* actions);
  // Of a slot that will not be reduced.
  static void ForgetInputs(const ServerGroup& group, uint32_t slot, ServerActions* actions);

  GroupTable& groups_;
  Refusals& refusals_;
  std::vector<Rank> receivers_;  // scratch of SendResult
  uint64_t last_small_op_ns_ = 0;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
  uint64_t contributions_landed_ = 0;
  uint64_t chunks_reduced_ = 0;
  uint64_t ops_begun_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_CHUNK_EXCHANGE_H_
