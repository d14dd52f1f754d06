#include "core/server_weights.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/shard_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;

std::vector<ServerOfGroup> Servers(uint32_t apart, uint32_t on_nodes, uint32_t threads_apart = 1) {
  std::vector<ServerOfGroup> servers(apart, ServerOfGroup{.io_threads = threads_apart});
  for (uint32_t node = 0; node < on_nodes; ++node) servers.push_back({.node = node});
  return servers;
}

// The time of an all-reduce of one byte over links of one byte a second, by what each link carries: a node's sends what
// it does not sum itself and the results of what it sums for others, a server's what all ranks send.
double TimeByLinks(uint32_t nodes, const std::vector<ServerOfGroup>& servers, const std::vector<uint32_t>& weights) {
  double total = 0;
  for (size_t i = 0; i < servers.size(); ++i) total += static_cast<double>(weights[i]) * servers[i].io_threads;
  std::vector<double> share_of_node(nodes, 0);
  double slowest = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    const double share = weights[i] * servers[i].io_threads / total;
    if (servers[i].node.has_value()) {
      share_of_node[*servers[i].node] += share;
    } else {
      slowest = std::max(slowest, nodes * share / servers[i].weight);
    }
  }
  for (const double share : share_of_node) slowest = std::max(slowest, (1 - share) + (nodes - 1) * share);
  return slowest;
}

double BytePsBound(uint32_t nodes, double kappa) {
  const double n = nodes;
  return std::max(1.0, 2 * n * (n - 1) / (n * n + kappa * (n - 2)));
}

TEST(ServerWeights, TheSharesReachTheBoundForAnyNumberOfServers) {
  for (const uint32_t nodes : {3u, 4u, 8u, 16u, 33u, 128u}) {
    for (uint32_t kappa = 0; kappa <= nodes; ++kappa) {
      const std::vector<ServerOfGroup> servers = Servers(kappa, nodes);
      const double time = TimeByLinks(nodes, servers, PlanServerWeights(nodes, servers));
      const double bound = BytePsBound(nodes, kappa);
      EXPECT_GE(time, bound * 0.999) << nodes << " nodes, kappa " << kappa;
      EXPECT_LE(time, bound * 1.021) << nodes << " nodes, kappa " << kappa;
    }
  }
}

TEST(ServerWeights, TheBenchsCasesHaveSmallNumbers) {
  const auto weights = [](uint32_t kappa) {
    const std::vector<uint32_t> all = PlanServerWeights(8, Servers(kappa, 8));
    return std::vector<uint32_t>{all.front(), all.back()};
  };
  EXPECT_THAT(weights(1), ElementsAre(2, 1));
  EXPECT_THAT(weights(2), ElementsAre(7, 3));
  EXPECT_THAT(weights(4), ElementsAre(7, 2));
  EXPECT_THAT(weights(6), ElementsAre(7, 1));
  EXPECT_THAT(weights(8), ElementsAre(1, 0)) << "as many servers as nodes: nothing is left for the ranks' nodes";
  EXPECT_THAT(weights(20), ElementsAre(1, 0));
  EXPECT_THAT(PlanServerWeights(8, Servers(0, 8)), Each(1));
}

TEST(ServerWeights, FasterAndSlowerServersCarryInProportion) {
  std::vector<ServerOfGroup> servers = Servers(2, 8);
  servers[1].weight = 3;
  const std::vector<uint32_t> weights = PlanServerWeights(8, servers);
  EXPECT_NEAR(weights[1], 3.0 * weights[0], 0.06 * weights[1]);
  EXPECT_LE(TimeByLinks(8, servers, weights), BytePsBound(8, 4) * 1.021);
}

TEST(ServerWeights, AServersThreadsShareItsLink) {
  const std::vector<uint32_t> one = PlanServerWeights(8, Servers(4, 8, 1));
  const std::vector<uint32_t> two = PlanServerWeights(8, Servers(4, 8, 2));
  EXPECT_EQ(one.front() * two.back(), 2 * two.front() * one.back());
}

