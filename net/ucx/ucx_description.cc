// What moves the bytes: for logs and status, and for the check that TCP does not do it where it must not.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_lanes.h"

namespace shoal {
namespace {

// "rc_verbs,tcp" of "rc_verbs/mlx5_0:1", "tcp/eth0" and "tcp/lo".
std::string WithoutDevices(const std::set<std::string>& transports) {
  std::set<std::string> names;
  for (const std::string& transport : transports) names.insert(transport.substr(0, transport.find('/')));
  return absl::StrJoin(names, ",");
}

}  // namespace

std::string UcxVersion() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return absl::StrCat(major, ".", minor, ".", release);
}

std::string UcxTransport::Describe() const {
  std::set<std::string> used;
  for (const auto& [id, peer] : peers_) {
    if (peer->state == PeerState::kUp) used.insert(peer->transports.begin(), peer->transports.end());
  }
  std::string what = absl::StrJoin(used, ",");
  if (used.empty()) {
    std::set<std::string> usable;
    if (!workers_.empty()) usable = workers_.back()->transports();
    if (!ucx_settings_.tcp_may_carry_payload()) std::erase_if(usable, IsTcp);
    what = workers_.empty() ? "no network device has a link" : absl::StrCat(WithoutDevices(usable), " (not connected)");
    if (ucx_settings_.wants_rdma() && std::ranges::all_of(usable, IsTcp)) {
      absl::StrAppend(&what, ", not what was asked for: ", ucx_settings_.transports());
    }
  }
  if (!workers_.empty() && workers_.back()->RegistersEachPayload()) {
    absl::StrAppend(
        &what, ", registering each payload by itself (could this process lock all its memory, it need not: ulimit -l)");
  }
  if (const std::string from = ucx_settings_.FromEnvironment(); !from.empty()) {
    absl::StrAppend(&what, ", as the environment says: ", from);
  }
  return absl::StrCat("ucx ", UcxVersion(), ": ", what);
}

TransportReport UcxTransport::Report(std::span<const PeerId> peers) const {
  TransportReport report = {.description = Describe()};
  report.strangers = sockets_->strangers();
  report.last_stranger = sockets_->last_stranger();
  for (const PeerId peer : peers) {
    const auto found = peers_.find(peer);
    report.peer_transports.push_back(found == peers_.end() ? "" : absl::StrJoin(found->second->transports, ","));
  }
  return report;
}

absl::Status UcxTransport::NoteTransports(Peer& peer) {
  peer.transports = LanesOf(peer.endpoint).payload;
  if (ucx_settings_.tcp_may_carry_payload() || std::ranges::none_of(peer.transports, IsTcp)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the connection to ", peer.address, " would use ", absl::StrJoin(peer.transports, ","), ", but transports=\"",
      ucx_settings_.transports(),
      "\" leaves TCP out: see that both sides have an RDMA device that reaches the other (ucx_info -d), or "
      "add tcp to the list"));
}

}  // namespace shoal
