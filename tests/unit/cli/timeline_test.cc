#include "cli/timeline.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/json_text.h"

namespace shoal::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint64_t kGroup = 12;
constexpr int64_t kUs = 1000;

struct DrawnSlice {
  std::string process;
  std::string track;
  std::string name;
  double begin_us = 0;
  double end_us = 0;
  Json arguments;
};

// What a viewer would find in the JSON.
class Drawn {
 public:
  explicit Drawn(const std::string& json) {
    const Json document = Json::parse(json);
    for (const Json& event : document.at("traceEvents")) {
      const std::string phase = event.at("ph");
      const std::string name = event.at("name");
      const std::pair<double, double> track = {event.at("pid"), event.at("tid")};
      if (phase == "M" && name == "process_name") {
        processes_[track.first] = event.at("args").at("name");
      } else if (phase == "M" && name == "thread_name") {
        tracks_[track] = event.at("args").at("name");
      } else if (phase == "X") {
        DrawnSlice slice{.process = processes_[track.first], .track = tracks_[track], .name = name};
        slice.begin_us = event.at("ts").get<double>();
        slice.end_us = slice.begin_us + event.at("dur").get<double>();
        slice.arguments = event.at("args");
        slices.push_back(slice);
      } else if (phase == "s" || phase == "f") {
        auto& ends = arrows.try_emplace(event.at("id").get<double>(), -1, -1).first->second;
        (phase == "s" ? ends.first : ends.second) = event.at("ts").get<double>();
      } else if (phase == "i") {
        marks.push_back(name);
      }
    }
  }

  // The one of that name there.
  DrawnSlice Find(const std::string& process, const std::string& name) const {
    std::vector<DrawnSlice> found;
    for (const DrawnSlice& slice : slices) {
      if (slice.process == process && slice.name == name) found.push_back(slice);
    }
    EXPECT_THAT(found, SizeIs(1)) << process << ", " << name;
    return found.empty() ? DrawnSlice() : found[0];
  }

  std::vector<DrawnSlice> slices;
  std::map<double, std::pair<double, double>> arrows;  // when they begin and end; -1: it does not
  std::vector<std::string> marks;

 private:
  std::map<double, std::string> processes_;
  std::map<std::pair<double, double>, std::string> tracks_;
};

// A rank, or a server's thread, that wrote a record. Its times count from its own failure, which was so much later than
// the first one.
class Member {
 public:
  Member(const std::string& name, int64_t later_us) : later_us_(later_us) {
    record_ = {.member = name, .group = kGroup, .why = "rank 2 was lost", .ended_unix_ms = 1000};
  }

  Member& Add(int64_t true_us, FlightEntry entry) {
    entry.at_ns = (true_us - later_us_) * kUs;
    record_.entries.push_back(entry);
    return *this;
  }
  Member& Frame(int64_t true_us, const std::string& what, const std::string& frame, uint64_t rank, uint64_t op,
                uint64_t number, uint64_t peer = 1) {
    FlightEntry entry{.what = what, .frame = frame, .peer = peer, .rank = rank, .payload_bytes = 4096};
    (what == "offered" ? entry.offer : entry.token) = number;
    entry.chunk = {kGroup, 1, op, 0};
    return Add(true_us, entry);
  }
  Member& Ends(int64_t true_us, const std::string& what, uint64_t token) {
    return Add(true_us, {.what = what, .peer = 1, .token = token});
  }
  const FlightRecord& record() const { return record_; }

 private:
  const int64_t later_us_;
  FlightRecord record_;
};

// One chunk of op 1 that rank 0 pushes to a server, which fails 3 ms after it, and gets back; and one of op 2 that
// never comes back.
std::vector<FlightRecord> OneChunkAndAHalf() {
  Member rank("rank 0", 0);
  rank.Frame(-1000, "send", "push", 0, 1, 7)
      .Ends(-950, "sent", 7)
      .Frame(-700, "offered", "result", 0, 1, 70)
      .Add(-700, {.what = "accept", .offer = 70, .token = 8})
      .Ends(-600, "landed", 8)
      .Frame(-500, "send", "push", 0, 2, 7)
      .Add(-100, {.what = "note", .frame = "rank-lost", .peer = 1});
  Member server("I/O thread 0 of server alpha", 3000);
  server.Frame(-980, "offered", "push", 0, 1, 90, 5)
      .Frame(-880, "offered", "push", 1, 1, 91, 6)
      .Add(-880, {.what = "accept", .offer = 91, .token = 92})
      .Ends(-800, "landed", 92)
      .Frame(-750, "send", "result", 0, 1, 93, 5)
      .Frame(-750, "send", "result", 1, 1, 94, 6)
      .Ends(-730, "sent", 93)
      .Ends(-710, "sent", 94)
      .Frame(-480, "offered", "push", 0, 2, 95, 5);
  return {rank.record(), server.record()};
}

