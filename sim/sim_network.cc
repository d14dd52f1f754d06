#include "sim/sim_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "sim/sim_transport.h"

namespace shoal::sim {
namespace {

// When the kernel tries to connect after the first attempt, which got no answer.
constexpr uint64_t ConnectAttemptNs(uint64_t attempt) { return ((uint64_t{1} << attempt) - 1) * kNsPerS; }

// Of the payloads of a time in which some are changed: so that not all are neighbours.
constexpr uint32_t kChangedPerMillion = 150'000;

}  // namespace

std::unique_ptr<SimTransport> SimNetwork::MakeTransport(const std::string& node, bool listen,
                                                        std::function<void()> wake, const TransportLimits& limits) {
  const uint64_t number = next_address_++;
  const std::string address = absl::StrCat("10.0.", number / 256, ".", number % 256, ":7070");
  auto transport = std::make_unique<SimTransport>(this, node, address, listen, std::move(wake), limits);
  if (listen) listeners_[address] = transport.get();
  return transport;
}

std::vector<std::string> SimNetwork::ResetRandomConnection() {
  std::vector<std::shared_ptr<Connection>> candidates;
  for (const auto& [number, connection] : connections_) {
    if (connection->established && connection->ends[0].transport != nullptr &&
        connection->ends[1].transport != nullptr) {
      candidates.push_back(connection);
    }
  }
  if (candidates.empty()) return {};
  const std::shared_ptr<Connection> connection = candidates[world_->random().Below(candidates.size())];
  Reset(connection);
  return {connection->ends[0].node, connection->ends[1].node};
}

void SimNetwork::ResetConnectionsOf(const std::string& address) {
  for (const auto& [number, connection] : connections_) {
    if (connection->ends[1].name == address && connection->established) Reset(connection);
  }
}

void SimNetwork::Break(const std::shared_ptr<Connection>& connection, int end, const char* why) {
  SimTransport* const transport = connection->ends[end].transport;
  if (transport == nullptr) return;
  if (connection->established) on_broken_(connection->ends[end].node, connection->ends[1 - end].node);
  transport->Drop(connection->ends[end].peer, absl::UnavailableError(why));
}

void SimNetwork::Reset(const std::shared_ptr<Connection>& connection) {
  world_->TraceText("reset ", connection->ends[0].name, " - ", connection->ends[1].name);
  for (const int end : {0, 1}) {
    if (connection->ends[end].transport == nullptr) continue;
    world_->After(world_->random().Below(profile_.latency_ns * 4),
                  [this, connection, end] { Break(connection, end, "connection reset"); });
  }
}

void SimNetwork::TellOther(const std::shared_ptr<Connection>& connection, int other) {
  world_->At(ArrivalNs(*connection, 1 - other, 0),
             [this, connection, other] { Break(connection, other, "connection reset by peer"); });
}

void SimNetwork::Cut(const std::string& from, const std::string& to, bool one_way, uint64_t until_ns) {
  const NetworkCut cut{.from = from, .to = to, .one_way = one_way, .begin_ns = world_->now_ns(), .end_ns = until_ns};
  cuts_.Add(cut);
  for (const auto& [number, connection] : connections_) {
    const CutEnd ends[] = {WayEnd(connection->ends[0]), WayEnd(connection->ends[1])};
    if (!cut.Covers(ends[0], ends[1]) && !cut.Covers(ends[1], ends[0])) continue;
    for (const int end : {0, 1}) {
      const uint64_t patience_ns = SilencePatienceNs(end);
      if (connection->ends[end].transport == nullptr || cut.begin_ns + patience_ns > until_ns) continue;
      world_->After(patience_ns, [this, connection = connection, end, patience_ns] {
        GiveUpIfSilent(connection, end, patience_ns);
      });
    }
  }
}

// A probe goes out when nothing has come for an interval, and then one each interval, until some number of them in a
// row got no answer. An answer needs both ways.
uint64_t SimNetwork::SilencePatienceNs(int end) {
  const uint64_t interval_ns = end == 0 ? kRankProbePeriodNs : kServerProbePeriodNs;
  return kUnansweredProbes * interval_ns + world_->random().Below(interval_ns);
}

void SimNetwork::GiveUpIfSilent(const std::shared_ptr<Connection>& connection, int end, uint64_t patience_ns) {
  if (connection->ends[end].transport == nullptr) return;
  const uint64_t now_ns = world_->now_ns();
  const uint64_t since_ns = cuts_.SilentSinceNs(WayEnd(connection->ends[0]), WayEnd(connection->ends[1]), now_ns);
  if (now_ns - since_ns < patience_ns) return;
  TellOther(connection, 1 - end);
  Break(connection, end, "nothing is heard from there");
}

void SimNetwork::TryToConnect(const std::shared_ptr<Connection>& connection, uint64_t first_ns, size_t attempt) {
  const uint64_t at_ns =
      first_ns + ConnectAttemptNs(attempt) + profile_.latency_ns + world_->random().Below(profile_.jitter_ns + 1);
  world_->At(at_ns, [this, connection, first_ns, attempt] {
    if (connection->ends[0].transport == nullptr) return;
    const CutEnd caller = WayEnd(connection->ends[0]);
    const auto listener = listeners_.find(connection->ends[1].name);
    const CutEnd callee{.node = listener == listeners_.end() ? "" : listener->second->node_,
                        .address = connection->ends[1].name};
    const uint64_t now_ns = world_->now_ns();
    if (!dark_.contains(callee.address) && cuts_.SilentSinceNs(caller, callee, now_ns) == now_ns) {
      return Establish(connection);
    }
    if (attempt < kConnectRepeats) return TryToConnect(connection, first_ns, attempt + 1);
    world_->At(first_ns + ConnectAttemptNs(attempt + 1), [connection] {
      const End& caller_end = connection->ends[0];
      if (caller_end.transport == nullptr) return;
      caller_end.transport->Drop(caller_end.peer, absl::UnavailableError("connecting took too long"));
    });
  });
}

void SimNetwork::Establish(const std::shared_ptr<Connection>& connection) {
  SimTransport* const caller = connection->ends[0].transport;
  const PeerId caller_peer = connection->ends[0].peer;
  const std::string& address = connection->ends[1].name;
  const auto listener = listeners_.find(address);
  if (listener == listeners_.end()) {
    return caller->Drop(caller_peer, absl::UnavailableError(absl::StrCat("nobody listens on ", address)));
  }
  SimTransport* const callee = listener->second;
  if (callee->peers_.size() >= callee->limits_.max_peers) {
    return caller->Drop(caller_peer, absl::UnavailableError(absl::StrCat(address, " takes no more peers")));
  }
  const PeerId callee_peer(callee->next_peer_++);
  callee->peers_[callee_peer] = {.connection = connection, .end = 1, .up = true};
  caller->peers_[caller_peer].up = true;
  connection->ends[1].transport = callee;
  connection->ends[1].peer = callee_peer;
  connection->ends[1].node = callee->node_;
  connection->established = true;
  callee->Push({.kind = TransportEventKind::kPeerUp, .peer = callee_peer});
  caller->Push({.kind = TransportEventKind::kPeerUp, .peer = caller_peer});
}

uint64_t SimNetwork::ArrivalNs(const Connection& connection, int from, uint64_t bytes) {
  const uint64_t now_ns = world_->now_ns();
  const uint64_t at_ns = now_ns + profile_.latency_ns + world_->random().Below(profile_.jitter_ns + 1) +
                         bytes * profile_.ns_per_kib / 1024;
  const uint64_t open_ns = cuts_.OpenNs(WayEnd(connection.ends[from]), WayEnd(connection.ends[1 - from]), now_ns);
  return open_ns == now_ns ? at_ns : std::max(at_ns, open_ns + world_->random().Below(50'000));
}

bool SimNetwork::Corrupt(uint64_t payloads, uint64_t until_ns) {
  const bool any = std::ranges::any_of(connections_, [](const auto& entry) {
    const Connection& connection = *entry.second;
    return connection.checksums && connection.ends[0].transport != nullptr && connection.ends[1].transport != nullptr;
  });
  if (!any) return false;
  changes_due_ += payloads;
  changes_until_ns_ = std::max(changes_until_ns_, until_ns);
  return true;
}

bool SimNetwork::DrawChange(const Connection& connection) {
  if (changes_due_ == 0 || !connection.checksums) return false;
  if (world_->now_ns() > changes_until_ns_) changes_due_ = 0;
  if (changes_due_ == 0 || !world_->random().Chance(kChangedPerMillion)) return false;
  --changes_due_;
  world_->TraceText("a bit flips between ", connection.ends[0].name, " and ", connection.ends[1].name);
  return true;
}

uint64_t SimNetwork::StraggleNs() {
  if (profile_.straggle_per_million == 0 || !world_->random().Chance(profile_.straggle_per_million)) return 0;
  return world_->random().Below(profile_.straggle_ns);
}

}  // namespace shoal::sim
