// How a server's I/O thread divides its time when contributions arrive without end: the real loop, machine and reducer
// on this thread, and a network that costs nothing.
//
//   server_thread_bench alone OPS     times all-reduces of 4 KiB between 2 ranks, on a thread with nothing else to do
//   server_thread_bench beside OPS    the same, while 8 ranks of another job reduce 64 MiB without a pause
//   server_thread_bench large OPS     times the large job's all-reduces, alone
//   server_thread_bench shared OPS    the same, while the small job reduces 4 KiB now and then
//
// The time of a small all-reduce counts from the arrival of its contributions, which come together, until both results
// are handed to the network; that of a large one from the end of the one before. The answer is one line of JSON.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/bucket_plan.h"
#include "core/flow_plan.h"
#include "core/hash.h"
#include "core/token.h"
#include "process/clock.h"
#include "server/loop/inline_reducer.h"
#include "server/loop/server_loop.h"

namespace shoal {
namespace {

constexpr uint64_t kSlotMemoryBytes = 256 << 20;
constexpr uint64_t kLargeBytes = 64 << 20;
constexpr uint64_t kSmallBytes = 4 << 10;
constexpr uint32_t kLargeRanks = 8;
constexpr uint32_t kSmallRanks = 2;
constexpr uint64_t kPauseNs = 200'000;  // between small all-reduces, at least
constexpr uint32_t kWarmUpOps = 50;     // small ones; of the large ones, one

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "server_thread_bench: %s\n", why.c_str());
  std::exit(1);
}

// One job's group of ranks, whose contributions arrive in the order of ops and chunks as its credit allows.
class Job {
 public:
  Job(uint64_t id, uint32_t ranks, uint64_t tensor_bytes, const TokenKey& key)
      : id_(id), flow_(PlanFlow(EvenPortLoad(ranks, 1), WithinOneNode(), 0)) {
    plan_ = MakeBucketPlan(tensor_bytes / sizeof(float), WireCodec(DataType::kFloat32), flow_.chunk_bytes).value();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      GroupToken token{.job = JobId(id),
                       .group = GroupId(id),
                       .epoch = Epoch(1),
                       .incarnation = Incarnation(100 * id + rank),
                       .rank = Rank(rank),
                       .group_size = ranks,
                       .max_chunk_bytes = flow_.chunk_bytes,
                       .credit_chunks = flow_.credit_chunks,
                       .expires_at_unix_s = ReadNow().unix_ms / 1000 + 3600};
      SignToken(key, &token);
      ranks_.push_back({.token = EncodeToken(token),
                        .payloads = std::vector<float>(uint64_t{flow_.credit_chunks} * flow_.chunk_bytes / 4, 1)});
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  Note Hello(uint32_t rank) const { return MakeHello(Header(FrameType::kHello, rank), ranks_[rank].token); }

  void Allow(uint32_t ops) { ops_allowed_ += ops; }
  bool IsDone() const { return ops_done() == ops_allowed_; }
  uint64_t ops_done() const {
    uint64_t least = ranks_[0].results;
    for (const RankState& rank : ranks_) least = std::min(least, rank.results);
    return least / plan_.chunk_count;
  }

  bool CanPush(uint32_t rank) const {
    const RankState& state = ranks_[rank];
    return state.pushed < state.results + flow_.credit_chunks && state.pushed < ops_allowed_ * plan_.chunk_count;
  }
  FrameHeader Push(uint32_t rank, const std::byte** payload) {
    RankState& state = ranks_[rank];
    const uint64_t position = state.pushed++;
    const ChunkNumber chunk(static_cast<uint32_t>(position % plan_.chunk_count));
    FrameHeader header = Header(FrameType::kPush, rank);
    header.op = OpNumber(1 + position / plan_.chunk_count);
    header.landed_watermark = OpNumber(state.results / plan_.chunk_count);
    header.bucket_elements = plan_.element_count;
    header.chunk = chunk;
    header.first_element = plan_.FirstElement(chunk);
    header.chunk_elements = plan_.ElementCount(chunk);
    const uint64_t cell = position % flow_.credit_chunks;
    *payload = reinterpret_cast<const std::byte*>(state.payloads.data()) + cell * flow_.chunk_bytes;
    return header;
  }
  void TakeResult(uint32_t rank, std::span<const std::byte> sum) {
    for (const size_t at : {size_t{0}, sum.size() - sizeof(float)}) {
      float element = 0;
      std::memcpy(&element, sum.data() + at, sizeof(element));
      if (element != static_cast<float>(size())) Fail("a sum is wrong");
    }
    ++ranks_[rank].results;
    if (IsDone()) done_ns_ = MonotonicNs();
  }
  // When all that was allowed was done.
  uint64_t done_ns() const { return done_ns_; }

 private:
  struct RankState {
    std::array<std::byte, kGroupTokenBytes> token;
    std::vector<float> payloads;  // of the chunks that are under way
    uint64_t pushed = 0;          // chunks, over all ops
    uint64_t results = 0;
  };

  FrameHeader Header(FrameType type, uint32_t rank) const {
    return {.type = type, .group = GroupId(id_), .epoch = Epoch(1), .rank = Rank(rank)};
  }

  const uint64_t id_;
  const FlowPlan flow_;
  BucketPlan plan_;
  std::vector<RankState> ranks_;
  uint64_t ops_allowed_ = 0;
  uint64_t done_ns_ = 0;
};

// What the jobs' ranks sent is there at the next Poll, and is lent; what is sent to them is there at once.
class EndlessNetwork : public Transport, public PayloadLender {
 public:
  // The jobs outlive it.
  void Add(Job* job) {
    for (uint32_t rank = 0; rank < job->size(); ++rank) {
      peers_.push_back({.job = job, .rank = rank, .hello = job->Hello(rank)});
      Event({.kind = TransportEventKind::kPeerUp, .peer = PeerId(peers_.size())});
      Event({.kind = TransportEventKind::kNote, .peer = PeerId(peers_.size()), .bytes = peers_.back().hello.view()});
    }
  }