TEST(ServerWeights, WhereOnlySomeNodesHaveAServerTheBestSplitIsFound) {
  for (const uint32_t on_nodes : {1u, 3u, 7u}) {
    for (const uint32_t kappa : {1u, 4u}) {
      const std::vector<ServerOfGroup> servers = Servers(kappa, on_nodes);
      const double planned = TimeByLinks(8, servers, PlanServerWeights(8, servers));
      // No other split in steps of a 64th is better by more than the rounding.
      double best = planned;
      for (uint32_t weight = 0; weight <= 64; ++weight) {
        std::vector<uint32_t> weights(servers.size(), weight);
        std::fill_n(weights.begin(), kappa, 64u);
        best = std::min(best, TimeByLinks(8, servers, weights));
      }
      EXPECT_LE(planned, best * 1.021) << on_nodes << " nodes with a server, kappa " << kappa;
    }
  }
}

TEST(ServerWeights, ServersOfOneKindKeepTheirRegisteredWeights) {
  std::vector<ServerOfGroup> apart = Servers(3, 0);
  apart[2].weight = 5;
  EXPECT_THAT(PlanServerWeights(8, apart), ElementsAre(1, 1, 5));
  std::vector<ServerOfGroup> on_nodes = Servers(0, 2);
  on_nodes[0].weight = 4;
  EXPECT_THAT(PlanServerWeights(2, on_nodes), ElementsAre(4, 1));
  EXPECT_TRUE(PlanServerWeights(8, {}).empty());
}

TEST(ServerWeights, AJobOnOneNodeUsesTheServerThere) {
  EXPECT_THAT(PlanServerWeights(1, Servers(2, 1)), ElementsAre(0, 0, 1));
  EXPECT_THAT(PlanServerWeights(1, Servers(2, 0)), ElementsAre(1, 1));
}

TEST(ServerWeights, TwoServersOfANodeShareItsPart) {
  std::vector<ServerOfGroup> servers = Servers(2, 4);
  servers.push_back({.node = 3});
  const std::vector<uint32_t> weights = PlanServerWeights(4, servers);
  EXPECT_EQ(weights[5], weights[6]);
  EXPECT_NEAR(weights[5] + weights[6], weights[2], 0.06 * weights[2]);
}

TEST(ServerWeights, AnythingGivesAMapThatCanBeMade) {
  for (const uint32_t nodes : {1u, 2u, 1000u}) {
    for (const uint32_t apart : {0u, 1u, 999u}) {
      for (const uint32_t on_nodes : {0u, 1u, nodes}) {
        for (const uint32_t weight : {1u, kMaxShardWeight}) {
          std::vector<ServerOfGroup> servers = Servers(apart, on_nodes, 7);
          for (ServerOfGroup& server : servers) server.weight = weight;
          if (servers.empty()) continue;
          const std::vector<uint32_t> weights = PlanServerWeights(nodes, servers);
          ASSERT_EQ(weights.size(), servers.size());
          EXPECT_THAT(weights, Each(::testing::Le(kMaxShardWeight)));
          EXPECT_GT(std::accumulate(weights.begin(), weights.end(), 0u), 0u);
        }
      }
    }
  }
}

TEST(ServerWeights, PortsOfEqualServersApartAreThoseOfTheEvenLaw) {
  for (const uint32_t ranks : {2u, 8u}) {
    for (const uint32_t shards : {1u, 4u, 8u, 16u}) {
      const std::vector<uint32_t> ranks_of_node(ranks, 1);
      const PortLoad load = LoadOfPorts(ranks_of_node, Servers(shards, 0), std::vector<uint32_t>(shards, 1));
      const PortLoad even = EvenPortLoad(ranks, shards);
      EXPECT_DOUBLE_EQ(load.busiest_port, even.busiest_port);
      EXPECT_DOUBLE_EQ(load.largest_share, even.largest_share);
      EXPECT_EQ(load.shard_count, shards);
      EXPECT_TRUE(load.even);
    }
  }
}

