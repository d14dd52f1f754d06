#include "cli/timeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/chunk_slices.h"
#include "cli/clock_alignment.h"
#include "program/json_text.h"

namespace shoal::cli {
namespace {

// A frame's end at a member: when it was sent, or arrived, and the slice that an arrow begins or ends in.
struct FrameEnd {
  size_t member = 0;
  uint64_t peer = 0;
  int64_t at_ns = 0;
};

// Frames by name, of which each end was seen once: after a push was refused and repeated it is not known which is
// which.
struct FrameEnds {
  std::map<FrameName, FrameEnd> sent;
  std::map<FrameName, FrameEnd> arrived;

  explicit FrameEnds(const std::vector<FlightRecord>& records) {
    std::set<FrameName> repeated;
    for (size_t member = 0; member < records.size(); ++member) {
      for (const FlightEntry& entry : records[member].entries) {
        const std::optional<FrameName> name = NameOfFrame(entry);
        if (!name.has_value() || (entry.what != "send" && entry.what != "offered")) continue;
        auto& ends = entry.what == "send" ? sent : arrived;
        if (!ends.try_emplace(*name, FrameEnd{member, entry.peer, entry.at_ns}).second) repeated.insert(*name);
      }
    }
    for (const FrameName& name : repeated) {
      sent.erase(name);
      arrived.erase(name);
    }
    std::erase_if(sent, [this](const auto& each) { return !arrived.contains(each.first); });
    std::erase_if(arrived, [this](const auto& each) { return !sent.contains(each.first); });
  }

  std::vector<SeenFrame> Seen() const {
    std::vector<SeenFrame> frames;
    frames.reserve(sent.size());
    for (const auto& [name, from] : sent) {
      const FrameEnd& to = arrived.at(name);
      frames.push_back({from.member, to.member, from.at_ns, to.at_ns});
    }
    return frames;
  }

  // Which member each peer of a member is.
  std::map<std::pair<size_t, uint64_t>, size_t> MembersOfPeers() const {
    std::map<std::pair<size_t, uint64_t>, size_t> members;
    for (const auto& [name, from] : sent) {
      const FrameEnd& to = arrived.at(name);
      members[{from.member, from.peer}] = to.member;
      members[{to.member, to.peer}] = from.member;
    }
    return members;
  }
};

// Writes events, each once.
class TraceWriter {
 public:
  explicit TraceWriter(const FrameEnds& frames) {
    for (const auto& [name, from] : frames.sent) arrows_.emplace(name, arrows_.size() + 1);
  }

  void NameProcess(size_t process, const std::string& name, const std::string& label) {
    Meta(process, 0, "process_name", {{"name", name}});
    Meta(process, 0, "process_labels", {{"labels", label}});
    Meta(process, 0, "process_sort_index", {{"sort_index", process}});
  }
  void NameTrack(size_t process, size_t track, const std::string& name) {
    Meta(process, track, "thread_name", {{"name", name}});
    Meta(process, track, "thread_sort_index", {{"sort_index", track}});
  }
  void Mark(size_t process, size_t track, const std::string& name, int64_t at_ns, const Json& arguments,
            const char* scope) {
    events_.push_back(MakeEvent(process, track, "i", name, at_ns, {{"s", scope}, {"args", arguments}}));
  }
  // `offset_ns`: of the member's clock, to be added.
  void Draw(size_t process, size_t track, const Slice& slice, int64_t offset_ns) {
    const double length_us = static_cast<double>(slice.end_ns - slice.begin_ns) / 1e3;
    events_.push_back(MakeEvent(process, track, "X", slice.name, slice.begin_ns + offset_ns,
                                {{"dur", length_us}, {"args", slice.arguments}}));
    for (const Slice& part : slice.parts) {
      if (part.end_ns > part.begin_ns) Draw(process, track, part, offset_ns);
    }
    for (const auto& [name, at_ns] : slice.departures) AddArrowEnd(process, track, "s", name, at_ns + offset_ns, {});
    for (const auto& [name, at_ns] : slice.arrivals) {
      AddArrowEnd(process, track, "f", name, at_ns + offset_ns, {{"bp", "e"}});
    }
  }

