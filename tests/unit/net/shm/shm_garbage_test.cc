// A peer that greets well and then writes garbage into the memory that it shares: seeded, thousands of cases.
//
// Whatever it writes, its victim stays within its own limits, keeps every clause of net/transport.h, and serves the
// good peer beside it. Run it with the sanitizers.
#include <filesystem>
#include <iterator>
#include <list>
#include <random>

#include "tests/conformance/transport/shm_under_test.h"
#include "tests/conformance/transport/transport_harness.h"
#include "tests/unit/net/shm/shm_stranger.h"

namespace shoal {
namespace {

constexpr int kCases = 3000;
constexpr size_t kAtATime = 6;

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(descriptors), end(descriptors)));
}

class GarbageWriter {
 public:
  GarbageWriter(uint64_t seed, const std::string& address) : random_(seed), stranger_(Stranger::ConnectTo(address)) {
    stranger_.Greet(Stranger::Greeting(), stranger_.Memory());
  }

  // Writes something else. False: it has had enough, and hangs up.
  bool Step() {
    if (!stranger_.IsGreeted()) return true;
    if (++steps_ > 8 || Chance(50)) return false;
    WriteRecords();
    if (Chance(100)) stranger_.header().consumed = AnyNumber();
    if (Chance(500)) stranger_.header().consumed = stranger_.their_header().produced.load();
    if (Chance(300)) stranger_.header().wants_room = static_cast<uint32_t>(random_());
    if (Chance(50)) stranger_.header().stage = static_cast<uint32_t>(Chance(500) ? random_() % 4 : random_());
    if (Chance(300)) stranger_.status_page().sleeps = AnyNumber();
    Ring();
    return true;
  }

 private:
  bool Chance(uint32_t per_mille) { return random_() % 1000 < per_mille; }

  uint64_t AnyNumber() {
    switch (random_() % 5) {
      case 0:
        return random_() % 64;
      case 1:
        return UINT64_MAX - random_() % 64;
      case 2:
        return kRingBytes * (random_() % 4) + random_() % 64;
      case 3:
        return uint64_t{1} << random_() % 64;
      default:
        return random_();
    }
  }

  // Where the victim reads on; it is only told so when it has read all.
  uint64_t Position() { return stranger_.their_header().consumed.load(); }

  void WriteRecords() {
    uint64_t end = Position();
    if (Chance(100)) {
      const Bytes noise = Pattern(4096, random_());
      const size_t at = end % kRingBytes;
      std::memcpy(stranger_.ring().data() + at, noise.data(), std::min(noise.size(), kRingBytes - at));
      end += 32 * (random_() % 128);
    }
    for (uint64_t i = random_() % 40; i > 0; --i) end = WriteRecord(end);
    stranger_.header().produced = Chance(50) ? AnyNumber() : Chance(50) ? end + random_() % 4096 : end;
  }

  // One that is nearly right, most of the time. Returns where it ends.
  uint64_t WriteRecord(uint64_t position) {
    RecordHeader record;
    record.type = static_cast<RecordType>(Chance(990) ? 1 + random_() % 7 : random_());
    record.header_bytes = static_cast<uint16_t>(Chance(990) ? 1 + random_() % 64 : random_());
    record.send_number = Chance(980) ? 1 + random_() % 8 : AnyNumber();
    // So that some of them can be asked for.
    if (record.type == RecordType::kKept && Chance(900)) record.send_number = ++kept_;
    if (record.type == RecordType::kPiece && Chance(900)) record.send_number = 1 + random_() % (kept_ + 1);
    record.offset = Chance(980) ? PageArena::kPageBytes * (random_() % 2) : AnyNumber();
    record.payload_bytes = Chance(980) ? 1 + random_() % (2 * PageArena::kPageBytes) : AnyNumber();
    uint64_t bytes = sizeof(record) + record.header_bytes;
    if (CarriesPayload(record.type)) {
      if (Chance(980)) record.payload_bytes %= 600;
      bytes += std::min<uint64_t>(record.payload_bytes, 8192);
    }
    bytes = (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
    record.record_bytes = Chance(990) ? static_cast<uint32_t>(bytes) : static_cast<uint32_t>(AnyNumber());
    const size_t at = position % kRingBytes / kRecordAlignment * kRecordAlignment;
    std::memcpy(stranger_.ring().data() + at, &record, sizeof(record));
    return position + bytes;
  }

  void Ring() {
    RingBell(stranger_.socket());
    if (Chance(50)) stranger_.Say({});
    if (Chance(50)) stranger_.Say(Pattern(random_() % 300, 1));
    if (Chance(50)) stranger_.Say(Pattern(1, 1), {stranger_.socket(), fileno(stderr)});
    for (int i = 0; Chance(900) && i < 100; ++i) RingBell(stranger_.socket());
  }

  std::mt19937_64 random_;
  Stranger stranger_;
  int steps_ = 0;
  uint64_t kept_ = 0;
};

// Takes what strangers offer in all the ways that there are, and talks to them.
class Victim {
 public:
  explicit Victim(const TransportLimits& limits)
      : node_(MakeShmUnderTest({.listen_address = NextAddress(), .arena_bytes = 1 << 20, .limits = limits})) {}

