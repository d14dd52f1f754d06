// How long, at this server, the contributions of each rank of a group kept others waiting, and how much of that because
// the rank began late. From arrivals on one clock; the scheduler finds the cause (scheduler/insight/slow_ranks.h,
// docs/adr/0021).
//
// A chunk waits for a rank from the moment when half of the ranks have landed it until the rank has; a rank waits in
// one place at a time, so overlapping waits for it count once. A rank begins an op late from the moment when half of
// the ranks have offered a chunk of it until it offers one, but not while contributions of it to earlier ops still
// land: those are its link's.
//
// A wait costs nothing while the ranks that wait have chunks on their way all the same: where ops are queued and fill
// the links, one rank is always behind the others, and all go as fast as their links. What a rank has on its way is
// what it has in flight, which it says, less what has landed and has no result. Of that the server sees its own share:
// the chunks that half of the ranks have landed. One chunk on its way there and one on its way back keep a link busy.
// How much of a wait counts is told by the whole time since the rank's contribution before: a wait alone is the time in
// which most has landed.
//
// How fast a rank's link is shows where nothing else holds the rank up: an op of several chunks that begins when the
// rank waits for no result. Its first chunks to this server come as far apart as the link makes them then, as long as
// the rank says that it pushed all chunks up to each of them in one go. A later one waited for the credit that
// comes with a result, and so for the slowest rank. All of the first ones count, because small chunks at the very
// beginning pass at once: a link that was idle, or a switch, lets a burst through. Queued ops do not begin that way:
// what was known before counts on, and the few of a window that has less than kFewestOps of them are counted with
// those before. If most ops of a window begin that way, and their first chunks come far closer together than the chunks
// of an op do all in all, then they were such a burst, which says nothing of the link that the rank is waited for.
//
// It counts in windows that are as long as kShortestWindowNs, and as kFewestOps ops, and shows the last whole one: the
// shares of a window need no history. Pure; one thread; no allocation after construction.
#ifndef SHOAL_SERVER_MACHINE_LATENESS_BOOK_H_
#define SHOAL_SERVER_MACHINE_LATENESS_BOOK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/roster.h"

namespace shoal {

// What a group waited for a rank in a window. Times in units of the window's length would be shares.
struct LateRank {
  Rank rank;
  uint64_t waited_ns = 0;      // for its contributions
  uint64_t began_late_ns = 0;  // of that, roughly: before it offered anything of the op
  uint32_t late_ops = 0;       // in which it was waited for
  uint64_t spacing_ns = 0;     // between the chunks with which it begins an op, in the mean; 0: tells nothing

  friend bool operator==(const LateRank&, const LateRank&) = default;
};

// What a push tells of its rank.
struct PushedChunk {
  OpNumber op;
  ChunkNumber chunk;
  Rank rank;
  bool in_one_go = false;  // with the first chunk of the op, wherever that went
  uint32_t in_flight = 0;  // chunks of the rank, to all servers; 0: it has no more to push to this one, or did not say
};

inline constexpr size_t kMaxLateRanksListed = 8;

struct LatenessWindow {
  uint64_t number = 0;  // 1, 2, ...; 0: none is over yet
  uint64_t end_ns = 0;  // on the monotonic clock
  uint64_t length_ns = 0;
  uint32_t ops = 0;
  uint64_t median_spacing_ns = 0;  // of all ranks' spacings; 0: not known
  // Those that were waited for the longest, the longest first. Left out are ranks that were waited for less than
  // kLeastShare of the window without the op that waited the longest, as after a checkpoint, and those that do not
  // stand out: where all are late in turns, nobody is slow, and what is waited for a rank while another is waited for
  // many times as long costs nothing.
  std::vector<LateRank> late_ranks;
};

class LatenessBook {
 public:
  static constexpr uint64_t kShortestWindowNs = kNsPerS;
  static constexpr uint32_t kFewestOps = 5;
  static constexpr double kLeastShare = 0.02;
  // A rank stands out if it was waited for so many times as long as the median rank.
  static constexpr uint64_t kStandsOut = 3;
  // A rank does not if another was waited for so many times as long: chance in how processes are woken is enough to be
  // always the last of those in time, and then half of the ranks have landed before it and the slow rank has not.
  static constexpr uint64_t kHidden = 5;
  // A wait for a rank that is shorter makes no op late.
  static constexpr uint64_t kShortestWaitNs = 100'000;
  // So many chunks on their way keep a rank's link busy.
  static constexpr double kBusyChunks = 2;
  // First chunks that come so many times closer together than all of an op's do were a burst.
  static constexpr uint64_t kBurst = 12;

  LatenessBook(uint32_t group_size, uint32_t slot_count);

