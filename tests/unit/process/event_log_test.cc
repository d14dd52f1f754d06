#include "process/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kAtUnixMs = 1'795'377'273'120;  // 2026-11-22, 19:54:33.120 UTC

LogEvent RankAbsent(const std::string& text) {
  return {.kind = EventKind::kRankAbsent,
          .text = text,
          .ids = {.job = JobId(7), .group = GroupId(12), .epoch = Epoch(3), .rank = 0}};
}

TEST(EventLogTest, TextHasTimeLevelComponentKeyAndIds) {
  EXPECT_EQ(FormatEvent(RankAbsent("its connection was reset"), kAtUnixMs, LogFormat::kText),
            "2026-11-22T19:54:33.120Z WARNING server rank-absent (job=7 group=12 epoch=3 rank=0): its connection was "
            "reset");
  EXPECT_EQ(FormatEvent({.kind = EventKind::kServerLost, .subject = "server a", .text = "no heartbeat"}, kAtUnixMs,
                        LogFormat::kText),
            "2026-11-22T19:54:33.120Z WARNING scheduler server-lost server a: no heartbeat");
}

TEST(EventLogTest, JsonHasTheSame) {
  EXPECT_EQ(FormatEvent(RankAbsent("said \"no\" \\"), kAtUnixMs, LogFormat::kJson),
            R"({"time":"2026-11-22T19:54:33.120Z","level":"warning","component":"server","event":"rank-absent",)"
            R"("job":"7","group":"12","epoch":"3","rank":"0","text":"said \"no\" \\"})");
}

TEST(EventLogTest, ATextFromAPeerStaysOnItsLineAndJsonStaysValid) {
  const std::string hostile = "a\n2026-01-01T00:00:00Z ERROR\x1b[2J \xff \xc3\xa9 \xe0\x80\x80";
  const std::string text = FormatEvent(RankAbsent(hostile), kAtUnixMs, LogFormat::kText);
  EXPECT_THAT(text, HasSubstr("a\\x0a2026"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(text, HasSubstr("ERROR\\x1b[2J \\xff \xc3\xa9 \\xe0\\x80\\x80"));
  EXPECT_THAT(FormatEvent(RankAbsent("a\u009b31m"), kAtUnixMs, LogFormat::kText), HasSubstr("a\\xc2\\x9b31m"))
      << "the one-character form of ESC [";
  EXPECT_THAT(FormatEvent(RankAbsent(hostile), kAtUnixMs, LogFormat::kJson),
              HasSubstr("a\\n2026-01-01T00:00:00Z ERROR\\u001b[2J \\ufffd \\u00e9 \\ufffd\\ufffd\\ufffd\"}"));
}

TEST(EventLogTest, SaysHowManyItLeftOut) {
  ::testing::internal::CaptureStderr();
  {
    const std::unique_ptr<EventLog> log = EventLog::Start(LogFormat::kText).value();
    const Now now{.monotonic_ns = kNsPerS, .unix_ms = kAtUnixMs};
    for (uint64_t i = 0; i < kEventBurst + 30; ++i) log->WriteAt(RankAbsent("again"), now);
    log->WriteAt({.kind = EventKind::kShardGroupFailed, .text = "another kind"}, now);
    EXPECT_GE(log->left_out(), 30u);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("WARNING process events-left-out: more than 200 events rank-absent at once"));
  EXPECT_THAT(said, HasSubstr("another kind"));
  EXPECT_THAT(said, HasSubstr("30 events rank-absent were not written: they came too fast")) << "at the end at latest";
}

TEST(EventLogTest, WhatItSaysOfASteadyFloodIsNoFlood) {
  ::testing::internal::CaptureStderr();
  {
    const std::unique_ptr<EventLog> log = EventLog::Start(LogFormat::kText).value();
    for (uint64_t ms = 0; ms < 5000; ++ms) {
      log->WriteAt(RankAbsent("again"), {.monotonic_ns = kNsPerS + ms * kNsPerMs, .unix_ms = kAtUnixMs + ms});
      // A reader that keeps up.
      if (ms % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto lines = static_cast<uint64_t>(std::count(said.begin(), said.end(), '\n'));
  EXPECT_LE(lines, kEventBurst + 5 * kEventsPerS + 4);
}

TEST(EventLogTest, AnEventHasTheTimeAtWhichItHappened) {
  ::testing::internal::CaptureStderr();
  {
    const std::unique_ptr<EventLog> log = EventLog::Start(LogFormat::kText).value();
    LogEvent event = RankAbsent("long ago");
    event.at_unix_ms = kAtUnixMs;
    log->WriteAt(event, {.monotonic_ns = kNsPerS, .unix_ms = kAtUnixMs + 60'000});
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("2026-11-22T19:54:33.120Z WARNING"));
}

TEST(EventLogTest, AnUnknownFormatIsRefusedWithThoseThatThereAre) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_THAT(std::string(ParseLogFormat("xml").status().message()), HasSubstr("give text"));
}

}  // namespace
}  // namespace shoal
