// What a server makes of what peers send: the real loop and machine under a network that the input writes.
//
// The input is a row of steps: peers come and go, say hello with good and bad tokens, send frames that are right,
// nearly right or noise; payloads land and replies end in any order. Held against it: nothing aborts, every request to
// the network keeps its contract (scripted_transport.cc), a chunk is summed once (I2), what is held has a bound, and
// when all peers are gone nothing is left (I7).
#include <optional>
#include <vector>

#include "core/bucket_plan.h"
#include "core/token.h"
#include "server/loop/inline_reducer.h"
#include "server/loop/server_loop.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/scripted_transport.h"

namespace shoal {
namespace {

constexpr size_t kSlotMemoryBytes = 96 << 10;
constexpr uint32_t kMaxGroups = 3;
constexpr size_t kMaxPeers = 6;
constexpr uint64_t kUnixS = 1'800'000'000;
constexpr uint32_t kGroupSizes[] = {1, 2, 3};
constexpr uint32_t kChunkBytes[] = {1024, 2048};
constexpr uint32_t kLargestCredit = 4;
constexpr uint64_t kBucketElements[] = {1, 256, 300, 2000, uint64_t{1} << 40};

ServerMachineOptions Options() {
  ServerMachineOptions options;
  options.server_name = "server-a";
  options.incarnation = Incarnation(77);
  options.token_key.fill(std::byte{5});
  options.slot_memory_bytes = kSlotMemoryBytes;
  options.max_groups = kMaxGroups;
  options.waiting_report_ns = kNsPerS;
  return options;
}

class ServerUnderFuzz {
 public:
  explicit ServerUnderFuzz(FuzzInput input)
      : input_(input),
        memory_(kSlotMemoryBytes),
        transport_(memory_),
        loop_(Options(), &transport_, &reducer_, memory_) {}

  void Run() {
    while (!input_.empty()) {
      Step();
      Settle();
    }
    EndEverything();
  }

 private:
  void Step() {
    switch (input_.TakeBelow(13)) {
      case 0:
        if (transport_.peers().size() < kMaxPeers) transport_.GivePeer();
        return;
      case 1:
        if (const auto peer = TakePeer()) transport_.LosePeer(*peer);
        return;
      case 2:
      case 3:
        return Hello();
      case 4:
        return RawNote();
      case 5:
        return MadeNote();
      case 6:
        return RawOffer();
      case 7:
      case 8:
        return Push();
      case 9:
        return transport_.EndAccept(input_.TakeBelow(256), input_.TakeBelow(8) != 0);
      case 10:
        return transport_.EndSend(input_.TakeBelow(256), input_.TakeBelow(8) != 0);
      case 11:
        now_.monotonic_ns += uint64_t{input_.TakeNumber<uint8_t>()} * 100 * kNsPerMs;
        return;
      case 12:
        if (input_.TakeBelow(16) == 0) loop_.SetDraining(input_.TakeBelow(4) != 0);
        while (transport_.open_accepts() > 0) transport_.EndAccept(0, true);
        while (transport_.open_sends() > 0) transport_.EndSend(0, true);
        return;
    }
  }

  void Hello() {
    const auto peer = TakePeer();
    if (!peer) return;
    GroupToken token;
    token.job = JobId(9);
    token.group = TakeGroup();
    token.epoch = TakeEpoch();
    token.group_size = input_.TakeOneOf(kGroupSizes);
    token.rank = TakeRank();
    token.incarnation = Incarnation(1000 + token.rank.value());
    token.max_chunk_bytes = input_.TakeOneOf(kChunkBytes);
    token.credit_chunks = 1 + input_.TakeBelow(kLargestCredit);
    token.expires_at_unix_s = kUnixS + 60;
    const uint32_t wrong = input_.TakeBelow(16);
    if (wrong == 1) token.expires_at_unix_s = kUnixS;
    if (wrong == 8 || wrong == 9) token.ranks_per_contribution = wrong == 8 ? 2 : 0;
    SignToken(Options().token_key, &token);
    if (wrong == 2) token.signature[0] ^= std::byte{1};
    FrameHeader header{.type = FrameType::kHello, .group = token.group, .epoch = token.epoch, .rank = token.rank};
    if (wrong == 3) header.rank = TakeRank();
    // The group moves.
    if (wrong == 4 || wrong == 5) header.epoch = Epoch(token.epoch.value() + wrong - 3);
    if (wrong >= 5 && wrong < 8) header.op = OpNumber(wrong);  // it has results
    transport_.GiveNote(*peer, MakeHello(header, EncodeToken(token)).view());
  }

  void RawNote() {
    const auto peer = TakePeer();
    if (peer) transport_.GiveNote(*peer, input_.Take(input_.TakeNumber<uint16_t>() % (kMaxNoteBytes + 1)));
  }

  void MadeNote() {
    const auto peer = TakePeer();
    if (!peer) return;
    FrameHeader header = TakeHeader();
    header.type = static_cast<FrameType>(1 + input_.TakeBelow(13));
    const std::span<const std::byte> body = input_.Take(input_.TakeBelow(64));
    transport_.GiveNote(*peer, MakeTextNote(header, {reinterpret_cast<const char*>(body.data()), body.size()}).view());
  }

