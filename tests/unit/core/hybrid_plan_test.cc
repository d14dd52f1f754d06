#include "core/hybrid_plan.h"

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

std::vector<HybridServer> Servers(uint32_t apart, uint32_t on_hosts, uint32_t threads_apart = 1) {
  std::vector<HybridServer> servers(apart, HybridServer{.io_threads = threads_apart});
  for (uint32_t host = 0; host < on_hosts; ++host) servers.push_back({.host = host});
  return servers;
}

// The time of an all-reduce of one byte over links of one byte a second, by what each link carries: a host's sends what
// it does not sum itself and the results of what it sums for others, a server's what all ranks send.
double TimeByLinks(uint32_t hosts, const std::vector<HybridServer>& servers, const std::vector<uint32_t>& weights) {
  double total = 0;
  for (size_t i = 0; i < servers.size(); ++i) total += static_cast<double>(weights[i]) * servers[i].io_threads;
  std::vector<double> share_of_host(hosts, 0);
  double slowest = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    const double share = weights[i] * servers[i].io_threads / total;
    if (servers[i].host.has_value()) {
      share_of_host[*servers[i].host] += share;
    } else {
      slowest = std::max(slowest, hosts * share / servers[i].weight);
    }
  }
  for (const double share : share_of_host) slowest = std::max(slowest, (1 - share) + (hosts - 1) * share);
  return slowest;
}

double BytePsBound(uint32_t hosts, double kappa) {
  const double n = hosts;
  return std::max(1.0, 2 * n * (n - 1) / (n * n + kappa * (n - 2)));
}

TEST(HybridPlan, TheSharesReachTheBoundForAnyNumberOfServers) {
  for (const uint32_t hosts : {3u, 4u, 8u, 16u, 33u, 128u}) {
    for (uint32_t kappa = 0; kappa <= hosts; ++kappa) {
      const std::vector<HybridServer> servers = Servers(kappa, hosts);
      const double time = TimeByLinks(hosts, servers, PlanHybridWeights(hosts, servers));
      const double bound = BytePsBound(hosts, kappa);
      EXPECT_GE(time, bound * 0.999) << hosts << " hosts, kappa " << kappa;
      EXPECT_LE(time, bound * 1.021) << hosts << " hosts, kappa " << kappa;
    }
  }
}

TEST(HybridPlan, TheBenchsCasesHaveSmallNumbers) {
  const auto weights = [](uint32_t kappa) {
    const std::vector<uint32_t> all = PlanHybridWeights(8, Servers(kappa, 8));
    return std::vector<uint32_t>{all.front(), all.back()};
  };
  EXPECT_THAT(weights(1), ElementsAre(2, 1));
  EXPECT_THAT(weights(2), ElementsAre(7, 3));
  EXPECT_THAT(weights(4), ElementsAre(7, 2));
  EXPECT_THAT(weights(6), ElementsAre(7, 1));
  EXPECT_THAT(weights(8), ElementsAre(1, 0)) << "as many servers as hosts: nothing is left for the ranks' hosts";
  EXPECT_THAT(weights(20), ElementsAre(1, 0));
  EXPECT_THAT(PlanHybridWeights(8, Servers(0, 8)), Each(1));
}

TEST(HybridPlan, FasterAndSlowerServersCarryInProportion) {
  std::vector<HybridServer> servers = Servers(2, 8);
  servers[1].weight = 3;
  const std::vector<uint32_t> weights = PlanHybridWeights(8, servers);
  EXPECT_NEAR(weights[1], 3.0 * weights[0], 0.06 * weights[1]);
  EXPECT_LE(TimeByLinks(8, servers, weights), BytePsBound(8, 4) * 1.021);
}

TEST(HybridPlan, AServersThreadsShareItsLink) {
  const std::vector<uint32_t> one = PlanHybridWeights(8, Servers(4, 8, 1));
  const std::vector<uint32_t> two = PlanHybridWeights(8, Servers(4, 8, 2));
  EXPECT_EQ(one.front() * two.back(), 2 * two.front() * one.back());
}

TEST(HybridPlan, WhereOnlySomeHostsHaveAServerTheBestSplitIsFound) {
  for (const uint32_t on_hosts : {1u, 3u, 7u}) {
    for (const uint32_t kappa : {1u, 4u}) {
      const std::vector<HybridServer> servers = Servers(kappa, on_hosts);
      const double planned = TimeByLinks(8, servers, PlanHybridWeights(8, servers));
      // No other split in steps of a 64th is better by more than the rounding.
      double best = planned;
      for (uint32_t weight = 0; weight <= 64; ++weight) {
        std::vector<uint32_t> weights(servers.size(), weight);
        std::fill_n(weights.begin(), kappa, 64u);
        best = std::min(best, TimeByLinks(8, servers, weights));
      }
      EXPECT_LE(planned, best * 1.021) << on_hosts << " hosts with a server, kappa " << kappa;
    }
  }
}