TEST(ServerWeights, ANodesPortHoldsResultsOrItsServersPushes) {
  const std::vector<uint32_t> ranks_of_node(8, 1);
  const PortLoad colocated = LoadOfPorts(ranks_of_node, Servers(0, 8), std::vector<uint32_t>(8, 1));
  EXPECT_DOUBLE_EQ(colocated.busiest_port, 1);
  EXPECT_TRUE(colocated.even);
  const std::vector<ServerOfGroup> servers = Servers(4, 8);
  const PortLoad both_kinds = LoadOfPorts(ranks_of_node, servers, PlanServerWeights(8, servers));
  EXPECT_NEAR(both_kinds.busiest_port, BytePsBound(8, 4), 1e-9) << "all ports are equally busy";
  EXPECT_NEAR(both_kinds.largest_share, 7.0 / 44, 1e-9);
  EXPECT_EQ(both_kinds.shard_count, 12u);
  EXPECT_FALSE(both_kinds.even);
  const std::vector<uint32_t> two_ranks_each(8, 2);
  EXPECT_DOUBLE_EQ(LoadOfPorts(two_ranks_each, Servers(0, 8), std::vector<uint32_t>(8, 1)).busiest_port, 2);
}

TEST(ServerWeights, TheBusiestLinkIsThatOfTheLaw) {
  const std::vector<uint32_t> ranks_of_node(8, 1);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(0, 8), std::vector<uint32_t>(8, 1)).busiest_link, 2.0 * 7 / 8)
      << "as a ring";
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), std::vector<uint32_t>(8, 1)).busiest_link, 1);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(2, 0), std::vector<uint32_t>(2, 1)).busiest_link, 4);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(16, 0), std::vector<uint32_t>(16, 1)).busiest_link, 1)
      << "a rank's own";
  for (const uint32_t dedicated : {1u, 4u, 7u}) {
    const std::vector<ServerOfGroup> servers = Servers(dedicated, 8);
    EXPECT_NEAR(LoadOfPorts(ranks_of_node, servers, PlanServerWeights(8, servers)).busiest_link,
                BytePsBound(8, dedicated), 0.02);
  }
}

TEST(ServerWeights, ANodesRanksAreDealtOverItsCards) {
  const std::vector<uint32_t> ranks_of_node(2, 4);
  const std::vector<uint32_t> weights(8, 1);
  // Eight servers take an eighth of 8 ranks' parts each; a card takes the results of its ranks.
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), weights).busiest_port, 4);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), weights, 2).busiest_port, 2);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), weights, 2).busiest_link, 2);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), weights, 3).busiest_port, 2) << "one of three has two";
  for (const uint32_t beyond : {4u, 100u, UINT32_MAX}) {
    EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(8, 0), weights, beyond).busiest_port, 1) << "a card each";
  }
  // A node's own server is at one of them, with what all other nodes' ranks push.
  const std::vector<uint32_t> colocated(2, 1);
  EXPECT_DOUBLE_EQ(LoadOfPorts(ranks_of_node, Servers(0, 2), colocated, 2).busiest_link, 2 * 0.5 + 4 * 0.5);
}

TEST(ServerWeights, ServersThatAreNotUsedAreNotCounted) {
  const std::vector<uint32_t> ranks_of_node(8, 1);
  const std::vector<ServerOfGroup> servers = Servers(8, 8);
  const PortLoad load = LoadOfPorts(ranks_of_node, servers, PlanServerWeights(8, servers));
  EXPECT_EQ(load.shard_count, 8u);
  EXPECT_TRUE(load.even);
  EXPECT_DOUBLE_EQ(load.busiest_port, 1.0);
}

}  // namespace
}  // namespace shoal
