#include "net/flight_recorder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(FlightRecorderTest, KeepsTheNewestAndSaysHowManyThereWere) {
  FlightRecorder recorder;
  for (uint64_t i = 1; i <= FlightRecorder::kEntries + 10; ++i) {
    recorder.SetTime(i * 1'000'000);
    recorder.Add(FlightRecorder::What::kClose, i, {}, 0, false, {});
  }
  const std::string text =
      recorder.Text({.monotonic_ns = (FlightRecorder::kEntries + 11) * 1'000'000, .unix_ms = 1'700'000'000'123});
  EXPECT_THAT(text, HasSubstr("The last 1024 of 1034 events, in seconds before unix_ms=1700000000123:\n"
                              "-1.024000 close peer=11\n"));
  EXPECT_THAT(text, testing::EndsWith("-0.001000 close peer=1034\n"));
}

void AddClose(uint64_t peer, FlightRecorder* recorder) {
  recorder->SetTime(peer * 1'000'000);
  recorder->Add(FlightRecorder::What::kClose, peer, {}, 0, false, {});
}

TEST(FlightRecorderTest, AnOpWithinTheNodeHasWhatItsStagesTook) {
  FlightRecorder recorder;
  recorder.StartTrace();
  FlightRecorder::NodeOp op{.group = 12, .op = 5, .begun_ns = 1'000'000'000, .contributed_ns = 1'000'000'300};
  op.ended_ns = 1'000'001'000;
  recorder.AddNodeOp(op, 400, /*failed=*/true);
  op.reduced_ns = op.published_ns = 1'000'000'700;
  recorder.AddNodeOp(op, 400, /*failed=*/false);
  AddClose(6, &recorder);
  const Now now{.monotonic_ns = 2'000'000'000, .unix_ms = 7};
  const std::string entries =
      "-0.999999000 within node group=12 op=5 length_ns=1000 contribute_ns=300 payload=400 FAILED\n"
      "-0.999999000 within node group=12 op=5 length_ns=1000 contribute_ns=300 reduce_ns=400 publish_ns=0 payload=400\n"
      "-1.994000 close peer=6\n";
  EXPECT_THAT(recorder.Text(now), testing::EndsWith(":\n" + entries));
  EXPECT_THAT(recorder.StopTrace(now, 3 << 20), testing::EndsWith(":\n" + entries));
}

void AddCloses(uint64_t from, uint64_t to, FlightRecorder* recorder) {
  for (uint64_t i = from; i <= to; ++i) AddClose(i, recorder);
}

TEST(FlightRecorderTest, ATraceHasWhatCameWhileItLasted) {
  FlightRecorder recorder;
  const Now now{.monotonic_ns = 5000 * uint64_t{1'000'000}, .unix_ms = 7};
  constexpr size_t kMuch = 3 << 20;
  EXPECT_EQ(recorder.StopTrace(now, kMuch), "");
  AddCloses(1, 10, &recorder);
  recorder.StartTrace();
  AddCloses(11, 3010, &recorder);
  const std::string text = recorder.StopTrace(now, kMuch);
  EXPECT_THAT(text, testing::StartsWith("The last 3000 of 3000 events, in seconds before unix_ms=7:\n"
                                        "-4.989000 close peer=11\n"));
  EXPECT_THAT(text, testing::EndsWith("-1.990000 close peer=3010\n"));
  AddCloses(3011, 3012, &recorder);
  EXPECT_EQ(recorder.StopTrace(now, kMuch), "") << "it is over";
  EXPECT_THAT(recorder.Text(now), HasSubstr("The last 1024 of 3012 events")) << "the other ring goes on";
}

TEST(FlightRecorderTest, ATracesTextHasTheNewestThatFit) {
  FlightRecorder recorder;
  recorder.StartTrace();
  AddCloses(1001, 2000, &recorder);
  const std::string text = recorder.StopTrace({.monotonic_ns = 2001 * uint64_t{1'000'000}, .unix_ms = 7}, 1000);
  EXPECT_LE(text.size(), 1000u);
  EXPECT_GT(text.size(), 950u);
  EXPECT_THAT(text, ContainsRegex("^The last [0-9][0-9] of 1000 events"));
  EXPECT_THAT(text, testing::EndsWith("-0.001000 close peer=2000\n"));
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) - 1;
  EXPECT_THAT(text, HasSubstr(absl::StrCat("The last ", lines, " of ")));
}

TEST(FlightRecorderTest, ATraceBeginsAndEndsWhileTheTransportsThreadGoesOn) {
  FlightRecorder recorder;
  std::atomic<bool> ending = false;
  std::thread transport([&] {
    for (uint64_t i = 1; !ending; ++i) AddCloses(i, i, &recorder);
  });
  for (int round = 0; round < 20; ++round) {
    recorder.StartTrace();
    std::string text;
    for (int wait = 0; wait < 100 && text.find("close") == std::string::npos; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      text = recorder.StopTrace({}, 3 << 20);
      if (text.find("close") == std::string::npos) recorder.StartTrace();
    }
    EXPECT_THAT(text, HasSubstr("close peer="));
  }
  ending = true;
  transport.join();
}

TEST(FlightRecorderTest, AFrameThatCanNotBeReadIsKeptWithTheReason) {
  FlightRecorder recorder;
  const FrameHeaderBytes garbage{};
  recorder.Add(FlightRecorder::What::kNote, 1, {}, 0, false, garbage);
  recorder.Add(FlightRecorder::What::kNote, 1, {}, 0, false, std::span(garbage).first(10));
  EXPECT_THAT(recorder.Text({}), ContainsRegex("note peer=1 \\(.+\\)\n-0.000000 note peer=1\n"));
}

}  // namespace
}  // namespace shoal
