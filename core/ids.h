// Identifiers of the data and control plane as distinct types, so that a rank can't be passed where a chunk is meant.
//
// Values are plain numbers with no hidden state; all of them may be copied, compared, hashed and used from any thread.
#ifndef SHOAL_CORE_IDS_H_
#define SHOAL_CORE_IDS_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace shoal {

template <typename Tag, typename Number>
class StrongId {
 public:
  using NumberType = Number;

  constexpr StrongId() = default;
  explicit constexpr StrongId(Number value) : value_(value) {}

  constexpr Number value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

  template <typename Hash>
  friend Hash AbslHashValue(Hash state, StrongId id) {
    return Hash::combine(std::move(state), id.value_);
  }

 private:
  Number value_ = 0;
};

// A training run: the processes that joined under one name. Assigned by the scheduler, never reused.
using JobId = StrongId<struct JobIdTag, uint64_t>;
// A torch process group inside a job (its own ranks and its own op numbers). Unique over all jobs, never reused.
using GroupId = StrongId<struct GroupIdTag, uint64_t>;
// A rank inside a group: 0 .. group size - 1. Never a rank of the job, unless the group is the whole job.
using Rank = StrongId<struct RankTag, uint32_t>;
using JobRank = StrongId<struct JobRankTag, uint32_t>;  // of a worker in its job; Rank is that in a group
// The position of a collective call in its group: 1, 2, 3, ... 0 means "none yet".
using OpNumber = StrongId<struct OpNumberTag, uint64_t>;
// The position of a chunk in its bucket: 0, 1, 2, ...
using ChunkNumber = StrongId<struct ChunkNumberTag, uint32_t>;
// A reduction server process, over all of its incarnations with one name.
using ServerId = StrongId<struct ServerIdTag, uint64_t>;
// The version of the shard map. Grows by one with each published map.
using Epoch = StrongId<struct EpochTag, uint64_t>;
// One life of a process: drawn at random at its start, so that a restarted process is never taken for the old one.
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;

}  // namespace shoal

#endif  // SHOAL_CORE_IDS_H_
