#include "core/server_weights.h"

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

std::vector<uint32_t> PlanServerWeights(uint32_t node_count, std::span<const ServerOfGroup> servers) {
  std::set<uint32_t> nodes_with_server;
  double kappa = 0;
  bool any_apart = false;
  for (const ServerOfGroup& server : servers) {
    if (server.node.has_value()) {
      nodes_with_server.insert(*server.node);
    } else {
      any_apart = true;
      kappa += server.weight;
    }
  }
  std::vector<uint32_t> weights;
  if (nodes_with_server.empty() || !any_apart || node_count == 1) {
    const bool only_on_nodes = !nodes_with_server.empty();
    for (const ServerOfGroup& server : servers) {
      weights.push_back(only_on_nodes && !server.node.has_value() ? 0 : server.weight);
    }
    return weights;
  }
  const double of_own_node = node_count - 2.0 + static_cast<double>(nodes_with_server.size());
  const double on_node = std::max(node_count - kappa, 0.0);
  std::vector<double> shares;
  for (const ServerOfGroup& server : servers) {
    if (!server.node.has_value()) {
      shares.push_back(of_own_node * server.weight / server.io_threads);
      continue;
    }
    const auto threads_there =
        std::accumulate(servers.begin(), servers.end(), 0u, [&](uint32_t sum, const ServerOfGroup& other) {
          return other.node == server.node ? sum + other.io_threads : sum;
        });
    shares.push_back(on_node / threads_there);
  }
  return WholeNumbers(shares);
}

double TotalWeight(std::span<const ServerOfGroup> servers, std::span<const uint32_t> weights) {
  double total = 0;
  for (size_t i = 0; i < servers.size(); ++i) total += static_cast<double>(weights[i]) * servers[i].io_threads;
  return total;
}

PortLoad LoadOfPorts(std::span<const uint32_t> ranks_of_node, std::span<const ServerOfGroup> servers,
                     std::span<const uint32_t> weights, uint32_t network_cards) {
  const double ranks = std::accumulate(ranks_of_node.begin(), ranks_of_node.end(), 0u);
  const double total = TotalWeight(servers, weights);
  PortLoad load{.busiest_link = 0};
  std::vector<double> share_of_node(ranks_of_node.size(), 0);
  uint32_t first_weight = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (weights[i] == 0) continue;
    if (first_weight == 0) first_weight = weights[i];
    load.even = load.even && weights[i] == first_weight;
    load.shard_count += servers[i].io_threads;
    load.largest_share = std::max(load.largest_share, weights[i] / total);
    const double share = weights[i] * servers[i].io_threads / total;
    if (servers[i].node.has_value()) {
      share_of_node[*servers[i].node] += share;
    } else {
      load.busiest_link = std::max(load.busiest_link, ranks * share);
    }
    // Of a server on a rank's node the link carries less, but its memory takes it all.
    load.busiest_port = std::max(load.busiest_port, ranks * share);
  }
  for (size_t node = 0; node < ranks_of_node.size(); ++node) {
    const double there = ranks_of_node[node];
    const uint32_t cards = std::clamp(network_cards, 1u, std::max(ranks_of_node[node], 1u));
    const uint32_t at_busiest_card = (ranks_of_node[node] + cards - 1) / cards;
    const double results = at_busiest_card * (1 - share_of_node[node]);
    const double pushes = (ranks - there) * share_of_node[node];
    // What is under way is either on its way to a server or back, so they don't add up.
    load.busiest_port = std::max({load.busiest_port, results, pushes});
    load.busiest_link = std::max(load.busiest_link, results + pushes);
  }
  return load;
}

}  // namespace shoal