  std::span<const TransportEvent> Poll() override {
    polled_.swap(next_);
    next_.clear();
    headers_.clear();
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      while (peer.welcomed && peer.job->CanPush(peer.rank)) {
        const std::byte* payload = nullptr;
        const FrameHeader header = peer.job->Push(peer.rank, &payload);
        headers_.push_back(EncodeHeader(header));
        offers_.push_back(payload);
        polled_.push_back({.kind = TransportEventKind::kOffered,
                           .peer = PeerId(i + 1),
                           .offer = OfferId(first_offer_ + offers_.size() - 1),
                           .payload_bytes = uint64_t{header.chunk_elements} * sizeof(float),
                           .bytes = headers_.back()});
      }
    }
    return polled_;
  }
  const std::byte* Borrow(OfferId offer) override { return offers_[offer.value() - first_offer_]; }
  void Return(OfferId offer) override {
    offers_[offer.value() - first_offer_] = nullptr;
    while (!offers_.empty() && offers_.front() == nullptr) {
      offers_.pop_front();
      ++first_offer_;
    }
  }
  PayloadLender* lender() override { return this; }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override {
    const FrameHeader header = DecodeHeader(note).value();
    if (header.type == FrameType::kRefuse) Fail(DecodeText(note.subspan(kFrameHeaderBytes)));
    if (header.type == FrameType::kWelcome) peers_[peer.value() - 1].welcomed = true;
    return absl::OkStatus();
  }
  absl::Status Send(PeerId peer, std::span<const std::byte>, std::span<const std::byte> sum, uint64_t token) override {
    const Peer& to = peers_[peer.value() - 1];
    to.job->TakeResult(to.rank, sum);
    Event({.kind = TransportEventKind::kSent, .token = token});
    return absl::OkStatus();
  }
  absl::Status Accept(OfferId, std::span<std::byte>, uint64_t) override { Fail("a payload was not borrowed"); }
  void Decline(OfferId) override { Fail("a payload was declined"); }
  void Close(PeerId) override { Fail("a connection was closed"); }
  absl::StatusOr<PeerId> Connect(const std::string&) override { return absl::UnimplementedError(""); }
  bool Arm() override { return false; }
  int wake_fd() const override { return -1; }
  void Wake() override {}
  std::string listen_address() const override { return ""; }
  TransportReport Report(std::span<const PeerId>) const override { return {}; }

