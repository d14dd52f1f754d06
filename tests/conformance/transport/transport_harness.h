// What the transport tests stand on: transports that log what they saw, all driven by one thread.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_HARNESS_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_HARNESS_H_

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "core/frame.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct TransportSetup {
  bool listen = true;
  TransportLimits limits;
  uint64_t most_lent_bytes = 0;  // 0: as it likes. A hint, for those that lend their peers memory
};

// An implementation under test. Transports made by one kind can reach each other.
struct TransportKind {
  std::string name;
  std::function<std::unique_ptr<Transport>(const TransportSetup&)> make;
  size_t many = 64;        // peers of one transport, where the suite wants many
  int many_rounds = 3000;  // of messages to and fro
  // Called between rounds of polling; where time is simulated, it lets time pass.
  std::function<void()> idle = [] { sched_yield(); };
  // Whether Borrow gives some of the payloads of kSomeSizes.
  bool lends = false;
  // Whether AcceptsAtOnce is true of some of the payloads of kSomeSizes.
  bool accepts_at_once = true;
  // Whether payloads that nobody has answered are kept in the receiver's memory.
  bool keeps_unanswered = true;

  friend std::ostream& operator<<(std::ostream& out, const TransportKind& kind) { return out << kind.name; }
};

inline std::string TransportKindName(const testing::TestParamInfo<TransportKind>& info) { return info.param.name; }

using Bytes = std::vector<std::byte>;

