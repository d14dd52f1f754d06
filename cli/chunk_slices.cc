#include "cli/chunk_slices.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal::cli {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// A slice needs a length.
constexpr int64_t kShortestNs = 1000;

std::string OpText(const ChunkName& chunk, bool with_group) {
  return absl::StrCat(with_group ? absl::StrCat("group ", chunk.group, " ") : "", "op ", chunk.op);
}

std::string ChunkText(const ChunkName& chunk, bool with_group) {
  return absl::StrCat(OpText(chunk, with_group), " chunk ", chunk.chunk);
}

Json ChunkArguments(const ChunkName& chunk, uint64_t bytes) {
  return {{"group", absl::StrCat(chunk.group)}, {"epoch", chunk.epoch}, {"bytes", bytes}};
}

// The parts that came to their end one after the other, and the rest: of an op that was done, what it collected.
Slice SliceOfNodeOp(const FlightEntry& entry, bool with_group) {
  const int64_t begin_ns = entry.at_ns - static_cast<int64_t>(entry.length_ns);
  Slice slice{
      .name = absl::StrCat(OpText(entry.chunk, with_group), " within the node", entry.failed ? " (not done)" : ""),
      .begin_ns = begin_ns,
      .end_ns = std::max(entry.at_ns, begin_ns + kShortestNs),
      .arguments = {{"group", absl::StrCat(entry.chunk.group)}, {"bytes", entry.payload_bytes}}};
  int64_t done_ns = begin_ns;
  const auto add = [&](const char* name, uint64_t length_ns) {
    const int64_t until_ns = std::min(done_ns + static_cast<int64_t>(length_ns), slice.end_ns);
    if (length_ns > 0) slice.parts.push_back({.name = name, .begin_ns = done_ns, .end_ns = until_ns});
    done_ns = until_ns;
  };
  add("contribute", entry.contribute_ns);
  add("reduce", entry.reduce_ns);
  add("publish", entry.publish_ns);
  add(entry.failed ? "wait" : "collect", static_cast<uint64_t>(slice.end_ns - done_ns));
  return slice;
}

// Times of chunks as a member saw them. Times that were not seen are kNever.
class ChunkReader {
 public:
  explicit ChunkReader(const FlightRecord& record, bool with_group) : with_group_(with_group) {
    for (const FlightEntry& entry : record.entries) {
      Take(entry);
      first_ns_ = std::min(first_ns_, entry.at_ns);
    }
  }

  Tracks MakeTracks(const std::function<std::string(uint64_t peer)>& peer_name) const {
    Tracks tracks;
    for (const Pushed& each : pushed_) {
      tracks[absl::StrCat("pushed to ", peer_name(each.peer))].push_back(SliceOf(each));
    }
    for (const Gathered& each : gathered_) {
      if (std::optional<Slice> slice = SliceOf(each)) tracks["chunks"].push_back(*std::move(slice));
    }
    if (!node_ops_.empty()) tracks["within the node"] = node_ops_;
    return tracks;
  }

 private:
  // A rank's chunk.
  struct Pushed {
    ChunkName chunk;
    uint64_t rank = 0;
    uint64_t peer = 0;
    uint64_t bytes = 0;
    bool is_hand_over = false;  // no result comes of it
    int64_t send_ns = kNever;
    int64_t sent_ns = kNever;
    int64_t offered_ns = kNever;
    int64_t landed_ns = kNever;
    int64_t over_ns = kNever;  // what it ended with is in `why_over`
    std::string why_over;
  };
  struct Moment {
    uint64_t rank = 0;
    int64_t begin_ns = kNever;
    int64_t end_ns = kNever;
    bool counts = true;  // it was not declined, and did not fail
  };
  // A server's.
  struct Gathered {
    ChunkName chunk;
    uint64_t bytes = 0;
    std::vector<Moment> contributions;  // one of each rank
    std::vector<Moment> results;
  };
  enum class Of : uint8_t { kPush, kContribution, kResultSent, kResultHere };
  // What a token or an offer stands for: the moment of a chunk.
  struct Handle {
    Of of = Of::kPush;
    size_t chunk = 0;
    size_t moment = 0;
  };
  using Handles = std::map<uint64_t, Handle>;

  void Take(const FlightEntry& entry) {
    if (entry.what == "send") return TakeSend(entry);
    if (entry.what == "offered") return TakeOffered(entry);
    if (entry.what == "accept" || entry.what == "decline") return TakeAnswer(entry);
    if (entry.what == "landed") return TakeEnd(entry, &landing_);
    if (entry.what == "sent") return TakeEnd(entry, &sending_);
    if (entry.what == kWithinNode) node_ops_.push_back(SliceOfNodeOp(entry, with_group_));
  }