  void RawOffer() {
    const auto peer = TakePeer();
    if (!peer) return;
    const uint64_t payload_bytes = 1 + input_.TakeNumber<uint32_t>();
    transport_.GiveOffer(*peer, input_.Take(kFrameHeaderBytes), payload_bytes);
  }

  // As a worker's, but for what the input changes.
  void Push() {
    const auto peer = TakePeer();
    if (!peer) return;
    FrameHeader header = TakeHeader();
    header.type = FrameType::kPush;
    header.bucket_elements = input_.TakeOneOf(kBucketElements);
    header.codec = WireCodec(*DataTypeFromWire(static_cast<uint8_t>(1 + input_.TakeBelow(9))));
    header.reduce_op = *ReduceOpFromWire(static_cast<uint8_t>(1 + input_.TakeBelow(6)));
    if (!CanReduce(header.codec.tensor_type(), header.reduce_op)) header.reduce_op = ReduceOp::kSum;
    const auto plan = MakeBucketPlan(header.bucket_elements, header.codec, input_.TakeOneOf(kChunkBytes));
    if (plan.ok()) {
      header.chunk = ChunkNumber(input_.TakeBelow(4) % plan->chunk_count);
      header.first_element = plan->FirstElement(header.chunk);
      header.chunk_elements = plan->ElementCount(header.chunk);
    }
    uint64_t payload_bytes = header.payload_bytes();
    const uint32_t wrong = input_.TakeBelow(16);
    // A result that is handed over, if the group is of that size.
    if (wrong >= 3 && wrong < 6) header.contributors = wrong - 2;
    FrameHeaderBytes bytes = EncodeHeader(header);
    if (wrong == 1) payload_bytes = input_.TakeNumber<uint32_t>();
    if (wrong == 2) bytes[input_.TakeBelow(kFrameHeaderBytes)] ^= static_cast<std::byte>(input_.TakeNumber<uint8_t>());
    transport_.GiveOffer(*peer, bytes, std::max<uint64_t>(payload_bytes, 1));
  }

  FrameHeader TakeHeader() {
    FrameHeader header;
    header.group = TakeGroup();
    header.epoch = TakeEpoch();
    header.rank = TakeRank();
    // Few ops, so that ranks meet, and seldom one that is far away.
    const uint32_t op = input_.TakeBelow(64);
    header.op = OpNumber(op < 56 ? op % 8 : input_.TakeNumber<uint64_t>());
    const uint32_t watermark = input_.TakeBelow(64);
    header.landed_watermark = OpNumber(watermark % 4);
    header.commit_watermark = OpNumber(watermark < 60 ? 0 : input_.TakeNumber<uint64_t>());
    return header;
  }

  std::optional<PeerId> TakePeer() {
    const std::vector<PeerId>& peers = transport_.peers();
    if (peers.empty()) return std::nullopt;
    return peers[input_.TakeBelow(kMaxPeers) % peers.size()];
  }
  GroupId TakeGroup() { return GroupId(1 + input_.TakeBelow(kMaxGroups + 1)); }
  Epoch TakeEpoch() {
    const uint32_t which = input_.TakeBelow(16);
    return Epoch(which == 1 ? 4 : which == 2 ? 5 : 3);
  }
  Rank TakeRank() { return Rank(input_.TakeBelow(4)); }

  // Runs the loop until it has seen everything.
  void Settle() {
    constexpr int kMostRounds = 10'000;
    int rounds = 0;
    while (loop_.RunOnce(now_) || !transport_.idle()) Require(++rounds < kMostRounds, "the server comes to rest");
    const ServerCounters counters = loop_.counters();
    Require(counters.groups_open <= kMaxGroups, "groups have a bound");
    Require(counters.slot_memory_used_bytes <= kSlotMemoryBytes, "slot memory has a bound");
    Require(transport_.open_offers() <= size_t{counters.groups_open} * 3 * kLargestCredit, "held pushes have a bound");
    if (counters.groups_open < groups_open_) transport_.ForgetResults();
    groups_open_ = counters.groups_open;
  }

  void EndEverything() {
    while (!transport_.peers().empty()) {
      transport_.LosePeer(transport_.peers().front());
      Settle();
    }
    // They don't come back.
    now_.monotonic_ns += ServerPatienceNs(Options().lease_ttl_ns, /*scheduler_is_colocated=*/false);
    Settle();
    const ServerCounters counters = loop_.counters();
    Require(counters.peers == 0, "nobody is connected at the end");
    Require(counters.groups_open == 0, "no group is left at the end");
    Require(counters.slot_memory_used_bytes == 0, "no slot memory is left in use at the end");
    Require(transport_.open_accepts() + transport_.open_sends() + transport_.open_offers() == 0,
            "nothing is under way at the end");
  }

  FuzzInput input_;
  std::vector<std::byte> memory_;
  ScriptedTransport transport_;
  InlineReducer reducer_;
  ServerLoop loop_;
  Now now_{.monotonic_ns = kNsPerS, .unix_ms = kUnixS * 1000};
  uint32_t groups_open_ = 0;
};

}  // namespace
}  // namespace shoal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shoal::ServerUnderFuzz(shoal::FuzzInput(data, size)).Run();
  return 0;
}