// Below, at and above what fits one packet of UCX, and both protocols of the default threshold.
inline const std::vector<size_t> kSomeSizes = {1, 100, 4096, 65536, 200'000, 1 << 20};

inline std::span<const std::byte> AsBytes(const std::string& text) { return std::as_bytes(std::span(text)); }
inline std::string AsText(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Bytes that differ with the seed and with the position, so that a mixed-up or shifted payload shows.
inline Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// One transport and everything that it reported.
class Node {
 public:
  struct Seen {
    TransportEvent event;  // event.bytes is not valid any more: see `bytes`
    Bytes bytes;
  };
  struct Received {
    PeerId peer;
    Bytes header;
    Bytes payload;
    absl::Status status;
  };

  explicit Node(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  // The transport goes before the buffers that it was given.
  ~Node() { Destroy(); }

  Transport& transport() { return *transport_; }
  void Destroy() { transport_.reset(); }

  // Accepts every offer from now on.
  void AcceptAll() { accept_all_ = true; }

  void Accept(const Seen& offer) {
    const uint64_t token = next_token_++;
    Received& landing = landings_[token];
    landing = {.peer = offer.event.peer, .header = offer.bytes, .payload = Bytes(offer.event.payload_bytes)};
    const absl::Status status = transport_->Accept(offer.event.offer, landing.payload, token);
    if (!status.ok()) landings_.erase(token);
    ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }

  void Poll() {
    if (transport_ == nullptr) return;
    for (const TransportEvent& event : transport_->Poll()) {
      seen_.push_back({event, Bytes(event.bytes.begin(), event.bytes.end())});
      seen_.back().event.bytes = {};
      if (event.kind == TransportEventKind::kOffered && accept_all_) Accept(Seen(seen_.back()));
      if (event.kind == TransportEventKind::kLanded) {
        const auto landing = landings_.find(event.token);
        ASSERT_NE(landing, landings_.end()) << "kLanded for a token that is not in flight: " << event.token;
        landing->second.status = event.status;
        received_.push_back(std::move(landing->second));
        landings_.erase(landing);
      }
    }
  }

  const std::vector<Seen>& seen() const { return seen_; }
  const std::vector<Received>& received() const { return received_; }
  size_t landings_in_flight() const { return landings_.size(); }

  std::vector<Seen> All(TransportEventKind kind) const {
    std::vector<Seen> result;
    std::ranges::copy_if(seen_, std::back_inserter(result), [kind](const Seen& s) { return s.event.kind == kind; });
    return result;
  }
  size_t Count(TransportEventKind kind) const {
    return std::ranges::count_if(seen_, [kind](const Seen& s) { return s.event.kind == kind; });
  }
  bool IsUp(PeerId peer) const { return Has(TransportEventKind::kPeerUp, peer); }
  bool IsDown(PeerId peer) const { return Has(TransportEventKind::kPeerDown, peer); }
  absl::Status WhyDown(PeerId peer) const {
    for (const Seen& s : seen_) {
      if (s.event.kind == TransportEventKind::kPeerDown && s.event.peer == peer) return s.event.status;
    }
    return absl::NotFoundError("not down");
  }
  // The one that came last. 0: none has come.
  PeerId LastPeer() const {
    const std::vector<Seen> up = All(TransportEventKind::kPeerUp);
    return up.empty() ? PeerId() : up.back().event.peer;
  }

  // Fails the test unless tokens 1 .. count ended in exactly one kSent each.
  void ExpectEachSentOnce(uint64_t count) const {
    std::map<uint64_t, int> times;
    for (const Seen& s : All(TransportEventKind::kSent)) ++times[s.event.token];
    for (uint64_t token = 1; token <= count; ++token) EXPECT_EQ(times[token], 1) << "kSent of token " << token;
    EXPECT_EQ(times.size(), count);
  }

  // Fails the test unless every peer's events start with its kPeerUp (or are its kPeerDown alone) and end with
  // kPeerDown.
  void ExpectPeerOrder() const {
    std::map<PeerId, std::vector<TransportEventKind>> by_peer;
    for (const Seen& s : seen_) by_peer[s.event.peer].push_back(s.event.kind);
    for (const auto& [peer, kinds] : by_peer) {
      if (kinds.size() > 1) {
        EXPECT_EQ(kinds.front(), TransportEventKind::kPeerUp) << "peer " << peer.value();
      }
      const auto down = std::ranges::find(kinds, TransportEventKind::kPeerDown);
      if (down != kinds.end()) {
        EXPECT_EQ(down + 1, kinds.end()) << "events of peer " << peer.value() << " after its end";
      }
    }
  }

 private:
  bool Has(TransportEventKind kind, PeerId peer) const {
    return std::ranges::any_of(seen_, [&](const Seen& s) { return s.event.kind == kind && s.event.peer == peer; });
  }

  std::unique_ptr<Transport> transport_;
  bool accept_all_ = false;
  uint64_t next_token_ = 1;
  std::vector<Seen> seen_;
  std::map<uint64_t, Received> landings_;
  std::vector<Received> received_;
};

// A payload that a node borrowed, and what must be there until it is returned.
struct Loan {
  OfferId offer;
  const std::byte* data = nullptr;
  Bytes expected;

  bool IsIntact() const { return std::equal(expected.begin(), expected.end(), data); }
};

class TransportSuite : public testing::TestWithParam<TransportKind> {
 protected:
  static constexpr auto kDeadline = std::chrono::seconds(20);

  struct Link {
    PeerId to_b;  // what a calls b
    PeerId to_a;
  };

  // Keeps a payload until the nodes are gone, which may read what they were given until then.
  const Bytes& Keep(Bytes payload) { return kept_.emplace_back(std::move(payload)); }

  Node& MakeNode(const TransportSetup& setup = {}) {
    std::unique_ptr<Transport> transport = GetParam().make(setup);
    EXPECT_NE(transport, nullptr);
    return *nodes_.emplace_back(std::make_unique<Node>(std::move(transport)));
  }

  void PollAll() {
    for (const auto& node : nodes_) node->Poll();
    GetParam().idle();
  }

  // Polls every node until `done`; false (and a failed test) after kDeadline.
  bool PollUntil(const std::string& what, const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "waited in vain for: " << what;
        return false;
      }
      PollAll();
    }
    return true;
  }

  // Some rounds, for what must not happen.
  void PollFor(int rounds) {
    for (int i = 0; i < rounds; ++i) PollAll();
  }

  Link ConnectNodes(Node& a, Node& b) {
    const size_t before = b.Count(TransportEventKind::kPeerUp);
    const absl::StatusOr<PeerId> to_b = a.transport().Connect(b.transport().listen_address());
    EXPECT_TRUE(to_b.ok()) << to_b.status();
    PollUntil("both sides up", [&] { return a.IsUp(*to_b) && b.Count(TransportEventKind::kPeerUp) > before; });
    return {*to_b, b.LastPeer()};
  }

  // Sends kSomeSizes from `from`, every payload with its own bytes, and borrows at `to` what can be borrowed; the rest
  // is accepted there, which fails the test if Borrow took the offer.
  std::vector<Loan> SendAndBorrow(Node& from, PeerId to_peer, Node& to, uint64_t seed) {
    const size_t offers_before = to.Count(TransportEventKind::kOffered);
    const size_t received_before = to.received().size();
    std::vector<const Bytes*> payloads;
    for (size_t i = 0; i < kSomeSizes.size(); ++i) payloads.push_back(&Keep(Pattern(kSomeSizes[i], seed + i)));
    for (size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_TRUE(from.transport().Send(to_peer, AsBytes(std::to_string(i)), *payloads[i], ++last_token_).ok());
    }
    EXPECT_TRUE(
        PollUntil("offers", [&] { return to.Count(TransportEventKind::kOffered) == offers_before + payloads.size(); }));
    std::vector<Loan> loans;
    const std::vector<Node::Seen> offers = to.All(TransportEventKind::kOffered);
    for (size_t i = offers_before; i < offers.size(); ++i) {
      const Bytes& expected = *payloads[std::stoul(AsText(offers[i].bytes))];
      EXPECT_EQ(offers[i].event.payload_bytes, expected.size());
      const std::byte* const data = Borrow(to, offers[i].event.offer);
      if (data != nullptr) {
        loans.push_back({offers[i].event.offer, data, expected});
      } else {
        to.Accept(offers[i]);
      }
    }
    const size_t accepted = payloads.size() - loans.size();
    EXPECT_TRUE(PollUntil("landings", [&] { return to.received().size() == received_before + accepted; }));
    for (size_t i = received_before; i < to.received().size(); ++i) {
      EXPECT_TRUE(to.received()[i].status.ok()) << to.received()[i].status;
      EXPECT_TRUE(to.received()[i].payload == *payloads[std::stoul(AsText(to.received()[i].header))]);
    }
    EXPECT_EQ(loans.empty(), !GetParam().lends);
    return loans;
  }

  // Sends kSomeSizes from one node to the other and waits for all offers there.
  void SendSomeSizes(Node& from, PeerId to_peer, Node& to) {
    for (size_t i = 0; i < kSomeSizes.size(); ++i) {
      const Bytes& payload = Keep(Pattern(kSomeSizes[i], i));
      ASSERT_TRUE(from.transport().Send(to_peer, AsBytes(std::to_string(i)), payload, i + 1).ok());
    }
    ASSERT_TRUE(PollUntil("offers", [&] { return to.Count(TransportEventKind::kOffered) == kSomeSizes.size(); }));
  }

  // Accepts every offer of SendSomeSizes, each under its number as token. Fails the test if one that is accepted at
  // once is not there when Accept returns. The numbers of those.
  std::set<uint64_t> AcceptSomeSizes(Node& to) {
    std::set<uint64_t> at_once;
    for (const Node::Seen& offer : to.All(TransportEventKind::kOffered)) {
      const uint64_t number = std::stoul(AsText(offer.bytes));
      Bytes& buffer = kept_.emplace_back(kSomeSizes[number]);
      const bool copies = to.transport().AcceptsAtOnce(offer.event.offer);
      const absl::Status status = to.transport().Accept(offer.event.offer, buffer, number);
      if (!copies) continue;
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(buffer == Pattern(kSomeSizes[number], number)) << kSomeSizes[number] << " bytes";
      EXPECT_FALSE(to.transport().AcceptsAtOnce(offer.event.offer)) << "an offer that was taken";
      at_once.insert(number);
    }
    return at_once;
  }

  static void ExpectIntact(const std::vector<Loan>& loans) {
    for (const Loan& loan : loans) EXPECT_TRUE(loan.IsIntact()) << "a loan of " << loan.expected.size() << " bytes";
  }
  // What a transport that lends nothing says to every offer is what one that lends may say to some.
  static const std::byte* Borrow(Node& node, OfferId offer) {
    PayloadLender* const lender = node.transport().lender();
    return lender == nullptr ? nullptr : lender->Borrow(offer);
  }
  static void Return(Node& node, OfferId offer) {
    if (node.transport().lender() != nullptr) node.transport().lender()->Return(offer);
  }
  static void Return(Node& node, const std::vector<Loan>& loans) {
    for (const Loan& loan : loans) Return(node, loan.offer);
  }

  std::deque<Bytes> kept_;
  std::vector<std::unique_ptr<Node>> nodes_;
  uint64_t last_token_ = 0;  // of SendAndBorrow
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_HARNESS_H_