  Node& node() { return node_; }

  void Poll(std::mt19937_64& random) {
    node_.Poll();
    for (; looked_at_ < node_.seen().size(); ++looked_at_) {
      const Node::Seen seen = node_.seen()[looked_at_];
      if (seen.event.kind == TransportEventKind::kPeerUp) TalkTo(seen.event.peer, random);
      if (seen.event.kind == TransportEventKind::kOffered) Take(seen, random);
    }
    for (uint64_t i = random() % 4; i > 0 && !loans_.empty(); --i) {
      const auto loan = loans_.begin() + static_cast<ptrdiff_t>(random() % loans_.size());
      for (size_t at = 0; at < loan->expected.size(); ++at) read_ += std::to_integer<uint64_t>(loan->data[at]);
      node_.transport().lender()->Return(loan->offer);
      loans_.erase(loan);
    }
  }

  size_t loans() const { return loans_.size(); }
  uint64_t offers() const { return offers_; }
  uint64_t sends() const { return sends_; }
  uint64_t read() const { return read_; }  // of loans, so that nobody leaves the reading out

 private:
  void TalkTo(PeerId peer, std::mt19937_64& random) {
    for (int i = 0; i < 10; ++i) {
      node_.transport().SendNote(peer, AsBytes("hello")).IgnoreError();
      const size_t bytes = random() % 2 == 0 ? 100 : 30'000;
      if (node_.transport().Send(peer, {}, std::span(payload_).first(bytes), sends_ + 1).ok()) ++sends_;
    }
  }

  void Take(const Node::Seen& offer, std::mt19937_64& random) {
    ++offers_;
    // What it says it keeps has any size; no server accepts more than its slots hold.
    if (offer.event.payload_bytes > Stranger::kArenaBytes) return node_.transport().Decline(offer.event.offer);
    switch (random() % 4) {
      case 0:
        return node_.Accept(offer);
      case 1:
        return node_.transport().Decline(offer.event.offer);
      case 2:
        if (const std::byte* const data = node_.transport().lender()->Borrow(offer.event.offer); data != nullptr) {
          loans_.push_back({offer.event.offer, data, Bytes(offer.event.payload_bytes)});
        }
        return;
      default:
        return;  // it stays
    }
  }