TEST(Timeline, ATraceHasNoFailureAndSaysWhenItsTimeBegins) {
  std::vector<FlightRecord> records = OneChunkAndAHalf();
  for (FlightRecord& record : records) {
    record.is_trace = true;
    record.ended_unix_ms = 1'700'000'000'000;
  }
  const Timeline timeline = DrawTimeline(records, {"No record came from rank 1."});
  EXPECT_THAT(timeline.summary, StartsWith("2 members, "));
  EXPECT_THAT(timeline.summary, HasSubstr("No record came from rank 1.\n"));
  const Drawn drawn(timeline.json);
  EXPECT_THAT(drawn.marks, Contains("the trace has ended").Times(2));
  // Rank 0 is the reference, whose record begins 1 ms before its end, and that of the server 20 us after.
  EXPECT_EQ(Json::parse(timeline.json).at("otherData").at("begins_at_unix_us"), 1'700'000'000'000'000 - 1000);
  EXPECT_NEAR(drawn.Find("rank 0", "op 1 chunk 0").begin_us, 0, 1e-6);
}

TEST(Timeline, AChunkIsDrawnOnTheRankAndOnTheServerOnOneClock) {
  const Timeline timeline = DrawTimeline(OneChunkAndAHalf());
  const Drawn drawn(timeline.json);
  const DrawnSlice chunk = drawn.Find("rank 0", "op 1 chunk 0");
  EXPECT_EQ(chunk.track, "pushed to I/O thread 0 of server alpha");
  EXPECT_NEAR(chunk.end_us - chunk.begin_us, 400, 1e-6);
  EXPECT_EQ(chunk.arguments.at("group"), "12");
  const DrawnSlice gathered = drawn.Find("I/O thread 0 of server alpha", "op 1 chunk 0");
  EXPECT_EQ(gathered.track, "chunks");
  EXPECT_NEAR(gathered.end_us - gathered.begin_us, 270, 1e-6);
  EXPECT_EQ(gathered.arguments.at("rank 0 came after"), "0.000 ms");
  EXPECT_EQ(gathered.arguments.at("rank 1 came after"), "0.100 ms");
  EXPECT_NEAR(gathered.begin_us - chunk.begin_us, 20, 16) << "20 us there, 50 us back";
  std::vector<std::pair<std::string, double>> parts;
  for (const DrawnSlice& slice : drawn.slices) {
    if (slice.arguments.empty() && slice.begin_us >= chunk.begin_us && slice.end_us <= chunk.end_us + 1e-6 &&
        slice.process == "rank 0") {
      parts.emplace_back(slice.name, std::round(slice.end_us - slice.begin_us));
    }
  }
  EXPECT_THAT(parts, ElementsAre(Pair("push", 50), Pair("wait for the result", 250), Pair("result", 100)));
  EXPECT_THAT(timeline.summary, HasSubstr("wrong by 35.0 us at most"));
}

TEST(Timeline, WhatIsNotDoneReachesToTheFailure) {
  const Drawn drawn(DrawTimeline(OneChunkAndAHalf()).json);
  const DrawnSlice pushed = drawn.Find("rank 0", "op 2 chunk 0 (not done)");
  EXPECT_NEAR(pushed.end_us - pushed.begin_us, 500, 1e-6);
  EXPECT_NEAR(drawn.Find("I/O thread 0 of server alpha", "wait for other ranks").end_us -
                  drawn.Find("I/O thread 0 of server alpha", "op 2 chunk 0 (not done)").end_us,
              0, 1e-6);
  EXPECT_THAT(drawn.marks, testing::Contains("note rank-lost"));
  EXPECT_THAT(drawn.marks, testing::Contains(HasSubstr("failed: rank 2 was lost")));
}

TEST(Timeline, WhatFailedOrWasPushedAgainIsNoChunkThatIsDone) {
  Member rank("rank 0", 0);
  FlightEntry broken{.what = "landed", .token = 8, .failed = true};
  FlightEntry unsent{.what = "sent", .token = 9, .failed = true};
  rank.Frame(-1000, "send", "push", 0, 1, 7)
      .Frame(-900, "offered", "result", 0, 1, 70)
      .Add(-900, {.what = "accept", .offer = 70, .token = 8})
      .Add(-800, broken)
      .Frame(-700, "send", "push", 0, 2, 9)
      .Add(-650, unsent)
      .Frame(-600, "send", "push", 0, 3, 10)
      .Frame(-500, "send", "push", 0, 3, 11)
      .Frame(-450, "offered", "result", 0, 3, 71)
      .Add(-450, {.what = "decline", .offer = 71});
  const Drawn drawn(DrawTimeline({rank.record()}).json);
  EXPECT_NEAR(drawn.Find("rank 0", "op 1 chunk 0 (failed)").begin_us + 200,
              drawn.Find("rank 0", "op 1 chunk 0 (failed)").end_us, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "op 2 chunk 0 (failed)").begin_us + 50,
              drawn.Find("rank 0", "op 2 chunk 0 (failed)").end_us, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "op 3 chunk 0 (pushed again)").end_us,
              drawn.Find("rank 0", "op 3 chunk 0 (not done)").begin_us, 1e-6);
}