  // A rank offers a contribution that was not refused. True: it is its first one to that op here.
  bool OnOffered(const PushedChunk& pushed, Now now);
  // After that: the rank waits for no result of this server, and the op has several chunks.
  void OnFreshBeginning(ChunkNumber chunk, Rank rank) {
    RankState& state = ranks_[rank.value()];
    state.is_fresh = true;
    state.fresh_chunk = chunk;
    state.fresh_chunk_lands = true;
  }
  // A slot begins to gather a chunk of an op that has so many.
  void OnGathering(uint32_t slot, OpNumber op, ChunkNumber chunk, uint32_t chunks_of_op);
  // The slot's chunk has its result, or was given up: it waits for nobody any more.
  void OnGathered(uint32_t slot, Now now);
  // Something of the rank begins to land; that has ended, also in vain.
  void OnLanding(Rank rank) { ++ranks_[rank.value()].landing; }
  // TransportEvent::came_with_last as well.
  void OnLandingEnded(Rank rank, bool came_with_last, Now now);
  // After OnLandingEnded: it was a contribution to the slot's chunk, of `op`, and the `landed_count`th there.
  void OnContribution(uint32_t slot, OpNumber op, Rank rank, uint32_t landed_count, Now now);
  // The group starts an epoch: nothing that was seen of ops under way counts.
  void Restart(const Roster& roster);

  const LatenessWindow& last_window() const { return last_; }

 private:
  // The time, and what UseOfLinks() adds up to until then, in nanoseconds of full use.
  struct Moment {
    uint64_t ns = 0;
    double used_ns = 0;
  };
  struct RankState {
    bool in_epoch = true;
    uint32_t in_flight = 0;  // as its newest push says
    Moment contributed;      // its newest contribution; 0: none
    OpNumber newest_begun;
    OpNumber newest_late;
    uint32_t landing = 0;
    uint64_t landed_ns = 0;        // when the newest landing ended
    uint64_t waited_until_ns = 0;  // what is counted in `window` already
    uint64_t began_until_ns = 0;
    // Of the newest op, as long as its next chunk can tell a spacing: its newest chunk, and when that had landed. (Some
    // transports offer a chunk when its first bytes are there, and others when all of it is.)
    bool is_fresh = false;
    ChunkNumber fresh_chunk;
    bool fresh_chunk_lands = false;  // it was offered, and has not landed
    uint64_t fresh_landed_ns = 0;    // 0: none has
    uint32_t fresh_spacings = 0;
    // Of the window.
    uint64_t spacing_sum_ns = 0;
    uint32_t spacings = 0;
    uint32_t spacings_of_reading = 0;  // of chunks that came together: only how fast this server read them
    uint32_t spaced_ops = 0;           // that they are of
    uint64_t spacing_ns = 0;  // in the mean, in which ops of earlier windows count as kFewestOps at most; 0: not known
    uint32_t ops_of_spacing = 0;    // that it is the mean of
    bool spacing_is_known = false;  // else most of it is of reading: less than the link's
    OpNumber contributed_op;        // of its newest contribution
    // How far apart contributions to the same op came that followed each other, of the first ones of the window.
    std::vector<uint64_t> apart_ns;
    OpNumber waited_op;  // the newest op that waited for it
    uint64_t op_waited_ns = 0;
    uint64_t longest_op_ns = 0;  // in the window, for one op
    LateRank window;

    uint64_t WithoutLongestOpNs() const { return window.waited_ns - longest_op_ns; }
    // At a window's end.
    void CountSpacings();
    // By the median, as waits for other ranks are the longest.
    bool SpacingIsOfBurst();
  };
  struct Beginning {
    OpNumber op;
    uint32_t ranks = 0;
    uint64_t half_ns = 0;
  };
  static constexpr size_t kOpsRemembered = 64;
  static constexpr size_t kMostApart = 64;

  // How busy the links of the ranks are that others wait with: 1, or more, is all the time.
  double UseOfLinks() const;
  // Adds the use up until now, before it changes.
  void AddUse(Now now);
  // Of the time since the rank's contribution before, the part in which the links were not used.
  double IdleShare(const RankState& state) const;

  uint32_t Half() const { return (ranks_in_epoch_ + 1) / 2; }
  void CloseWindowIfOver(Now now);
  uint64_t MedianSpacingNs();
  uint64_t MedianWaitedNs();

  std::vector<RankState> ranks_;
  uint32_t ranks_in_epoch_;
  std::vector<uint64_t> half_landed_ns_;  // by slot; 0: not yet, or it waits for nobody any more
  uint32_t half_landed_ = 0;              // of those, chunks that wait
  uint32_t in_flight_ = 0;                // of the rank that was the last to make it half
  Moment use_;
  // The newest chunk that was gathered here, and how many have been since the first one, here and at all servers.
  OpNumber gathered_op_;
  ChunkNumber gathered_chunk_;
  uint32_t chunks_of_gathered_op_ = 0;
  uint64_t gathered_since_ = 0;
  uint64_t gathered_everywhere_ = 0;
  std::vector<uint64_t> values_;  // scratch
  std::array<Beginning, kOpsRemembered> beginnings_{};
  uint64_t window_start_ns_ = 0;  // 0: no op yet
  uint32_t window_ops_ = 0;
  LatenessWindow last_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_LATENESS_BOOK_H_