 private:
  struct Peer {
    Job* job = nullptr;
    uint32_t rank = 0;
    Note hello;
    bool welcomed = false;
  };

  void Event(TransportEvent event) { next_.push_back(std::move(event)); }

  std::deque<Peer> peers_;  // peer k is number k - 1; in place, as hellos are pointed at
  std::vector<TransportEvent> next_;
  std::vector<TransportEvent> polled_;
  std::deque<FrameHeaderBytes> headers_;  // of the last Poll
  std::deque<const std::byte*> offers_;   // payloads, null once returned
  uint64_t first_offer_ = 1;
};

class Bench {
 public:
  Bench()
      : slot_memory_(new std::byte[kSlotMemoryBytes]),
        loop_({.server_name = "bench",
               .incarnation = Incarnation(1),
               .token_key = key_,
               .slot_memory_bytes = kSlotMemoryBytes},
              &network_, &reducer_, std::span(slot_memory_.get(), kSlotMemoryBytes)),
        large_(1, kLargeRanks, kLargeBytes, key_),
        small_(2, kSmallRanks, kSmallBytes, key_) {}

  std::vector<double> TimeSmall(uint32_t ops, bool beside_large) {
    network_.Add(&small_);
    if (beside_large) {
      network_.Add(&large_);
      large_.Allow(UINT32_MAX);
      RunUntil([this] { return large_.ops_done() > 0; });
    }
    std::vector<double> times_us;
    for (uint32_t op = 0; op < kWarmUpOps + ops; ++op) {
      // A different part of a round each time.
      const uint64_t arrival_ns = MonotonicNs() + kPauseNs + StableHash({op}) % kPauseNs;
      RunUntil([&] { return MonotonicNs() >= arrival_ns; });
      small_.Allow(1);
      RunUntil([this] { return small_.IsDone(); });
      if (op >= kWarmUpOps) times_us.push_back(static_cast<double>(small_.done_ns() - arrival_ns) / 1e3);
    }
    return times_us;
  }

  std::vector<double> TimeLarge(uint32_t ops, bool beside_small) {
    network_.Add(&large_);
    if (beside_small) network_.Add(&small_);
    large_.Allow(ops + 1);
    std::vector<double> times_us;
    uint64_t since_ns = 0;
    uint64_t next_small_ns = 0;
    for (uint32_t op = 0; op <= ops; ++op) {
      RunUntil([&] {
        if (beside_small && small_.IsDone() && MonotonicNs() >= next_small_ns) {
          small_.Allow(1);
          next_small_ns = MonotonicNs() + kPauseNs;
        }
        return large_.ops_done() > op;
      });
      if (op > 0) times_us.push_back(static_cast<double>(MonotonicNs() - since_ns) / 1e3);
      since_ns = MonotonicNs();
    }
    return times_us;
  }

 private:
  template <typename Condition>
  void RunUntil(const Condition& done) {
    while (!done()) loop_.RunOnce(ReadNow());
  }

  const TokenKey key_{};
  EndlessNetwork network_;
  InlineReducer reducer_;
  const std::unique_ptr<std::byte[]> slot_memory_;
  ServerLoop loop_;
  Job large_;
  Job small_;
};

int Main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  const long ops = argc == 3 ? std::atol(argv[2]) : 0;
  const bool times_small = mode == "alone" || mode == "beside";
  if ((!times_small && mode != "large" && mode != "shared") || ops < 1 || ops > 1'000'000) {
    std::fprintf(stderr, "usage: server_thread_bench alone|beside|large|shared OPS\n");
    return 2;
  }
  Bench bench;
  const auto count = static_cast<uint32_t>(ops);
  const std::vector<double> times_us =
      times_small ? bench.TimeSmall(count, mode == "beside") : bench.TimeLarge(count, mode == "shared");
  std::printf("{\"op_times_us\": [%s]}\n", absl::StrJoin(times_us, ", ").c_str());
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
