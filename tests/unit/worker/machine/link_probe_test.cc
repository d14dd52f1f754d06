// How a worker measures the way to a server before its first group.
#include "worker/machine/link_probe.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

constexpr uint64_t kDeadlineNs = 5 * kNsPerS;

MeasureLinkCommand Measure() { return {.server_name = "s0", .address = "10.0.0.1:1", .deadline_ns = kDeadlineNs}; }

void Echo(WorkerDriver* worker, uint32_t number) {
  worker->GiveNote(0, MakeNote({.type = FrameType::kProbe, .chunk = ChunkNumber(number)}));
}

// Echoes the empty probes, each after `round_trip_ns`.
void EchoRoundTrips(WorkerDriver* worker, uint64_t round_trip_ns) {
  for (uint32_t i = 0; i < LinkProbe::kRoundTrips; ++i) {
    ASSERT_EQ(worker->NotesOf(FrameType::kProbe).size(), i + 1);
    worker->now.monotonic_ns += round_trip_ns + i % 2 * 1000;
    Echo(worker, i);
  }
}

void EchoMessages(WorkerDriver* worker, uint64_t message_ns = 0) {
  for (uint32_t i = 0; i < LinkProbe::kMessages; ++i) {
    worker->now.monotonic_ns += message_ns;
    Echo(worker, LinkProbe::kRoundTrips + i);
  }
}

void EchoTrain(WorkerDriver* worker, uint64_t payload_ns) {
  for (uint32_t i = 0; i < LinkProbe::kTrainPayloads; ++i) {
    worker->now.monotonic_ns += payload_ns;
    Echo(worker, LinkProbe::kFirstOfTrain + i);
  }
}

TEST(LinkProbe, MeasuresRoundTripAndBandwidth) {
  WorkerDriver worker;
  worker.Command(Measure());
  ASSERT_EQ(worker.connects.size(), 1u);
  EXPECT_TRUE(worker.notes.empty()) << "said something before the connection was up";
  worker.Up(0);
  EchoRoundTrips(&worker, 50'000);
  EXPECT_EQ(worker.NotesOf(FrameType::kProbe).size(), LinkProbe::kRoundTrips + LinkProbe::kMessages);
  EXPECT_TRUE(worker.sends.empty());
  worker.now.monotonic_ns += 50'000;
  EchoMessages(&worker, 1'500);
  ASSERT_EQ(worker.sends.size(), LinkProbe::kTrainPayloads);
  for (const WorkerSendAction& send : worker.sends) {
    EXPECT_EQ(send.bytes, LinkProbe::kPayloadBytes);
    worker.Sent(send);
  }
  EchoTrain(&worker, 100'000);
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_EQ(worker.measured[0].round_trip_ns, 50'000u);
  EXPECT_EQ(worker.measured[0].message_ns, 1'500u);
  EXPECT_EQ(worker.measured[0].bytes_per_s, uint64_t{LinkProbe::kPayloadBytes} * 10'000);
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(LinkProbe, ABurstAtTheStartDoesNotCount) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Up(0);
  EchoRoundTrips(&worker, 50'000);
  EchoMessages(&worker);
  for (uint32_t i = 0; i < LinkProbe::kTrainPayloads; ++i) {
    worker.now.monotonic_ns += i < LinkProbe::kTrainPayloads / 4 ? 10 : 100'000;
    Echo(&worker, LinkProbe::kFirstOfTrain + i);
  }
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_EQ(worker.measured[0].bytes_per_s, uint64_t{LinkProbe::kPayloadBytes} * 10'000);
}

TEST(LinkProbe, EchoesThatWaitedForThisProcessDoNotMakeTheLinkInfinitelyFast) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Up(0);
  EchoRoundTrips(&worker, 50'000);
  EchoMessages(&worker);
  for (uint32_t i = 0; i < LinkProbe::kTrainPayloads; ++i) {
    // From the middle on nothing was read for as long as all the rest took to come.
    if (i < LinkProbe::kTrainPayloads / 2) worker.now.monotonic_ns += 100'000;
    if (i == LinkProbe::kTrainPayloads / 2 - 1) worker.now.monotonic_ns += LinkProbe::kTrainPayloads / 2 * 100'000;
    Echo(&worker, LinkProbe::kFirstOfTrain + i);
  }
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_LE(worker.measured[0].bytes_per_s, 5 * LinkProbe::kPayloadBytes * uint64_t{10'000});
}

TEST(LinkProbe, EchoesThatComeAllAtOnceGiveAFiniteBandwidth) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Up(0);
  EchoRoundTrips(&worker, 0);
  EchoMessages(&worker);
  EchoTrain(&worker, 0);
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_GT(worker.measured[0].bytes_per_s, uint64_t{1} << 30);
  EXPECT_GT(worker.measured[0].round_trip_ns, 0u);
}

TEST(LinkProbe, AServerThatDoesNotAnswerCostsTheTimeoutAlone) {
  for (const bool up : {false, true}) {
    WorkerDriver worker;
    worker.Command(Measure());
    if (up) worker.Up(0);
    EXPECT_LE(worker.machine().NextDeadlineNs(), kDeadlineNs);
    worker.TickAt(kDeadlineNs);
    ASSERT_EQ(worker.measured.size(), 1u);
    EXPECT_EQ(worker.measured[0], LinkFacts());
    Echo(&worker, 0);  // late
    EXPECT_EQ(worker.measured.size(), 1u);
  }
}

TEST(LinkProbe, EchoesThatWereNotAskedForChangeNothing) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Up(0);
  for (const uint32_t wrong : {1u, 7u, LinkProbe::kRoundTrips, UINT32_MAX}) Echo(&worker, wrong);
  EXPECT_EQ(worker.NotesOf(FrameType::kProbe).size(), 1u);
  EchoRoundTrips(&worker, 1000);
  Echo(&worker, 0);
  EchoMessages(&worker);
  EchoTrain(&worker, 1000);
  EXPECT_EQ(worker.measured.size(), 1u);
}

TEST(LinkProbe, AConnectionThatBreaksStartsAgain) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Up(0);
  Echo(&worker, 0);
  worker.Clear();
  worker.Down(0);
  ASSERT_EQ(worker.connects.size(), 1u) << "what was up is tried again at once";
  worker.Up(0);
  EchoRoundTrips(&worker, 2000);
  EchoMessages(&worker);
  EchoTrain(&worker, 1000);
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_EQ(worker.measured[0].round_trip_ns, 2000u);
}

TEST(LinkProbe, ClosingTheWorkerEndsIt) {
  WorkerDriver worker;
  worker.Command(Measure());
  worker.Command(ShutdownCommand{.deadline_ns = kDeadlineNs});
  ASSERT_EQ(worker.measured.size(), 1u);
  EXPECT_EQ(worker.measured[0], LinkFacts());
}

}  // namespace
}  // namespace shoal
