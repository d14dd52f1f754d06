#include "scheduler/insight/server_loads.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/insight/page_room.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kMaxRefusalReasons = 64;
constexpr size_t kMaxJobsOfServer = 64;

// A server may send any number of reasons and jobs; what is kept of them is bounded.
ServerLoad BoundedLoad(const ServerLoad& load) {
  ServerLoad bounded = load;
  bounded.transports = CleanText(load.transports);
  bounded.refusals_by_reason.clear();
  for (const auto& [reason, count] : load.refusals_by_reason) {
    if (bounded.refusals_by_reason.size() == kMaxRefusalReasons) break;
    bounded.refusals_by_reason.emplace(CleanText(reason), count);
  }
  if (bounded.memory_by_job.size() > kMaxJobsOfServer) bounded.memory_by_job.resize(kMaxJobsOfServer);
  return bounded;
}

}  // namespace

void ServerLoads::OnHeartbeat(const HeartbeatServer& request, const ServerRegistry& servers, Now now) {
  Known& known = servers_[request.server];
  if (known.incarnation != request.incarnation) known = {.incarnation = request.incarnation};
  const ServerLoad& load = request.load;
  known.load = BoundedLoad(load);
  LoadGrowth::Totals totals{};
  totals[kBytesIn] = load.bytes_in;
  totals[kBytesOut] = load.bytes_out;
  totals[kChunks] = load.chunks_reduced;
  totals[kOps] = load.ops;
  totals[kRefusals] = load.refusals;
  totals[kReduceNs] = load.reduce_ns_total;
  known.growth.Note(totals, now);
  known.clock_ahead_ms.reset();
  if (request.now_unix_ms != 0) known.clock_ahead_ms = static_cast<int64_t>(request.now_unix_ms - now.unix_ms);
  // Those that the registry has forgotten go, so there are never more here than there.
  if (servers_.size() > servers.servers().size()) {
    std::erase_if(servers_, [&](const auto& entry) { return servers.Find(entry.first) == nullptr; });
  }
}

const ServerLoads::Known* ServerLoads::Find(const ServerState& server) const {
  const auto found = servers_.find(server.id);
  return found == servers_.end() || found->second.incarnation != server.incarnation ? nullptr : &found->second;
}

std::map<JobId, uint64_t> ServerLoads::SlotMemoryByJob(const ServerRegistry& servers) const {
  std::map<JobId, uint64_t> bytes;
  for (const auto& [id, server] : servers.servers()) {
    const Known* const known = Find(server.state);
    if (known == nullptr || server.state.phase != MemberPhase::kLive) continue;
    for (const JobMemory& memory : known->load.memory_by_job) bytes[memory.job] += memory.bytes;
  }
  return bytes;
}

absl::StatusOr<ServersPage> ServerLoads::Page(const ListServers& request, const ServerRegistry& servers,
                                              Now now) const {
  if (!request.name.empty() && servers.FindByName(request.name) == nullptr) return servers.NoneNamed(request.name);
  // The token is the id with which the page begins.
  const absl::StatusOr<uint64_t> from =
      request.page_token.empty() ? 0 : NumberInToken(request.page_token, request.page_token);
  if (!from.ok()) return from.status();
  ServersPage page;
  PageRoom room;
  const auto& all = servers.servers();
  for (auto it = all.lower_bound(ServerId(*from)); it != all.end(); ++it) {
    const auto& [id, server] = *it;
    if (!request.name.empty() && server.state.name != request.name) continue;
    ServerView view = {.state = server.state,
                       .last_heartbeat_age_ms = (now.monotonic_ns - server.last_heartbeat_ns) / kNsPerMs};
    if (const Known* const known = Find(server.state); known != nullptr) {
      view.heard = true;
      view.load = known->load;
      view.rates = RatesOf(*known);
      view.clock_ahead_ms = known->clock_ahead_ms;
    }
    const bool is_full = request.page_size != 0 && page.servers.size() == request.page_size;
    if (is_full || !room.Take(MostBytes(view))) {
      page.next_page_token = absl::StrCat(id.value());
      break;
    }
    page.servers.push_back(std::move(view));
  }
  return page;
}

std::optional<ServerRates> ServerLoads::RatesOf(const Known& known) {
  const std::optional<LoadGrowth::Growth> lately = known.growth.Get();
  if (!lately.has_value()) return std::nullopt;
  return ServerRates{.bytes_in = lately->PerSecond(kBytesIn),
                     .bytes_out = lately->PerSecond(kBytesOut),
                     .chunks_reduced = lately->PerSecond(kChunks),
                     .ops = lately->PerSecond(kOps),
                     .refusals = lately->PerSecond(kRefusals),
                     .reducing = lately->PerSecond(kReduceNs) / kNsPerS};
}

}  // namespace shoal::scheduler