  std::string Finish(const std::string& summary, int64_t begins_at_unix_us) {
    // An arrow has two ends: a result may have come for a push that the record does not reach back to.
    for (const auto& [name, ends] : arrow_ends_) {
      if (ends.size() == 2) events_.insert(events_.end(), ends.begin(), ends.end());
    }
    return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":",
                        JsonText({{"begins_at_unix_us", begins_at_unix_us}, {"summary", summary}}),
                        ",\"traceEvents\":[\n", absl::StrJoin(events_, ",\n"), "\n]}\n");
  }

 private:
  void Meta(size_t process, size_t track, const char* what, const Json& arguments) {
    events_.push_back(JsonText({{"ph", "M"}, {"pid", process}, {"tid", track}, {"name", what}, {"args", arguments}}));
  }
  static std::string MakeEvent(size_t process, size_t track, const char* phase, const std::string& name, int64_t at_ns,
                               const Json& more) {
    Json event = {
        {"ph", phase}, {"pid", process}, {"tid", track}, {"ts", static_cast<double>(at_ns) / 1e3}, {"name", name}};
    event.update(more);
    return JsonText(event);
  }
  void AddArrowEnd(size_t process, size_t track, const char* phase, const FrameName& name, int64_t at_ns, Json more) {
    const auto found = arrows_.find(name);
    if (found == arrows_.end()) return;
    more["cat"] = "chunk";
    more["id"] = found->second;
    arrow_ends_[name].push_back(MakeEvent(process, track, phase, name.is_result ? "result" : "push", at_ns, more));
  }

  std::map<FrameName, size_t> arrows_;  // their numbers
  std::map<FrameName, std::vector<std::string>> arrow_ends_;
  std::vector<std::string> events_;
};

// The tracks of one kind, on as few as they need: none has slices that overlap. The number of the next track.
size_t DrawTracks(size_t process, size_t track, const std::string& name, std::vector<Slice> slices, int64_t offset_ns,
                  TraceWriter* writer) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& left, const Slice& right) { return left.begin_ns < right.begin_ns; });
  std::vector<int64_t> free_from_ns;
  for (const Slice& slice : slices) {
    size_t lane = 0;
    while (lane < free_from_ns.size() && free_from_ns[lane] > slice.begin_ns) ++lane;
    if (lane == free_from_ns.size()) {
      free_from_ns.push_back(0);
      writer->NameTrack(process, track + lane, lane == 0 ? name : absl::StrCat(name, " (", lane + 1, ")"));
    }
    free_from_ns[lane] = slice.end_ns;
    writer->Draw(process, track + lane, slice, offset_ns);
  }
  return track + free_from_ns.size();
}

constexpr size_t kMarksTrack = 1;

void DrawMarks(size_t process, const FlightRecord& record, int64_t offset_ns, TraceWriter* writer) {
  writer->NameTrack(process, kMarksTrack, "notes and connections");
  for (const FlightEntry& entry : record.entries) {
    const bool is_of_chunk = entry.what == "send" || entry.what == "sent" || entry.what == "offered" ||
                             entry.what == "accept" || entry.what == "landed";
    if ((is_of_chunk && !entry.failed) || entry.what == kWithinNode) continue;
    const std::string name =
        absl::StrCat(entry.what, entry.frame.empty() ? "" : " ", entry.frame, entry.failed ? " failed" : "");
    writer->Mark(process, kMarksTrack, name, entry.at_ns + offset_ns,
                 {{"peer", entry.peer},
                  {"group", absl::StrCat(entry.chunk.group)},
                  {"rank", entry.rank},
                  {"op", entry.chunk.op},
                  {"chunk", entry.chunk.chunk}},
                 "t");
  }
  writer->Mark(process, kMarksTrack, record.is_trace ? "the trace has ended" : absl::StrCat("failed: ", record.why),
               offset_ns, {{"why", record.why}}, "p");
}

