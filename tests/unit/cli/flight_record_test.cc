#include "cli/flight_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/flight_recorder.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Record(const std::string& member, uint64_t group, uint64_t unix_ms, const std::string& events = "") {
  return absl::StrFormat(
      "%s, group \"ddp\" (group=%d) failed: ABORTED: rank 2 was lost\nThe last 1 of 9 events, in "
      "seconds before unix_ms=%d:\n%s",
      member, group, unix_ms, events);
}

TEST(FlightRecord, ReadsWhatIsSentForATrace) {
  FlightRecorder recorder;
  recorder.StartTrace();
  for (uint64_t i = 1; i <= FlightRecorder::kTraceEntries + 5; ++i) {
    recorder.SetTime(i * 1000);
    recorder.Add(FlightRecorder::What::kClose, i, {}, 0, false, {});
  }
  const absl::StatusOr<FlightRecord> record = ParseFlightRecord(
      absl::StrCat("I/O thread 1 of server alpha, a trace (trace=1700000000001) ended: after 2.003 s\n",
                   recorder.StopTrace({.monotonic_ns = 100'000'000, .unix_ms = 1'700'000'000'123}, 3 << 20)));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->is_trace);
  EXPECT_EQ(record->member, "I/O thread 1 of server alpha");
  EXPECT_EQ(record->why, "after 2.003 s");
  EXPECT_EQ(record->ended_unix_ms, 1'700'000'000'123u);
  EXPECT_EQ(record->older_events, 5u);
  ASSERT_THAT(record->entries, SizeIs(FlightRecorder::kTraceEntries));
  EXPECT_EQ(record->entries[0].peer, 6u);
}