TEST(HybridPlan, ServersOfOneKindKeepTheirRegisteredWeights) {
  std::vector<HybridServer> apart = Servers(3, 0);
  apart[2].weight = 5;
  EXPECT_THAT(PlanHybridWeights(8, apart), ElementsAre(1, 1, 5));
  std::vector<HybridServer> on_hosts = Servers(0, 2);
  on_hosts[0].weight = 4;
  EXPECT_THAT(PlanHybridWeights(2, on_hosts), ElementsAre(4, 1));
  EXPECT_TRUE(PlanHybridWeights(8, {}).empty());
}

TEST(HybridPlan, AJobOnOneHostUsesTheServerThere) {
  EXPECT_THAT(PlanHybridWeights(1, Servers(2, 1)), ElementsAre(0, 0, 1));
  EXPECT_THAT(PlanHybridWeights(1, Servers(2, 0)), ElementsAre(1, 1));
}

TEST(HybridPlan, TwoServersOfAHostShareItsPart) {
  std::vector<HybridServer> servers = Servers(2, 4);
  servers.push_back({.host = 3});
  const std::vector<uint32_t> weights = PlanHybridWeights(4, servers);
  EXPECT_EQ(weights[5], weights[6]);
  EXPECT_NEAR(weights[5] + weights[6], weights[2], 0.06 * weights[2]);
}

TEST(HybridPlan, AnythingGivesAMapThatCanBeMade) {
  for (const uint32_t hosts : {1u, 2u, 1000u}) {
    for (const uint32_t apart : {0u, 1u, 999u}) {
      for (const uint32_t on_hosts : {0u, 1u, hosts}) {
        for (const uint32_t weight : {1u, kMaxShardWeight}) {
          std::vector<HybridServer> servers = Servers(apart, on_hosts, 7);
          for (HybridServer& server : servers) server.weight = weight;
          if (servers.empty()) continue;
          const std::vector<uint32_t> weights = PlanHybridWeights(hosts, servers);
          ASSERT_EQ(weights.size(), servers.size());
          EXPECT_THAT(weights, Each(::testing::Le(kMaxShardWeight)));
          EXPECT_GT(std::accumulate(weights.begin(), weights.end(), 0u), 0u);
        }
      }
    }
  }
}

TEST(HybridPlan, PortsOfEqualServersApartAreThoseOfTheEvenLaw) {
  for (const uint32_t ranks : {2u, 8u}) {
    for (const uint32_t shards : {1u, 4u, 8u, 16u}) {
      const std::vector<uint32_t> ranks_of_host(ranks, 1);
      const PortLoad load = HybridPortLoad(ranks_of_host, Servers(shards, 0), std::vector<uint32_t>(shards, 1));
      const PortLoad even = EvenPortLoad(ranks, shards);
      EXPECT_DOUBLE_EQ(load.busiest_port, even.busiest_port);
      EXPECT_DOUBLE_EQ(load.largest_share, even.largest_share);
      EXPECT_EQ(load.shard_count, shards);
      EXPECT_TRUE(load.even);
    }
  }
}

TEST(HybridPlan, AHostsPortHoldsResultsOrItsServersPushes) {
  const std::vector<uint32_t> ranks_of_host(8, 1);
  const PortLoad colocated = HybridPortLoad(ranks_of_host, Servers(0, 8), std::vector<uint32_t>(8, 1));
  EXPECT_DOUBLE_EQ(colocated.busiest_port, 1);
  EXPECT_TRUE(colocated.even);
  const std::vector<HybridServer> servers = Servers(4, 8);
  const PortLoad hybrid = HybridPortLoad(ranks_of_host, servers, PlanHybridWeights(8, servers));
  EXPECT_NEAR(hybrid.busiest_port, BytePsBound(8, 4), 1e-9) << "all ports are equally busy";
  EXPECT_NEAR(hybrid.largest_share, 7.0 / 44, 1e-9);
  EXPECT_EQ(hybrid.shard_count, 12u);
  EXPECT_FALSE(hybrid.even);
  const std::vector<uint32_t> two_ranks_each(8, 2);
  EXPECT_DOUBLE_EQ(HybridPortLoad(two_ranks_each, Servers(0, 8), std::vector<uint32_t>(8, 1)).busiest_port, 2);
}

TEST(HybridPlan, ServersThatAreNotUsedAreNotCounted) {
  const std::vector<uint32_t> ranks_of_host(8, 1);
  const std::vector<HybridServer> servers = Servers(8, 8);
  const PortLoad load = HybridPortLoad(ranks_of_host, servers, PlanHybridWeights(8, servers));
  EXPECT_EQ(load.shard_count, 8u);
  EXPECT_TRUE(load.even);
  EXPECT_DOUBLE_EQ(load.busiest_port, 1.0);
}

}  // namespace
}  // namespace shoal