  void TakeSend(const FlightEntry& entry) {
    const std::optional<FrameName> name = NameOfFrame(entry);
    if (!name.has_value()) return;
    if (name->is_result) {
      Gathered& gathered = GatheredOf(*name, entry);
      sending_[entry.token] = {Of::kResultSent, gathered_of_[name->chunk], gathered.results.size()};
      gathered.results.push_back({name->rank, entry.at_ns, kNever});
      return;
    }
    // After a move to another epoch, or when the server needed the slot, a chunk is pushed again.
    const auto [newest, is_first] = newest_push_.try_emplace({name->chunk.group, name->chunk.op, name->chunk.chunk});
    if (!is_first) EndPush(&pushed_[newest->second], entry.at_ns, "pushed again");
    newest->second = pushed_.size();
    pushed_of_[name->chunk] = pushed_.size();
    sending_[entry.token] = {Of::kPush, pushed_.size(), 0};
    pushed_.push_back({.chunk = name->chunk,
                       .rank = name->rank,
                       .peer = entry.peer,
                       .bytes = entry.payload_bytes,
                       .is_hand_over = entry.is_hand_over,
                       .send_ns = entry.at_ns});
  }

  void TakeOffered(const FlightEntry& entry) {
    const std::optional<FrameName> name = NameOfFrame(entry);
    if (!name.has_value()) return;
    if (name->is_result) {
      const auto pushed = pushed_of_.find(name->chunk);
      if (pushed == pushed_of_.end()) return;
      pushed_[pushed->second].offered_ns = entry.at_ns;
      offers_[entry.offer] = {Of::kResultHere, pushed->second, 0};
      return;
    }
    Gathered& gathered = GatheredOf(*name, entry);
    const auto same_rank = std::ranges::find(gathered.contributions, name->rank, &Moment::rank);
    const auto moment = static_cast<size_t>(same_rank - gathered.contributions.begin());
    if (same_rank == gathered.contributions.end()) gathered.contributions.emplace_back();
    gathered.contributions[moment] = {name->rank, entry.at_ns, kNever};
    offers_[entry.offer] = {Of::kContribution, gathered_of_[name->chunk], moment};
  }

  void TakeAnswer(const FlightEntry& entry) {
    const auto offer = offers_.find(entry.offer);
    if (offer == offers_.end()) return;
    if (entry.what == "accept" && !entry.failed) {
      landing_[entry.token] = offer->second;
    } else if (offer->second.of == Of::kResultHere) {
      pushed_[offer->second.chunk].offered_ns = kNever;
    } else {
      gathered_[offer->second.chunk].contributions[offer->second.moment].counts = false;
    }
    offers_.erase(offer);
  }

  // Whatever had begun ends, also in vain.
  void TakeEnd(const FlightEntry& entry, Handles* handles) {
    const auto found = handles->find(entry.token);
    if (found == handles->end()) return;
    const Handle handle = found->second;
    handles->erase(found);
    if (handle.of == Of::kPush || handle.of == Of::kResultHere) {
      Pushed& pushed = pushed_[handle.chunk];
      if (entry.failed) return EndPush(&pushed, entry.at_ns, "failed");
      (handle.of == Of::kPush ? pushed.sent_ns : pushed.landed_ns) = entry.at_ns;
      return;
    }
    Gathered& gathered = gathered_[handle.chunk];
    Moment& moment = (handle.of == Of::kContribution ? gathered.contributions : gathered.results)[handle.moment];
    moment.end_ns = entry.at_ns;
    if (entry.failed) moment.counts = false;
  }

  static void EndPush(Pushed* pushed, int64_t at_ns, const char* why) {
    if (pushed->landed_ns != kNever || pushed->over_ns != kNever) return;
    if (pushed->is_hand_over && pushed->sent_ns != kNever) return;
    pushed->over_ns = at_ns;
    pushed->why_over = why;
  }

  Gathered& GatheredOf(const FrameName& name, const FlightEntry& entry) {
    const auto [found, is_first] = gathered_of_.try_emplace(name.chunk, gathered_.size());
    if (is_first) gathered_.push_back({name.chunk, entry.payload_bytes, {}, {}});
    return gathered_[found->second];
  }

  // `remark`: how it ended, if not well.
  std::string Name(const ChunkName& chunk, const std::string& remark) const {
    return absl::StrCat(ChunkText(chunk, with_group_), remark.empty() ? "" : absl::StrCat(" (", remark, ")"));
  }