  const Bytes payload_ = Pattern(30'000, 1);
  Node node_;
  size_t looked_at_ = 0;
  std::vector<Loan> loans_;
  uint64_t offers_ = 0;
  uint64_t sends_ = 0;
  uint64_t read_ = 0;
};

TEST(ShmGarbage, IsHarmlessWhateverItIs) {
  std::mt19937_64 random(1);
  const size_t descriptors = OpenDescriptors();
  {
    Victim victim({.max_offers_per_peer = 64, .max_held_bytes_per_peer = 64 << 10});
    Node& node = victim.node();
    Node good(MakeShmUnderTest({}));
    const PeerId to_victim = *good.transport().Connect(node.transport().listen_address());
    while (!good.IsUp(to_victim)) {
      node.Poll();
      good.Poll();
    }
    const PeerId to_good = node.LastPeer();
    std::list<GarbageWriter> writers;
    uint64_t notes = 0;
    int cases = 0;
    while (cases < kCases || !writers.empty()) {
      while (cases < kCases && writers.size() < kAtATime) {
        writers.emplace_back(static_cast<uint64_t>(++cases), node.transport().listen_address());
      }
      std::erase_if(writers, [](GarbageWriter& writer) { return !writer.Step(); });
      victim.Poll(random);
      // The good peer's notes come through beside all that.
      if (good.transport().SendNote(to_victim, AsBytes(std::to_string(notes))).ok()) ++notes;
      good.Poll();
    }
    const auto all_gone = [&] {
      return node.Count(TransportEventKind::kPeerDown) + 1 == node.Count(TransportEventKind::kPeerUp);
    };
    for (int i = 0; i < 200 || (i < 100'000 && (!all_gone() || victim.loans() != 0)); ++i) victim.Poll(random);
    EXPECT_TRUE(all_gone());
    EXPECT_FALSE(node.IsDown(to_good));
    node.ExpectPeerOrder();
    node.ExpectEachSentOnce(victim.sends());
    EXPECT_EQ(node.landings_in_flight(), 0u);
    uint64_t heard = 0;
    for (const Node::Seen& seen : node.All(TransportEventKind::kNote)) {
      if (seen.event.peer != to_good) continue;
      EXPECT_EQ(AsText(seen.bytes), std::to_string(heard++));
    }
    EXPECT_EQ(heard, notes);
    // The cases are worth running only if the strangers got somewhere, and were found out.
    EXPECT_GT(victim.offers(), 1000u);
    EXPECT_GT(victim.read(), 0u);
    uint64_t found_out = 0;
    for (const Node::Seen& seen : node.All(TransportEventKind::kPeerDown)) {
      found_out += absl::IsInvalidArgument(seen.event.status) || absl::IsResourceExhausted(seen.event.status);
    }
    EXPECT_GT(found_out, static_cast<uint64_t>(kCases) / 3);
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// A stranger that is up, as its victim has it.
class ShmForgery : public testing::Test {
 protected:
  static constexpr uint64_t kPayloadBytes = 100;

  ShmForgery()
      : node_(MakeShmUnderTest({.listen_address = NextAddress(), .arena_bytes = 0})),
        stranger_(Stranger::ConnectTo(node_.transport().listen_address())) {
    stranger_.Greet(Stranger::Greeting(), stranger_.Memory());
    for (int i = 0; i < 1000 && node_.Count(TransportEventKind::kPeerUp) == 0; ++i) node_.Poll();
  }

  // Writes a record with `carried` bytes behind it, and lets the victim read it.
  void Say(RecordHeader record, uint64_t carried = 0) {
    const uint64_t bytes = (sizeof(record) + carried + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
    record.record_bytes = static_cast<uint32_t>(bytes);
    std::memcpy(stranger_.ring().data() + written_, &record, sizeof(record));
    written_ += bytes;
    stranger_.header().produced = written_;
    node_.Poll();
  }
  void OfferKept(uint64_t number) {
    Say({.type = RecordType::kKept, .payload_bytes = kPayloadBytes, .send_number = number});
  }
  void SayPiece(uint64_t number, uint64_t bytes) {
    Say({.type = RecordType::kPiece, .payload_bytes = bytes, .send_number = number}, bytes);
  }
  // Of a payload for which the victim has no room, so that it keeps it.
  void LetVictimSend() {
    EXPECT_TRUE(node_.transport().Send(node_.LastPeer(), {}, payload_, 1).ok());
    node_.Poll();
  }
  // No piece finds room then.
  void FillRing() {
    const Bytes note = Pattern(kMaxNoteBytes, 1);
    for (uint64_t bytes = 0; bytes < kRingBytes; bytes += note.size()) {
      ASSERT_TRUE(node_.transport().SendNote(node_.LastPeer(), note).ok());
    }
  }
  void AcceptLast() { node_.Accept(node_.All(TransportEventKind::kOffered).back()); }

  void ExpectFoundOut() {
    node_.Poll();
    ASSERT_TRUE(node_.IsDown(node_.LastPeer()));
    EXPECT_TRUE(absl::IsInvalidArgument(node_.WhyDown(node_.LastPeer()))) << node_.WhyDown(node_.LastPeer());
    EXPECT_EQ(node_.landings_in_flight(), 0u);
    node_.ExpectPeerOrder();
  }

  const Bytes payload_ = Pattern(100'000, 1);
  Node node_;
  Stranger stranger_;
  uint64_t written_ = 0;
};

TEST_F(ShmForgery, OffersOfKeptPayloadsHaveNewNumbersAndBytes) {
  OfferKept(5);
  EXPECT_EQ(node_.Count(TransportEventKind::kOffered), 1u);
  OfferKept(5);
  ExpectFoundOut();
}

TEST_F(ShmForgery, AKeptPayloadOfNoBytesIsNone) {
  Say({.type = RecordType::kKept, .send_number = 1});
  ExpectFoundOut();
}

TEST_F(ShmForgery, ALentPayloadInARegionThatIsNotThereIsRefusedWhateverItsSize) {
  Say({.type = RecordType::kLent, .payload_bytes = 0, .offset = kInRegionBit, .send_number = 1});
  ExpectFoundOut();
}

TEST_F(ShmForgery, PiecesOfWhatWasNotAskedForAreRefused) {
  OfferKept(1);
  SayPiece(1, 10);
  ExpectFoundOut();
}

TEST_F(ShmForgery, NoMoreBytesLandThanWereOffered) {
  OfferKept(1);
  AcceptLast();
  SayPiece(1, kPayloadBytes - 1);
  EXPECT_EQ(node_.landings_in_flight(), 1u);
  SayPiece(1, 2);
  ExpectFoundOut();
  EXPECT_FALSE(node_.received().back().status.ok());
}

TEST_F(ShmForgery, AnEmptyPieceIsRefused) {
  OfferKept(1);
  AcceptLast();
  SayPiece(1, 0);
  ExpectFoundOut();
}

TEST_F(ShmForgery, PiecesThatAddUpLandOnce) {
  OfferKept(1);
  AcceptLast();
  SayPiece(1, kPayloadBytes - 1);
  SayPiece(1, 1);
  ASSERT_EQ(node_.received().size(), 1u);
  EXPECT_TRUE(node_.received().back().status.ok());
  SayPiece(1, 1);
  ExpectFoundOut();
}

TEST_F(ShmForgery, WhatWasNotKeptCanNotBeAskedFor) {
  LetVictimSend();
  Say({.type = RecordType::kAsked, .send_number = 2});
  ExpectFoundOut();
  node_.ExpectEachSentOnce(1);
}

TEST_F(ShmForgery, WhatWasAskedForCanNotBeAskedForAgain) {
  LetVictimSend();
  FillRing();
  Say({.type = RecordType::kAsked, .send_number = 1});
  Say({.type = RecordType::kAsked, .send_number = 1});
  ExpectFoundOut();
  node_.ExpectEachSentOnce(1);
}

TEST_F(ShmForgery, WhatWasAskedForCanNotBeRefusedAnyMore) {
  LetVictimSend();
  FillRing();
  Say({.type = RecordType::kAsked, .send_number = 1});
  Say({.type = RecordType::kReturned, .send_number = 1});
  ExpectFoundOut();
  node_.ExpectEachSentOnce(1);
}

TEST(ShmGarbage, WhoSaysThatItClosedAndGoesOnIsReadForOneRingAtMost) {
  Node node(MakeShmUnderTest({.listen_address = NextAddress()}));
  Stranger stranger = Stranger::ConnectTo(node.transport().listen_address());
  stranger.Greet(Stranger::Greeting(), stranger.Memory());
  for (int i = 0; i < 1000 && node.Count(TransportEventKind::kPeerUp) == 0; ++i) node.Poll();
  ASSERT_EQ(node.Count(TransportEventKind::kPeerUp), 1u);
  for (size_t at = 0; at < kRingBytes; at += 64) {
    const RecordHeader note{.record_bytes = 64, .type = RecordType::kNote, .header_bytes = 8};
    std::memcpy(stranger.ring().data() + at, &note, sizeof(note));
  }
  stranger.header().produced = kRingBytes;
  stranger.header().stage = static_cast<uint32_t>(SideStage::kClosed);
  node.Poll();
  node.Poll();
  EXPECT_TRUE(node.IsDown(node.LastPeer()));
  EXPECT_EQ(node.Count(TransportEventKind::kNote), kRingBytes / 64);
  EXPECT_TRUE(stranger.HasEnded());
}

}  // namespace
}  // namespace shoal
