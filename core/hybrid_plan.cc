#include "core/hybrid_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/shard_map.h"

namespace shoal {
namespace {

constexpr double kRoundingTolerance = 0.02;

// The smallest whole numbers in about the proportion of the shares.
std::vector<uint32_t> WholeNumbers(const std::vector<double>& shares) {
  const double largest = *std::max_element(shares.begin(), shares.end());
  std::vector<uint32_t> numbers(shares.size());
  for (uint32_t scale = 1; scale <= kMaxShardWeight; ++scale) {
    bool close = true;
    for (size_t i = 0; i < shares.size(); ++i) {
      const double exact = shares[i] / largest * scale;
      numbers[i] = static_cast<uint32_t>(std::lround(exact));
      close = close && std::abs(numbers[i] - exact) <= kRoundingTolerance * exact;
    }
    if (close) break;
  }
  return numbers;
}

}  // namespace

std::vector<uint32_t> PlanHybridWeights(uint32_t host_count, std::span<const HybridServer> servers) {
  std::set<uint32_t> hosts_with_server;
  double kappa = 0;
  bool any_apart = false;
  for (const HybridServer& server : servers) {
    if (server.host.has_value()) {
      hosts_with_server.insert(*server.host);
    } else {
      any_apart = true;
      kappa += server.weight;
    }
  }
  std::vector<uint32_t> weights;
  if (hosts_with_server.empty() || !any_apart || host_count == 1) {
    const bool only_on_hosts = !hosts_with_server.empty();
    for (const HybridServer& server : servers) {
      weights.push_back(only_on_hosts && !server.host.has_value() ? 0 : server.weight);
    }
    return weights;
  }
  const double apart = host_count - 2.0 + static_cast<double>(hosts_with_server.size());
  const double on_host = std::max(host_count - kappa, 0.0);
  std::vector<double> shares;
  for (const HybridServer& server : servers) {
    if (!server.host.has_value()) {
      shares.push_back(apart * server.weight / server.io_threads);
      continue;
    }
    const auto threads_there =
        std::accumulate(servers.begin(), servers.end(), 0u, [&](uint32_t sum, const HybridServer& other) {
          return other.host == server.host ? sum + other.io_threads : sum;
        });
    shares.push_back(on_host / threads_there);
  }
  return WholeNumbers(shares);
}

PortLoad HybridPortLoad(std::span<const uint32_t> ranks_of_host, std::span<const HybridServer> servers,
                        std::span<const uint32_t> weights) {
  const double ranks = std::accumulate(ranks_of_host.begin(), ranks_of_host.end(), 0u);
  double total = 0;
  for (size_t i = 0; i < servers.size(); ++i) total += static_cast<double>(weights[i]) * servers[i].io_threads;
  PortLoad load;
  std::vector<double> share_of_host(ranks_of_host.size(), 0);
  uint32_t first_weight = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (weights[i] == 0) continue;
    if (first_weight == 0) first_weight = weights[i];
    load.even = load.even && weights[i] == first_weight;
    load.shard_count += servers[i].io_threads;
    load.largest_share = std::max(load.largest_share, weights[i] / total);
    const double share = weights[i] * servers[i].io_threads / total;
    if (servers[i].host.has_value()) share_of_host[*servers[i].host] += share;
    // Of a server on a rank's host the link carries less, but its memory takes it all.
    load.busiest_port = std::max(load.busiest_port, ranks * share);
  }
  for (size_t host = 0; host < ranks_of_host.size(); ++host) {
    const double there = ranks_of_host[host];
    const double results = there * (1 - share_of_host[host]);
    const double pushes = (ranks - there) * share_of_host[host];
    // What is under way is either on its way to a server or back, so they don't add up.
    load.busiest_port = std::max({load.busiest_port, results, pushes});
  }
  return load;
}

}  // namespace shoal
