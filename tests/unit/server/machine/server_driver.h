// Drives a ServerMachine by hand: events in, actions sorted by kind out.
//
// What the machine asked for stays listed until a test takes it or Clear()s it. The network does nothing by itself:
// LandAll, ReduceAll and SendAll say when its operations end.
#ifndef SHOAL_TESTS_UNIT_SERVER_MACHINE_SERVER_DRIVER_H_
#define SHOAL_TESTS_UNIT_SERVER_MACHINE_SERVER_DRIVER_H_

#include <string>
#include <utility>
#include <vector>

#include "core/bucket_plan.h"
#include "core/token.h"
#include "gtest/gtest.h"
#include "server/machine/server_machine.h"

namespace shoal {

struct SeenNote {
  PeerId peer;
  FrameHeader header;
  std::vector<std::byte> body;

  std::string text() const { return DecodeText(body); }
};

class ServerDriver {
 public:
  static constexpr uint64_t kNowUnixS = 1'800'000'000;
  static constexpr uint64_t kLeaseTtlNs = 2 * kNsPerS;
  static constexpr uint64_t kPatienceNs = ServerPatienceNs(kLeaseTtlNs, /*scheduler_is_colocated=*/false);

  static ServerMachineOptions Options(uint64_t slot_memory_bytes = 64 << 20, uint32_t window_bytes = 16 << 10) {
    ServerMachineOptions options;
    options.server_name = "server-a";
    options.incarnation = Incarnation(77);
    options.token_key.fill(std::byte{5});
    options.slot_memory_bytes = slot_memory_bytes;
    options.window_bytes = window_bytes;
    options.waiting_report_ns = kNsPerS;
    options.lease_ttl_ns = kLeaseTtlNs;
    return options;
  }

  explicit ServerDriver(const ServerMachineOptions& options = Options()) : key_(options.token_key), machine_(options) {}
  // With a group of so many ranks (JoinAll).
  explicit ServerDriver(uint32_t ranks, const ServerMachineOptions& options = Options()) : ServerDriver(options) {
    peers = JoinAll(ranks);
  }

  // ---- events ----

  PeerId Up() {
    const PeerId peer(next_peer_++);
    Give({.kind = TransportEventKind::kPeerUp, .peer = peer});
    return peer;
  }
  void Down(PeerId peer, absl::Status why = absl::UnavailableError("connection reset")) {
    Give({.kind = TransportEventKind::kPeerDown, .peer = peer, .status = std::move(why)});
  }
  void GiveNote(PeerId peer, const Note& note) {
    Give({.kind = TransportEventKind::kNote, .peer = peer, .bytes = note.view()});
  }
  OfferId GiveOffer(PeerId peer, std::span<const std::byte> header, uint64_t payload_bytes) {
    const OfferId offer(next_offer_++);
    Give({.kind = TransportEventKind::kOffered,
          .peer = peer,
          .offer = offer,
          .payload_bytes = payload_bytes,
          .bytes = header});
    return offer;
  }
  OfferId Push(PeerId peer, const FrameHeader& header) {
    return GiveOffer(peer, EncodeHeader(header), header.payload_bytes());
  }
  void Land(const AcceptAction& accept, bool ok = true) {
    Give({.kind = TransportEventKind::kLanded,
          .token = accept.token,
          .status = ok ? absl::OkStatus() : absl::UnavailableError("cut")});
  }
  void Sent(const SendPayloadAction& send) { Give({.kind = TransportEventKind::kSent, .token = send.token}); }
  void LandAll() {
    for (const AcceptAction& accept : std::exchange(accepts, {})) Land(accept);
  }
  void ReduceAll() {
    for (const ReduceAction& reduce : std::exchange(reduces, {})) {
      ServerActions actions;
      machine_.OnEvent(ReduceDone{reduce.token}, now, &actions);
      Sort(actions);
    }
  }
  template <typename Event>
  void Order(const Event& event) {
    ServerActions actions;
    machine_.OnEvent(event, now, &actions);
    Sort(actions);
  }
  void SendAll() {
    for (const SendPayloadAction& send : std::exchange(sends, {})) Sent(send);
  }
  void TickAt(uint64_t monotonic_ns) {
    now.monotonic_ns = monotonic_ns;
    ServerActions actions;
    machine_.Tick(now, &actions);
    Sort(actions);
  }

  // Those whose connection broke did not come back, and no scheduler was heard. What was said about waits meanwhile is
  // dropped.
  void EndPatience() {
    TickAt(now.monotonic_ns + kPatienceNs);
    std::erase_if(notes, [](const SeenNote& note) { return note.header.type == FrameType::kWaiting; });
  }

  // ---- what workers say ----