TEST(FlightRecord, ReadsWhatTheRecorderWrites) {
  FlightRecorder recorder;
  recorder.SetTime(1'000'000'000);
  FrameHeader header{.type = FrameType::kPush,
                     .group = GroupId(12),
                     .epoch = Epoch(3),
                     .op = OpNumber(5),
                     .bucket_elements = 100,
                     .chunk_elements = 100,
                     .chunk = ChunkNumber(7),
                     .rank = Rank(2)};
  const FrameHeaderBytes push = EncodeHeader(header);
  header.contributors = 3;
  const FrameHeaderBytes hand_over = EncodeHeader(header);
  const FrameHeaderBytes garbage{};
  recorder.Add(FlightRecorder::What::kSend, 4, {.token = 77}, 400, false, push);
  recorder.Add(FlightRecorder::What::kOffered, 4, {.offer = 9}, 400, false, push);
  recorder.SetTime(1'500'000'000);
  recorder.Add(FlightRecorder::What::kAccept, 0, {.offer = 9, .token = 78}, 400, false, {});
  recorder.Add(FlightRecorder::What::kSendNote, 5, {}, 0, true, garbage);
  recorder.Add(FlightRecorder::What::kConnect, 0, {}, 0, true, {});
  recorder.Add(FlightRecorder::What::kSend, 4, {.token = 79}, 400, false, hand_over);
  const absl::StatusOr<FlightRecord> record = ParseFlightRecord(
      absl::StrCat("rank 0 of job \"gpt\" on node-1, group \"ddp\" (group=12) failed: ABORTED: it\nwas lost\n",
                   recorder.Text({.monotonic_ns = 2'000'000'000, .unix_ms = 1'700'000'000'123})));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->member, "rank 0 of job \"gpt\" on node-1");
  EXPECT_EQ(record->group, 12u);
  EXPECT_FALSE(record->is_trace);
  EXPECT_EQ(record->older_events, 0u);
  EXPECT_EQ(record->why, "ABORTED: it was lost");
  EXPECT_EQ(record->ended_unix_ms, 1'700'000'000'123u);
  ASSERT_THAT(record->entries, SizeIs(6));
  const FlightEntry& send = record->entries[0];
  EXPECT_EQ(send.at_ns, -1'000'000'000);
  EXPECT_EQ(send.what, "send");
  EXPECT_EQ(send.frame, "push");
  EXPECT_EQ(send.peer, 4u);
  EXPECT_EQ(send.token, 77u);
  EXPECT_EQ(send.rank, 2u);
  EXPECT_EQ(send.payload_bytes, 400u);
  EXPECT_EQ(send.chunk, (ChunkName{12, 3, 5, 7}));
  EXPECT_EQ(record->entries[1].offer, 9u);
  EXPECT_EQ(record->entries[2].at_ns, -500'000'000);
  EXPECT_THAT(record->entries[2], AllOf(Field(&FlightEntry::offer, 9u), Field(&FlightEntry::token, 78u)));
  EXPECT_EQ(record->entries[3].what, "send note");
  EXPECT_EQ(record->entries[3].frame, "") << "it can't be read";
  EXPECT_TRUE(record->entries[3].failed);
  EXPECT_EQ(record->entries[4].what, "connect");
  EXPECT_TRUE(record->entries[4].failed);
  EXPECT_FALSE(send.is_hand_over);
  EXPECT_TRUE(record->entries[5].is_hand_over);
  EXPECT_EQ(record->entries[5].frame, "push");
  EXPECT_FALSE(record->is_cut_off);
}

TEST(FlightRecord, WhatATerminalWouldObeyIsTakenOut) {
  const absl::StatusOr<FlightRecord> record = ParseFlightRecord(
      "rank 0 of job \"g\x1b]0;title\x07pt\" on node-1, group \"ddp\" (group=12) failed: ABORTED: it\xc2\x9b"
      "31m\r\nwas lost\nThe last 1 of 1 events, in seconds before unix_ms=1700000000123:\n"
      "-0.500000 close\x1b[2J peer=4\n");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->member, "rank 0 of job \"g?]0;title?pt\" on node-1");
  EXPECT_EQ(record->why, "ABORTED: it?31m? was lost");
  EXPECT_EQ(record->entries.at(0).what, "close?[2J");
  EXPECT_THAT(std::string(ParseFlightRecord("\x1b[31mred\n").status().message()),
              HasSubstr("line 1 is not understood: \"?[31mred\""));
}

TEST(FlightRecord, ReadsOpsWithinTheNode) {
  FlightRecorder recorder;
  recorder.AddNodeOp({.group = 12,
                      .op = 5,
                      .begun_ns = 1'000'000'000,
                      .contributed_ns = 1'000'000'300,
                      .reduced_ns = 1'000'000'700,
                      .published_ns = 1'000'000'800,
                      .ended_ns = 1'000'001'000},
                     400, /*failed=*/false);
  recorder.AddNodeOp({.group = 12, .op = 6, .begun_ns = 1'000'000'000, .ended_ns = 1'500'000'000}, 400,
                     /*failed=*/true);
  const absl::StatusOr<FlightRecord> record = ParseFlightRecord(
      absl::StrCat("rank 0 of job \"gpt\" on node-1, group \"ddp\" (group=12) failed: ABORTED: it was lost\n",
                   recorder.Text({.monotonic_ns = 2'000'000'000, .unix_ms = 1'700'000'000'123})));
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_THAT(record->entries, SizeIs(2));
  const FlightEntry& done = record->entries[0];
  EXPECT_EQ(done.what, kWithinNode);
  EXPECT_EQ(done.at_ns, -999'999'000);
  EXPECT_EQ(done.chunk, (ChunkName{12, 0, 5, 0}));
  EXPECT_EQ(done.payload_bytes, 400u);
  EXPECT_EQ(done.length_ns, 1000u);
  EXPECT_EQ(done.contribute_ns, 300u);
  EXPECT_EQ(done.reduce_ns, 400u);
  EXPECT_EQ(done.publish_ns, 100u);
  EXPECT_FALSE(done.failed);
  const FlightEntry& stuck = record->entries[1];
  EXPECT_TRUE(stuck.failed);
  EXPECT_EQ(stuck.length_ns, 500'000'000u);
  EXPECT_EQ(stuck.contribute_ns, 0u);
}

TEST(FlightRecord, OfAServersThread) {
  const auto record = ParseFlightRecord(
      "I/O thread 3 of server alpha, a group (group=7) failed: rank 1 was lost\nThe last 0 of 0 events, "
      "in seconds before unix_ms=5:\n");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->member, "I/O thread 3 of server alpha");
  EXPECT_EQ(record->group, 7u);
}

TEST(FlightRecord, WhatIsNoneIsRefusedWithItsLine) {
  for (const auto& [text, line] : {std::pair<std::string, std::string>{"", "line 1"},
                                   {"hello\n", "line 1"},
                                   {"rank 0, group \"x\" (group=z) failed: y\n", "line 1"},
                                   {"rank 0, group \"x\" (group=1) failed: y\nmore\n", "unix_ms"},
                                   {Record("rank 0", 1, UINT64_MAX), "unix_ms"},
                                   {Record("rank 0", 1, 2, std::string(70'000, '\n')), "65536"},
                                   {Record("rank 0", 1, 2, "yesterday send peer=1\n"), "line 3"},
                                   {Record("rank 0", 1, 2, "-0.5\n"), "line 3"},
                                   {Record("rank 0", 1, 2, "-1e300 send peer=1\n"), "line 3"},
                                   {Record("rank 0", 1, 2, "-1e8 send peer=1\n"), "line 3"},
                                   {Record("rank 0", 1, 2, "-0.5 send peer=1\n-0.4 send peer=-3\n"), "line 4"}}) {
    const auto record = ParseFlightRecord(text);
    ASSERT_FALSE(record.ok()) << text;
    EXPECT_THAT(record.status().message(), HasSubstr(line)) << text;
  }
}

TEST(FlightRecord, ALineWithoutAnEndIsLeftOut) {
  const auto record = ParseFlightRecord(Record("rank 0", 1, 2, "-0.5 send peer=1\n-0.4 send peer=1"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->is_cut_off);
  EXPECT_THAT(record->entries, SizeIs(1));
}

class FlightRecordsTest : public testing::Test {
 protected:
  FlightRecordsTest() : folder_(std::filesystem::path(testing::TempDir()) / absl::StrCat("records-", getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~FlightRecordsTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  absl::StatusOr<FlightRecords> Load(std::optional<uint64_t> group = std::nullopt) {
    return LoadFlightRecords(folder_.string(), group);
  }

  std::filesystem::path folder_;
};

TEST_F(FlightRecordsTest, TheNewestOfEachMemberOfTheLastFailure) {
  Write("a.txt", Record("rank 0", 1, 100));
  Write("b.txt", Record("rank 0", 2, 200));
  Write("c.txt", Record("rank 1", 2, 201));
  Write("d.txt", Record("rank 0", 2, 300));
  Write("README", "not of ours");
  const auto records = Load();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(records->records,
              ElementsAre(AllOf(Field(&FlightRecord::member, "rank 0"), Field(&FlightRecord::ended_unix_ms, 300u)),
                          Field(&FlightRecord::member, "rank 1")));
  EXPECT_THAT(records->remarks, ElementsAre(HasSubstr("Records of group 1 of the same minutes are not drawn")));
  ASSERT_TRUE(Load(1).ok());
  EXPECT_THAT(Load(1)->remarks, IsEmpty());
  EXPECT_THAT(Load(1)->records, ElementsAre(Field(&FlightRecord::ended_unix_ms, 100u)));
}

TEST_F(FlightRecordsTest, AnEarlierJobWhoseGroupHasTheSameNumberIsLeftOutAndSaidToBe) {
  Write("a.txt", Record("rank 0", 1, 1'000'000));
  Write("b.txt", Record("rank 1", 1, 1'000'000 + 3'600'000));
  Write("c.txt", Record("rank 2", 1, 1'000'001 + 3'600'000, "-0.5 send"));
  const auto records = Load();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(records->records, SizeIs(2));
  EXPECT_THAT(records->remarks, ElementsAre(AllOf(HasSubstr("a.txt is left out"), HasSubstr("60 minutes")),
                                            AllOf(HasSubstr("c.txt"), HasSubstr("no end"))));
}

TEST_F(FlightRecordsTest, WhatIsNoFileIsPassedOver) {
  Write("a.txt", Record("rank 0", 1, 100));
  std::filesystem::create_directory(folder_ / "folder.txt");
  ASSERT_EQ(mkfifo((folder_ / "pipe.txt").c_str(), 0600), 0);
  EXPECT_TRUE(Load().ok());
}

TEST_F(FlightRecordsTest, WhatCanNotBeReadIsNamed) {
  EXPECT_THAT(Load().status().message(), HasSubstr("SHOAL_FLIGHT_RECORDER"));
  Write("a.txt", Record("rank 0", 1, 100));
  EXPECT_THAT(Load(5).status().message(), AllOf(HasSubstr("group 5"), HasSubstr("those of 1")));
  Write("notes.txt", "milk, eggs\n");
  const auto with_another = Load();
  ASSERT_TRUE(with_another.ok()) << with_another.status();
  EXPECT_THAT(with_another->records, SizeIs(1));
  EXPECT_THAT(with_another->remarks,
              ElementsAre(AllOf(HasSubstr("notes.txt is left out: it is no flight record"), HasSubstr("milk"))));
  EXPECT_THAT(LoadFlightRecords("/nowhere/at/all", std::nullopt).status().message(), HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace shoal::cli