std::string Microseconds(int64_t ns) { return absl::StrFormat("%.1f us", static_cast<double>(ns) / 1e3); }

// Where the clocks of members stand that sent each other nothing: their own time of day.
std::vector<AlignedClock> OnOneClock(const std::vector<FlightRecord>& records, std::vector<AlignedClock> clocks) {
  const size_t first = clocks[0].reference;
  for (AlignedClock& clock : clocks) {
    const auto later_ms = static_cast<int64_t>(records[clock.reference].ended_unix_ms) -
                          static_cast<int64_t>(records[first].ended_unix_ms);
    clock.offset_ns += later_ms * 1'000'000;
  }
  return clocks;
}

std::string ClockText(const AlignedClock& clock, size_t member, size_t first,
                      const std::vector<FlightRecord>& records) {
  const bool is_reference = member == clock.reference;
  if (is_reference && member == first) return "the time is its clock's";
  if (is_reference) {
    return absl::StrCat("placed by its time of day: no frame went both ways between it and ", records[first].member);
  }
  return absl::StrCat("on the clock of ", records[clock.reference].member, ", wrong by ", Microseconds(clock.error_ns),
                      " at most");
}

}  // namespace

Timeline DrawTimeline(const std::vector<FlightRecord>& records, const std::vector<std::string>& remarks) {
  const FrameEnds frames(records);
  const std::vector<AlignedClock> clocks = OnOneClock(records, AlignClocks(records.size(), frames.Seen()));
  const size_t first = clocks[0].reference;
  std::set<uint64_t> groups;
  int64_t begin_ns = clocks[0].offset_ns;
  for (size_t i = 0; i < records.size(); ++i) {
    for (const FlightEntry& entry : records[i].entries) {
      if (NameOfFrame(entry).has_value() || entry.what == kWithinNode) groups.insert(entry.chunk.group);
      begin_ns = std::min(begin_ns, entry.at_ns - static_cast<int64_t>(entry.length_ns) + clocks[i].offset_ns);
    }
    begin_ns = std::min(begin_ns, clocks[i].offset_ns);  // of the failure
  }
  const auto members_of_peers = frames.MembersOfPeers();
  TraceWriter writer(frames);
  std::string summary = absl::StrCat(records.size(), records.size() == 1 ? " member" : " members",
                                     records[0].is_trace ? "" : absl::StrCat(" of group ", records[0].group), ", ",
                                     frames.sent.size(), " pushes and results with both ends:\n");
  for (size_t i = 0; i < records.size(); ++i) {
    const size_t process = i + 1;
    const int64_t offset_ns = clocks[i].offset_ns - begin_ns;
    const std::string clock = ClockText(clocks[i], i, first, records);
    absl::StrAppend(&summary, "  ", records[i].member, ": ", clock, "\n");
    writer.NameProcess(process, records[i].member, clock);
    DrawMarks(process, records[i], offset_ns, &writer);
    const auto peer_name = [&](uint64_t peer) {
      const auto found = members_of_peers.find({i, peer});
      return found == members_of_peers.end() ? absl::StrCat("peer ", peer) : records[found->second].member;
    };
    size_t track = kMarksTrack + 1;
    for (auto& [name, slices] : SliceChunks(records[i], groups.size() > 1, peer_name)) {
      track = DrawTracks(process, track, name, slices, offset_ns, &writer);
    }
  }
  for (const std::string& remark : remarks) absl::StrAppend(&summary, remark, "\n");
  // By the clock of the first rank, whose profile it may be laid beside: its record ends at 0 of its own time.
  size_t of_rank = 0;
  while (of_rank + 1 < records.size() && !absl::StartsWith(records[of_rank].member, "rank ")) ++of_rank;
  if (!absl::StartsWith(records[of_rank].member, "rank ")) of_rank = first;
  const int64_t begins_at_unix_us =
      static_cast<int64_t>(records[of_rank].ended_unix_ms) * 1000 + (begin_ns - clocks[of_rank].offset_ns) / 1000;
  return {.json = writer.Finish(summary, begins_at_unix_us), .summary = summary};
}

}  // namespace shoal::cli