  Slice SliceOf(const Pushed& pushed) const {
    const int64_t done_ns = pushed.is_hand_over ? pushed.sent_ns : pushed.landed_ns;
    const int64_t end_ns = std::min({done_ns, pushed.over_ns, int64_t{0}});
    const std::string remark = done_ns == kNever && pushed.over_ns == kNever ? "not done"
                               : pushed.is_hand_over && done_ns != kNever    ? "a result handed over"
                                                                             : pushed.why_over;
    Slice slice{.name = Name(pushed.chunk, remark),
                .begin_ns = pushed.send_ns,
                .end_ns = std::max(end_ns, pushed.send_ns + kShortestNs),
                .arguments = ChunkArguments(pushed.chunk, pushed.bytes)};
    slice.departures.emplace_back(FrameName{pushed.chunk, pushed.rank, false}, pushed.send_ns);
    const int64_t offered_ns = std::clamp(pushed.offered_ns, slice.begin_ns, slice.end_ns);
    const int64_t sent_ns = std::clamp(pushed.sent_ns, slice.begin_ns, offered_ns);
    slice.parts.push_back({.name = "push", .begin_ns = pushed.send_ns, .end_ns = sent_ns});
    slice.parts.push_back({.name = "wait for the result", .begin_ns = sent_ns, .end_ns = offered_ns});
    slice.parts.push_back({.name = "result", .begin_ns = offered_ns, .end_ns = slice.end_ns});
    if (pushed.offered_ns == offered_ns) {
      slice.arrivals.emplace_back(FrameName{pushed.chunk, pushed.rank, true}, offered_ns);
    }
    return slice;
  }

  // nullopt: everything was declined.
  std::optional<Slice> SliceOf(const Gathered& gathered) const {
    // Where contributions came before the record begins, so does the chunk.
    int64_t begin_ns = kNever;
    int64_t gathered_ns = first_ns_;
    for (const Moment& each : gathered.contributions) {
      if (!each.counts) continue;
      begin_ns = std::min(begin_ns, each.begin_ns);
      gathered_ns = std::max(gathered_ns, each.end_ns == kNever ? each.begin_ns : each.end_ns);
    }
    int64_t reduced_ns = kNever;
    int64_t end_ns = first_ns_;
    std::string remark;
    for (const Moment& each : gathered.results) {
      reduced_ns = std::min(reduced_ns, each.begin_ns);
      end_ns = std::max(end_ns, each.end_ns == kNever ? 0 : each.end_ns);
      if (each.end_ns == kNever) remark = "not done";
      if (!each.counts) remark = "failed";
    }
    const bool has_results = !gathered.results.empty();
    if (!has_results) {
      if (begin_ns == kNever) return std::nullopt;
      remark = "not done";
      reduced_ns = 0;
      end_ns = 0;
    } else if (begin_ns == kNever) {
      begin_ns = first_ns_;
    }
    begin_ns = std::min(begin_ns, reduced_ns);
    gathered_ns = std::clamp(gathered_ns, begin_ns, reduced_ns);
    Slice slice{.name = Name(gathered.chunk, remark),
                .begin_ns = begin_ns,
                .end_ns = std::max({end_ns, reduced_ns, begin_ns + kShortestNs}),
                .arguments = ChunkArguments(gathered.chunk, gathered.bytes)};
    for (const Moment& each : gathered.contributions) {
      if (!each.counts) continue;
      slice.arguments[absl::StrCat("rank ", each.rank, " came after")] =
          absl::StrFormat("%.3f ms", static_cast<double>(each.begin_ns - begin_ns) / 1e6);
      slice.arrivals.emplace_back(FrameName{gathered.chunk, each.rank, false}, each.begin_ns);
    }
    for (const Moment& each : gathered.results) {
      slice.departures.emplace_back(FrameName{gathered.chunk, each.rank, true}, each.begin_ns);
    }
    slice.parts.push_back({.name = "gather", .begin_ns = begin_ns, .end_ns = gathered_ns});
    slice.parts.push_back(
        {.name = has_results ? "reduce" : "wait for other ranks", .begin_ns = gathered_ns, .end_ns = reduced_ns});
    slice.parts.push_back({.name = "results", .begin_ns = reduced_ns, .end_ns = slice.end_ns});
    return slice;
  }

  const bool with_group_;
  int64_t first_ns_ = 0;
  std::vector<Pushed> pushed_;
  std::vector<Gathered> gathered_;
  std::vector<Slice> node_ops_;
  std::map<ChunkName, size_t> pushed_of_;                                   // the newest push in the epoch
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, size_t> newest_push_;  // of group, op and chunk, in any epoch
  std::map<ChunkName, size_t> gathered_of_;
  Handles sending_;  // by token
  Handles landing_;
  Handles offers_;
};

}  // namespace

std::optional<FrameName> NameOfFrame(const FlightEntry& entry) {
  if (entry.failed || (entry.frame != "push" && entry.frame != "result")) return std::nullopt;
  return FrameName{entry.chunk, entry.rank, entry.frame == "result"};
}

Tracks SliceChunks(const FlightRecord& record, bool with_group,
                   const std::function<std::string(uint64_t peer)>& peer_name) {
  return ChunkReader(record, with_group).MakeTracks(peer_name);
}

}  // namespace shoal::cli