// Beside a chunk of the same op: the rank's part of the node's sum goes to a server.
TEST(Timeline, WhatHappensWithinTheNodeIsDrawnBesideTheChunks) {
  Member rank("rank 0", 0);
  FlightEntry done{.what = kWithinNode, .payload_bytes = 8192};
  done.chunk = {kGroup, 0, 1, 0};
  done.length_ns = 600 * kUs;
  done.contribute_ns = 50 * kUs;
  done.reduce_ns = 100 * kUs;
  done.publish_ns = 400 * kUs;
  FlightEntry stuck{.what = kWithinNode, .failed = true};
  stuck.chunk = {kGroup, 0, 2, 0};
  stuck.length_ns = 250 * kUs;
  stuck.contribute_ns = 20 * kUs;
  rank.Frame(-850, "send", "push", 0, 1, 7)
      .Frame(-600, "offered", "result", 0, 1, 70)
      .Add(-600, {.what = "accept", .offer = 70, .token = 8})
      .Ends(-500, "landed", 8)
      .Add(-400, done)
      .Add(0, stuck);
  const Drawn drawn(DrawTimeline({rank.record()}).json);
  const DrawnSlice op = drawn.Find("rank 0", "op 1 within the node");
  EXPECT_EQ(op.track, "within the node");
  EXPECT_EQ(op.arguments.at("group"), "12");
  EXPECT_NEAR(op.begin_us, 0, 1e-6) << "the picture begins with it, though its entry is not the first";
  EXPECT_NEAR(op.end_us, 600, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "op 1 chunk 0").begin_us, 150, 1e-6) << "when the part is summed";
  EXPECT_NEAR(drawn.Find("rank 0", "publish").begin_us, 150, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "publish").end_us, 550, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "collect").end_us, 600, 1e-6);
  const DrawnSlice not_done = drawn.Find("rank 0", "op 2 within the node (not done)");
  EXPECT_EQ(not_done.track, "within the node");
  EXPECT_NEAR(drawn.Find("rank 0", "wait").begin_us, not_done.begin_us + 20, 1e-6);
  EXPECT_NEAR(drawn.Find("rank 0", "wait").end_us, 1000, 1e-6) << "to the failure";
  EXPECT_THAT(drawn.marks, testing::Not(Contains(HasSubstr("within node"))));
}