  GroupToken Token(uint32_t rank, uint32_t size, uint64_t group = 1, uint32_t chunk_bytes = 1024,
                   uint32_t ranks_per_contribution = 1) const {
    GroupToken token;
    token.job = JobId(9);
    token.group = GroupId(group);
    token.epoch = Epoch(3);
    token.incarnation = Incarnation(1000 + rank);
    token.rank = Rank(rank);
    token.group_size = size;
    token.max_chunk_bytes = chunk_bytes;
    token.ranks_per_contribution = ranks_per_contribution;
    token.expires_at_unix_s = kNowUnixS + 60;
    SignToken(key_, &token);
    return token;
  }
  static FrameHeader Header(FrameType type, uint32_t rank, uint64_t group = 1) {
    FrameHeader header;
    header.type = type;
    header.group = GroupId(group);
    header.epoch = Epoch(3);
    header.rank = Rank(rank);
    return header;
  }
  // In the epoch that the token was given out in, or a later one; `newest_result` as in FrameHeader::op.
  void Hello(PeerId peer, const GroupToken& token, uint64_t epoch = 0, uint64_t newest_result = 0) {
    FrameHeader header = Header(FrameType::kHello, token.rank.value(), token.group.value());
    header.epoch = epoch == 0 ? token.epoch : Epoch(epoch);
    header.op = OpNumber(newest_result);
    GiveNote(peer, MakeHello(header, EncodeToken(token)));
  }
  // Connects and says hello; the answer is in `notes`.
  PeerId Join(uint32_t rank, uint32_t size, uint64_t group = 1, uint32_t chunk_bytes = 1024) {
    const PeerId peer = Up();
    Hello(peer, Token(rank, size, group, chunk_bytes));
    return peer;
  }
  std::vector<PeerId> JoinAll(uint32_t size, uint64_t group = 1, uint32_t chunk_bytes = 1024) {
    std::vector<PeerId> joined;
    for (uint32_t rank = 0; rank < size; ++rank) joined.push_back(Join(rank, size, group, chunk_bytes));
    EXPECT_EQ(notes.size(), size);
    for (const SeenNote& note : notes) EXPECT_EQ(note.header.type, FrameType::kWelcome) << note.text();
    Clear();
    return joined;
  }
  // A push of fp32 with the default chunk size.
  static FrameHeader PushHeader(uint32_t rank, uint64_t op, uint32_t chunk = 0, uint64_t elements = 256,
                                uint64_t group = 1) {
    const BucketPlan plan = *MakeBucketPlan(elements, WireCodec(DataType::kFloat32), 1024);
    FrameHeader header = Header(FrameType::kPush, rank, group);
    header.op = OpNumber(op);
    header.bucket_elements = elements;
    header.chunk = ChunkNumber(chunk);
    header.first_element = plan.FirstElement(ChunkNumber(chunk));
    header.chunk_elements = plan.ElementCount(ChunkNumber(chunk));
    return header;
  }

  // ---- what the machine asked for ----

  void Clear() {
    notes.clear();
    accepts.clear();
    declines.clear();
    sends.clear();
    reduces.clear();
    closes.clear();
    events.clear();
  }
  // Keys of the events for the log.
  std::vector<std::string> EventKeys() const {
    std::vector<std::string> keys;
    for (const LogEvent& event : events) keys.emplace_back(EventKey(event.kind));
    return keys;
  }
  // Takes the only note listed.
  SeenNote TakeNote() {
    EXPECT_EQ(notes.size(), 1u);
    SeenNote note = notes.empty() ? SeenNote{} : notes.front();
    notes.clear();
    return note;
  }
  // Takes the only note listed, which must be a refusal.
  SeenNote TakeRefusal() {
    SeenNote note = TakeNote();
    EXPECT_EQ(note.header.type, FrameType::kRefuse);
    return note;
  }

  uint64_t refusals(Refusal refusal) const { return machine_.counters().refusals[static_cast<size_t>(refusal)]; }
  ServerCounters counters() const { return machine_.counters(); }
  ServerMachine& machine() { return machine_; }

  Now now{.monotonic_ns = 1'000'000'000, .unix_ms = kNowUnixS * 1000};
  std::vector<PeerId> peers;  // of the ranks that it was made with
  std::vector<SeenNote> notes;
  std::vector<AcceptAction> accepts;
  std::vector<OfferId> declines;
  std::vector<SendPayloadAction> sends;
  std::vector<ReduceAction> reduces;
  std::vector<PeerId> closes;
  std::vector<LogEvent> events;

 private:
  void Give(const TransportEvent& event) {
    ServerActions actions;
    machine_.OnEvent(event, now, &actions);
    Sort(actions);
  }
  void Sort(const ServerActions& actions) {
    for (const ServerAction& action : actions) {
      if (const auto* note = std::get_if<SendNoteAction>(&action)) {
        const std::span<const std::byte> body = note->note.view().subspan(kFrameHeaderBytes);
        notes.push_back({note->peer, *DecodeHeader(note->note.view()), {body.begin(), body.end()}});
      }
      if (const auto* accept = std::get_if<AcceptAction>(&action)) accepts.push_back(*accept);
      if (const auto* decline = std::get_if<DeclineAction>(&action)) declines.push_back(decline->offer);
      if (const auto* send = std::get_if<SendPayloadAction>(&action)) sends.push_back(*send);
      if (const auto* reduce = std::get_if<ReduceAction>(&action)) reduces.push_back(*reduce);
      if (const auto* close = std::get_if<ClosePeerAction>(&action)) closes.push_back(close->peer);
      if (const auto* log = std::get_if<LogAction>(&action)) {
        events.push_back({.kind = log->kind, .text = {log->text.data(), log->text_bytes}, .ids = log->ids});
      }
    }
  }

  TokenKey key_;
  ServerMachine machine_;
  uint64_t next_peer_ = 1;
  uint64_t next_offer_ = 1;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_SERVER_MACHINE_SERVER_DRIVER_H_
