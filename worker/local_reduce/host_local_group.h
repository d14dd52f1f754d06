// One group of HostLocalReduce: its ops and how far they are (op_rounds.h, node_memory.h).
//
// All rounds of all ops have one numbering, which is the same on all ranks. Four stages walk through them, each at its
// own pace, and the counters in shared memory say how far:
//   contribute  copies what the others reduce into the own slot, when all have reduced what was in it
//   reduce      when all have contributed: first compares what they say of the op
//   publish     puts the own result into the own slot, when all have collected what was in it. Without other nodes it
//               is one with reduce; with them it follows PublishPart
//   collect     copies the results of the others out, when all have published
// One thread, that of the worker's loop.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_GROUP_H_
#define SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/partial_op.h"
#include "net/flight_recorder.h"
#include "reduce/reduce.h"
#include "worker/local_reduce/local_reduce.h"
#include "worker/local_reduce/node_memory.h"
#include "worker/local_reduce/node_peers.h"
#include "worker/local_reduce/op_rounds.h"

namespace shoal {

class HostLocalGroup {
 public:
  using Events = std::vector<LocalReduceEvent>;

  // As NodePeers. `recorder` as in host_local_reduce.h.
  HostLocalGroup(const LocalGroup& group, int epoll, uint64_t first_key, FlightRecorder* recorder);

  // As in the port. What happens is added to `events`.
  void Open(Events* events);
  void Start(const LocalOp& op, Events* events);
  void PublishPart(uint64_t ticket, ElementRange elements, uint32_t contributors);
  void Fail(const absl::Status& why, Events* events);
  void Close();
  std::vector<LocalRank> Missing() const;

  void OnReadable(uint64_t key, Events* events);
  // Moves the ops along, a bounded way.
  void Advance(Events* events);
  bool CanAdvance();
  // Before sleeping, and after it.
  void FallAsleep();
  void WakeUp();

 private:
  struct Op {
    LocalOp op;
    OpRounds rounds;
    ReduceSpec spec;
    uint64_t number = 0;                                     // 0, 1, 2, ...
    uint64_t first_round = 0;                                // in the group's numbering
    uint64_t published_end = 0;                              // the end of what PublishPart was told of the own part
    std::vector<ContributedRange> published;                 // where nodes are counted: what it was told
    std::vector<std::vector<ContributedRange>> contributed;  // likewise, by rank: of the others' parts, as they come
    uint64_t begun_ns = 0;                                   // with a recorder only
    std::array<uint64_t, kNodeCounters> ended_ns{};          // likewise, of stages; 0: not yet

    uint64_t end_round() const { return first_round + rounds.count; }
    std::byte* Tensor(uint64_t element) const { return op.data + op.codec.TensorBytes(element); }
  };
  // How far a stage is.
  struct Stage {
    uint64_t round = 0;
    uint64_t op = 0;  // its number
  };

  uint32_t self() const { return peers_.self(); }
  uint32_t size() const { return peers_.group().size; }
  // Of a group that has met.
  LocalGroupMet Met() const;
  // The op whose turn it is; nullptr: there is none yet.
  Op* OpOf(const Stage& stage);
  // The own counter, after a round of the stage.
  void Finish(Stage* stage, Op* op, NodeCounter counter);
  // Whether the others' counter has reached `rounds`.
  bool HaveReached(NodeCounter counter, uint64_t rounds);
  bool IsSlotFree(NodeCounter reader, uint64_t round);

  bool CountsNodes(const Op& op) const { return peers_.group().counts_nodes && op.op.other_nodes; }

  bool CanContribute();
  bool CanReduce();
  bool CanPublish();
  bool CanCollect();
  // Each returns how many bytes it has moved.
  uint64_t Contribute();
  uint64_t Reduce(Events* events);
  uint64_t Publish();
  uint64_t Collect(Events* events);

  // Where nodes are counted: of the own piece of a round into the own slot, and of another rank's out of its slot.
  void PublishRuns(const Op& op, uint64_t round, ElementRange piece);
  void CollectRuns(uint32_t rank, uint64_t round, ElementRange piece, Op* op);

  // Of a whole op, in the order of its elements.
  std::vector<ContributedRange> TakeContributed(Op* op);

  OpRecord RecordOf(const Op& op) const;
  // InvalidArgument: two ranks say different things of the op.
  absl::Status CompareRecords(const Op& op) const;
  // The time, for records. The clock is read anew only where some time has passed since: reading it takes as long as a
  // stage of a small op.
  uint64_t TimeNs();
  void Record(const Op& op, uint64_t ended_ns, bool failed);
  void ReduceElements(const Op& op, uint64_t round, ElementRange elements, std::byte* result);
  // Between the tensor and a place, of the own memory or another's.
  static void CopyIn(const Op& op, ElementRange elements, std::byte* place);
  static void CopyOut(const Op& op, ElementRange elements, const std::byte* place);
  void EndIfFailed(Events* events);
  void FailIfNeededRankHasLeft(Events* events);
  void End(const LocalFailure& failure, Events* events);

  // Copying or summing so much takes a few microseconds.
  static constexpr uint64_t kBytesOfSomeTime = 16 << 10;

  NodePeers peers_;
  FlightRecorder* const recorder_;  // null: there is none
  uint64_t time_ns_ = 0;
  bool time_is_old_ = true;
  const NodePlaces places_;
  bool has_met_ = false;                 // the caller knows
  std::optional<LocalFailure> failure_;  // likewise
  std::deque<Op> ops_;                   // open ones, oldest first
  uint64_t next_op_ = 0;
  uint64_t next_round_ = 0;  // of the next op to be started
  Stage contribute_;
  Stage reduce_;
  Stage publish_;
  Stage collect_;
  std::vector<std::array<uint64_t, kNodeCounters>> seen_;  // of the others' counters
  std::vector<const std::byte*> inputs_;
  alignas(64) std::array<std::byte, 16384> encoded_sum_;  // on its way to a tensor
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_GROUP_H_