TEST(Timeline, AResultThatIsHandedOverIsDoneWhenItIsSent) {
  Member rank("rank 0", 0);
  FlightEntry hand_over{.what = "send", .frame = "push", .peer = 2, .token = 5, .is_hand_over = true};
  hand_over.chunk = {kGroup, 2, 1, 0};
  rank.Add(-300, hand_over).Ends(-200, "sent", 5);
  const DrawnSlice drawn =
      Drawn(DrawTimeline({rank.record()}).json).Find("rank 0", "op 1 chunk 0 (a result handed over)");
  EXPECT_NEAR(drawn.end_us - drawn.begin_us, 100, 1e-6);
}

TEST(Timeline, AContributionThatTheServerDeclinedIsNoPartOfTheChunk) {
  Member server("I/O thread 0 of server alpha", 0);
  server.Frame(-1000, "offered", "push", 0, 1, 90)
      .Frame(-900, "offered", "push", 1, 1, 91)
      .Add(-890, {.what = "decline", .offer = 91})
      .Frame(-800, "offered", "push", 1, 1, 92)
      .Frame(-700, "send", "result", 0, 1, 93)
      .Frame(-700, "send", "result", 1, 1, 94)
      .Ends(-690, "sent", 93)
      .Add(-680, {.what = "sent", .token = 94, .failed = true})
      .Frame(-500, "offered", "push", 0, 2, 95)
      .Add(-490, {.what = "decline", .offer = 95});
  const Drawn drawn(DrawTimeline({server.record()}).json);
  const DrawnSlice chunk = drawn.Find("I/O thread 0 of server alpha", "op 1 chunk 0 (failed)");
  EXPECT_EQ(chunk.arguments.at("rank 1 came after"), "0.200 ms") << "with its second push";
  for (const DrawnSlice& slice : drawn.slices) EXPECT_THAT(slice.name, testing::Not(HasSubstr("op 2")));
}

TEST(Timeline, ArrowsHaveTwoEndsAndLeadForward) {
  const Drawn drawn(DrawTimeline(OneChunkAndAHalf()).json);
  EXPECT_THAT(drawn.arrows, SizeIs(3)) << "two pushes and a result; rank 1 wrote no record";
  for (const auto& [id, ends] : drawn.arrows) {
    EXPECT_GE(ends.first, 0);
    EXPECT_GT(ends.second, ends.first) << id;
  }
}

TEST(Timeline, SlicesThatOverlapAreOnTracksOfTheirOwn) {
  Member rank("rank 0", 0);
  for (uint64_t op = 1; op <= 6; ++op) {
    rank.Frame(-1000 + static_cast<int64_t>(op), "send", "push", 0, op, op);
  }
  for (uint64_t op = 1; op <= 6; ++op) rank.Frame(-500 + static_cast<int64_t>(op), "offered", "result", 0, op, op);
  for (uint64_t op = 1; op <= 6; ++op) {
    rank.Add(-450, {.what = "accept", .offer = op, .token = 50 + op}).Ends(-440, "landed", 50 + op);
  }
  rank.Frame(-400, "send", "push", 0, 7, 7);
  const Drawn drawn(DrawTimeline({rank.record()}).json);
  std::map<std::string, int> of_track;
  for (const DrawnSlice& slice : drawn.slices) of_track[slice.track] += slice.name.starts_with("op ") ? 1 : 0;
  EXPECT_THAT(of_track, SizeIs(6));
  EXPECT_EQ(of_track["pushed to peer 1"], 2) << "the seventh comes when the first is back";
  EXPECT_EQ(of_track["pushed to peer 1 (6)"], 1);
}

TEST(Timeline, AMemberThatSharesNothingIsPlacedByItsOwnClockAndSaidToBe) {
  std::vector<FlightRecord> records = OneChunkAndAHalf();
  Member other("rank 9", 0);
  other.Add(-200, {.what = "peer down", .peer = 3});
  records.push_back(other.record());
  EXPECT_THAT(DrawTimeline(records).summary,
              HasSubstr("rank 9: placed by its time of day: no frame went both ways between it and rank 0"));
}

TEST(Timeline, RecordsWithoutEventsAreDrawnAsWell) {
  const Drawn drawn(DrawTimeline({Member("rank 0", 0).record(), Member("rank 1", 0).record()}).json);
  EXPECT_THAT(drawn.slices, IsEmpty());
  EXPECT_THAT(drawn.marks, SizeIs(2));
}

}  // namespace
}  // namespace shoal::cli
