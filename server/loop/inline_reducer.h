// Sums on the loop's own thread, as many bytes in a round of the loop as the loop allows, so that large tensors do not
// keep other groups' messages waiting.
//
// Groups take turns of kTurnBytes; within a group the oldest job is first. The next turn is that of the group of which
// the fewest bytes were read, where a group that had nothing to do counts at least as many as the one whose turn came
// last (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). So a small sum goes before the next turn
// of a large one, and no group waits for more than two turns of each other group. All of it is counted in bytes and
// never in time, so that a run can be repeated. Turns do not change a bit of a sum (I1): its elements are summed
// independently. No allocation once as many jobs of as many groups as ever have been open at a time.
#ifndef SHOAL_SERVER_LOOP_INLINE_REDUCER_H_
#define SHOAL_SERVER_LOOP_INLINE_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/loop/reducer.h"

namespace shoal {

class InlineReducer : public Reducer {
 public:
  // Of contributions that are read in a turn while several groups wait. Chunks are summed fastest in one piece.
  static constexpr uint64_t kTurnBytes = 128 << 10;

  void Start(const ReduceJob& job) override;
  void Work(uint64_t* budget_bytes) override;
  bool HasWork() const override { return !waiting_.empty(); }
  std::span<const uint64_t> Poll() override;

 private:
  // The jobs of a group that are not done, oldest first.
  struct Queue {
    std::vector<ReduceJob> jobs;
    size_t first = 0;            // those before it are done
    uint32_t done_elements = 0;  // of the first
    uint64_t read_bytes = 0;     // of the group, or what it counts instead
  };
  // A group with jobs that are not done, until its turn.
  struct Waiting {
    uint64_t read_bytes = 0;
    uint64_t number = 0;  // of all that have waited; among equals the last to come is first
    uint32_t group = 0;
  };

  static bool TurnComesLater(const Waiting& a, const Waiting& b);
  void Wait(uint32_t group);
  // Up to `bytes` of the group's jobs; returns how many bytes of contributions it read.
  uint64_t TakeTurn(Queue* queue, uint64_t bytes);
  // The same for the oldest job alone.
  uint64_t SumPart(Queue* queue, uint64_t bytes);

  std::vector<Queue> queues_;         // by group
  std::vector<Waiting> waiting_;      // a heap
  uint64_t turn_began_at_bytes_ = 0;  // read_bytes of the group whose turn came last, when it came; after, if alone
  uint64_t waited_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<uint64_t> done_;
  std::vector<uint64_t> polled_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_INLINE_REDUCER_H_
