#include "cli/chunk_slices.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace shoal::cli {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// An instant of a result that was used where it lies: a slice needs a length.
constexpr int64_t kShortestNs = 1000;

std::string ChunkText(const ChunkName& chunk, bool with_group) {
  return absl::StrCat(with_group ? absl::StrCat("group ", chunk.group, " ") : "", "op ", chunk.op, " chunk ",
                      chunk.chunk);
}

std::string ChunkArguments(const ChunkName& chunk, uint64_t bytes) {
  return absl::StrCat("\"group\":\"", chunk.group, "\",\"epoch\":", chunk.epoch, ",\"bytes\":", bytes);
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
      if (std::optional<Slice> slice = SliceOf(each)) {
        tracks[absl::StrCat("pushed to ", peer_name(each.peer))].push_back(*std::move(slice));
      }
    }
    for (const Gathered& each : gathered_) {
      if (std::optional<Slice> slice = SliceOf(each)) tracks["chunks"].push_back(*std::move(slice));
    }
    return tracks;
  }

 private:
  // A rank's chunk.
  struct Pushed {
    ChunkName chunk;
    uint64_t rank = 0;
    uint64_t peer = 0;
    uint64_t bytes = 0;
    int64_t send_ns = kNever;
    int64_t sent_ns = kNever;
    int64_t offered_ns = kNever;
    int64_t landed_ns = kNever;
    bool was_accepted = false;
  };
  struct Moment {
    uint64_t rank = 0;
    int64_t begin_ns = kNever;
    int64_t end_ns = kNever;
  };
  // A server's.
  struct Gathered {
    ChunkName chunk;
    uint64_t bytes = 0;
    std::vector<Moment> contributions;
    std::vector<Moment> results;
  };
  enum class Of : uint8_t { kPush, kContribution, kResultSent, kResultHere };
  // What a token or an offer stands for: the moment of a chunk.
  struct Handle {
    Of of = Of::kPush;
    size_t chunk = 0;
    size_t moment = 0;
  };

  void Take(const FlightEntry& entry) {
    if (entry.what == "send") return TakeSend(entry);
    if (entry.what == "offered") return TakeOffered(entry);
    if (entry.what == "accept") {
      const auto offer = offers_.find(entry.offer);
      if (offer == offers_.end() || entry.failed) return;
      if (offer->second.of == Of::kResultHere) pushed_[offer->second.chunk].was_accepted = true;
      landing_[entry.token] = offer->second;
      return;
    }
    if (entry.what == "landed") {
      const auto landing = landing_.find(entry.token);
      if (landing == landing_.end()) return;
      Ended(landing->second, entry.at_ns);
      landing_.erase(landing);
      return;
    }
    if (entry.what == "sent") {
      const auto sending = sending_.find(entry.token);
      if (sending == sending_.end()) return;
      Ended(sending->second, entry.at_ns);
      sending_.erase(sending);
    }
  }

  void TakeSend(const FlightEntry& entry) {
    const std::optional<FrameName> name = NameOfFrame(entry);
    if (!name.has_value()) return;
    if (!name->is_result) {
      pushed_of_[name->chunk] = pushed_.size();
      sending_[entry.token] = {Of::kPush, pushed_.size(), 0};
      pushed_.push_back({.chunk = name->chunk,
                         .rank = name->rank,
                         .peer = entry.peer,
                         .bytes = entry.payload_bytes,
                         .send_ns = entry.at_ns});
      return;
    }
    Gathered& gathered = GatheredOf(*name, entry);
    sending_[entry.token] = {Of::kResultSent, gathered_of_[name->chunk], gathered.results.size()};
    gathered.results.push_back({name->rank, entry.at_ns, kNever});
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
    offers_[entry.offer] = {Of::kContribution, gathered_of_[name->chunk], gathered.contributions.size()};
    gathered.contributions.push_back({name->rank, entry.at_ns, kNever});
  }

  Gathered& GatheredOf(const FrameName& name, const FlightEntry& entry) {
    const auto [found, is_first] = gathered_of_.try_emplace(name.chunk, gathered_.size());
    if (is_first) gathered_.push_back({name.chunk, entry.payload_bytes, {}, {}});
    return gathered_[found->second];
  }

  void Ended(const Handle& handle, int64_t at_ns) {
    switch (handle.of) {
      case Of::kPush:
        pushed_[handle.chunk].sent_ns = at_ns;
        return;
      case Of::kResultHere:
        pushed_[handle.chunk].landed_ns = at_ns;
        return;
      case Of::kContribution:
        gathered_[handle.chunk].contributions[handle.moment].end_ns = at_ns;
        return;
      case Of::kResultSent:
        gathered_[handle.chunk].results[handle.moment].end_ns = at_ns;
        return;
    }
  }

  std::string Name(const ChunkName& chunk, bool is_done) const {
    return absl::StrCat(ChunkText(chunk, with_group_), is_done ? "" : " (not done)");
  }

  std::optional<Slice> SliceOf(const Pushed& pushed) const {
    const bool is_here = pushed.offered_ns != kNever && (!pushed.was_accepted || pushed.landed_ns != kNever);
    const int64_t result_end_ns = !is_here              ? 0
                                  : pushed.was_accepted ? pushed.landed_ns
                                                        : pushed.offered_ns + kShortestNs;
    Slice slice{.name = Name(pushed.chunk, is_here),
                .begin_ns = pushed.send_ns,
                .end_ns = std::max(result_end_ns, pushed.send_ns + kShortestNs),
                .arguments = ChunkArguments(pushed.chunk, pushed.bytes)};
    slice.departures.emplace_back(FrameName{pushed.chunk, pushed.rank, false}, pushed.send_ns);
    const int64_t last_ns = std::min(pushed.offered_ns, slice.end_ns);
    const int64_t out_ns = std::min(pushed.sent_ns, last_ns);
    slice.parts.push_back({.name = "push", .begin_ns = pushed.send_ns, .end_ns = out_ns});
    slice.parts.push_back({.name = "wait for the result", .begin_ns = out_ns, .end_ns = last_ns});
    if (pushed.offered_ns != kNever) {
      slice.parts.push_back({.name = "result", .begin_ns = last_ns, .end_ns = slice.end_ns});
      slice.arrivals.emplace_back(FrameName{pushed.chunk, pushed.rank, true}, pushed.offered_ns);
    }
    return slice;
  }

  std::optional<Slice> SliceOf(const Gathered& gathered) const {
    int64_t begin_ns = kNever;
    int64_t gathered_ns = first_ns_;
    std::vector<std::string> arrivals;
    for (const Moment& each : gathered.contributions) {
      begin_ns = std::min(begin_ns, each.begin_ns);
      gathered_ns = std::max(gathered_ns, each.end_ns == kNever ? each.begin_ns : each.end_ns);
    }
    int64_t reduced_ns = kNever;
    int64_t end_ns = first_ns_;
    bool is_done = !gathered.results.empty();
    for (const Moment& each : gathered.results) {
      reduced_ns = std::min(reduced_ns, each.begin_ns);
      is_done = is_done && each.end_ns != kNever;
      end_ns = std::max(end_ns, each.end_ns == kNever ? 0 : each.end_ns);
    }
    if (gathered.contributions.empty()) {
      // They came before the record begins.
      begin_ns = first_ns_;
      gathered_ns = first_ns_;
    }
    if (gathered.results.empty()) {
      reduced_ns = 0;
      end_ns = 0;
    }
    for (const Moment& each : gathered.contributions) {
      arrivals.push_back(absl::StrFormat("\"rank %d came after\":\"%.3f ms\"", each.rank,
                                         static_cast<double>(each.begin_ns - begin_ns) / 1e6));
    }
    Slice slice{.name = Name(gathered.chunk, is_done),
                .begin_ns = begin_ns,
                .end_ns = std::max(end_ns, begin_ns + kShortestNs),
                .arguments = absl::StrJoin(arrivals, ",")};
    slice.arguments =
        absl::StrCat(ChunkArguments(gathered.chunk, gathered.bytes), arrivals.empty() ? "" : ",", slice.arguments);
    gathered_ns = std::min(gathered_ns, reduced_ns);
    slice.parts.push_back({.name = "gather", .begin_ns = begin_ns, .end_ns = gathered_ns});
    slice.parts.push_back({.name = gathered.results.empty() ? "wait for other ranks" : "reduce",
                           .begin_ns = gathered_ns,
                           .end_ns = reduced_ns});
    slice.parts.push_back({.name = "results", .begin_ns = reduced_ns, .end_ns = slice.end_ns});
    for (const Moment& each : gathered.contributions) {
      slice.arrivals.emplace_back(FrameName{gathered.chunk, each.rank, false}, each.begin_ns);
    }
    for (const Moment& each : gathered.results) {
      slice.departures.emplace_back(FrameName{gathered.chunk, each.rank, true}, each.begin_ns);
    }
    return slice;
  }

  const bool with_group_;
  int64_t first_ns_ = 0;
  std::vector<Pushed> pushed_;
  std::vector<Gathered> gathered_;
  std::map<ChunkName, size_t> pushed_of_;  // the newest push
  std::map<ChunkName, size_t> gathered_of_;
  std::map<uint64_t, Handle> sending_;  // by token
  std::map<uint64_t, Handle> landing_;
  std::map<uint64_t, Handle> offers_;
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
