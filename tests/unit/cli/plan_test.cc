#include "cli/plan.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

ServerPlan Plan(uint32_t nodes, double link_gbit, uint64_t bytes = 25 << 20) {
  return PlanServers({.bytes = bytes, .nodes = nodes, .link_gbit = link_gbit}).value();
}

double Units(const ServerPlan& plan, size_t row) {
  return static_cast<double>(plan.rows.at(row).predicted_ns) / static_cast<double>(plan.link_bound_ns);
}

// BytePS (Jiang et al., OSDI 2020): with k servers beside n nodes that run one each, a link carries
// 2 n (n - 1) / (n^2 + k n - 2 k) times the tensor; with as many servers as nodes it carries the tensor once.
TEST(PlanTest, TheCurveIsThatOfTheLaw) {
  for (const uint32_t nodes : {4u, 8u, 32u}) {
    const ServerPlan plan = Plan(nodes, 1);
    ASSERT_EQ(plan.rows.size(), 2 * nodes + 1);
    const double n = nodes;
    for (uint32_t k = 0; k < nodes; ++k) {
      EXPECT_EQ(plan.rows[k].dedicated_servers, k);
      EXPECT_EQ(plan.rows[k].colocated_servers, nodes);
      EXPECT_NEAR(Units(plan, k), 2 * n * (n - 1) / (n * n + k * n - 2 * k), 0.03) << nodes << " nodes, " << k;
    }
    for (uint32_t k = nodes; k <= 2 * nodes; ++k) {
      EXPECT_EQ(plan.rows[k].colocated_servers, 0u);
      EXPECT_NEAR(Units(plan, k), 1, 0.03) << nodes << " nodes, " << k;
    }
    EXPECT_NEAR(static_cast<double>(plan.ring_ns), 2 * (n - 1) / n * static_cast<double>(plan.link_bound_ns), 2);
  }
}

TEST(PlanTest, AsManyServersAsNodesAreEnoughOnSlowLinks) {
  EXPECT_EQ(Plan(4, 0.2).enough_servers, 4u);
  EXPECT_EQ(Plan(8, 25).enough_servers, 8u);
}

// The parts of a node's ranks meet at its link, which carries the tensor once; a ring of all ranks enters each node
// once.
TEST(PlanTest, RanksOfANodeShareItsLink) {
  const PlanOptions options{.nodes = 4, .ranks = 8, .link_gbit = 1};
  const ServerPlan plan = PlanServers(options).value();
  EXPECT_NEAR(Units(plan, 4), 1, 0.03);
  EXPECT_EQ(plan.enough_servers, 4u);
  EXPECT_EQ(plan.within_node_ns, 0u);
  EXPECT_NEAR(static_cast<double>(plan.ring_ns), 2.0 * 31 / 32 * static_cast<double>(plan.link_bound_ns), 2);
  EXPECT_THAT(PlanText(options, plan), AllOf(HasSubstr("4 nodes of 8 ranks"), HasSubstr("takes no time")));

  PlanOptions with_node_link = options;
  with_node_link.node_link_gbit = 14;
  const ServerPlan slower = PlanServers(with_node_link).value();
  EXPECT_NEAR(static_cast<double>(slower.within_node_ns), 2.0 * 7 / 8 / 14 * static_cast<double>(plan.link_bound_ns),
              2);
  EXPECT_EQ(slower.rows[4].predicted_ns, plan.rows[4].predicted_ns + slower.within_node_ns);
  EXPECT_THAT(PlanText(with_node_link, slower), AllOf(HasSubstr("at 14 Gbit/s between"), Not(HasSubstr("no time"))));
}

TEST(PlanTest, ASmallTensorIsOfMessagesAndRoundTrips) {
  const ServerPlan plan = Plan(8, 100, 4096);
  for (const PlanRow& row : plan.rows) EXPECT_GE(row.predicted_ns, 50'000u) << "the round trip";
  EXPECT_LT(plan.enough_servers, 8u) << "bandwidth is not what it waits for";
}

// Chunks that fit small ports are small: on a fast link each costs more than its bytes.
TEST(PlanTest, SmallPortsThatAreKnownMakeAFastLinkSlow) {
  PlanOptions options{.nodes = 8, .link_gbit = 400};
  const ServerPlan unknown = PlanServers(options).value();
  options.port_buffer_bytes = 128 << 10;
  const ServerPlan known = PlanServers(options).value();
  EXPECT_GT(known.rows[8].predicted_ns, 2 * unknown.rows[8].predicted_ns);
  EXPECT_THAT(PlanText(options, known), HasSubstr("Planned for ports of 128.0 KiB"));
}

TEST(PlanTest, TheTextFitsAHundredColumnsAndNamesWhatIsEnough) {
  for (const uint32_t nodes : {2u, 8u, 500u}) {
    const PlanOptions options{.nodes = nodes, .ranks = nodes == 2 ? 1u : 8u, .link_gbit = 400, .node_link_gbit = 3600};
    const std::string text = PlanText(options, PlanServers(options).value());
    std::istringstream lines(text);
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_THAT(line.size(), Le(100u)) << line;
    EXPECT_THAT(count, Le(30u));
    EXPECT_EQ(text.find("enough"), text.rfind("enough"));
    EXPECT_THAT(text, AllOf(HasSubstr("25.0 MiB"), HasSubstr("enough"), HasSubstr("This is a model")));
  }
}

TEST(PlanTest, NumbersThatCannotBeAreRefusedWithTheOption) {
  const std::pair<PlanOptions, const char*> cases[] = {
      {{.nodes = 1, .link_gbit = 1}, "--nodes"},
      {{.nodes = 5000, .link_gbit = 1}, "--nodes"},
      {{.nodes = 4, .ranks = 0, .link_gbit = 1}, "--ranks"},
      {{.nodes = 4, .ranks = 65, .link_gbit = 1}, "--ranks"},
      {{.nodes = 4, .link_gbit = 1, .node_link_gbit = -1}, "--node-link"},
      {{.nodes = 4}, "--link"},
      {{.nodes = 4, .link_gbit = -1}, "--link"},
      {{.nodes = 4, .link_gbit = 1e9}, "--link"},
      {{.bytes = 0, .nodes = 4, .link_gbit = 1}, "--bytes"},
      {{.bytes = uint64_t{1} << 40, .nodes = 4, .link_gbit = 1}, "--bytes"},
      {{.nodes = 4, .link_gbit = 1, .round_trip_us = -1}, "--round-trip"},
      {{.nodes = 4, .link_gbit = 1, .message_us = 1e9}, "--message"},
      {{.nodes = 4, .link_gbit = 1, .port_buffer_bytes = uint64_t{2} << 30}, "--port-buffer"},
  };
  for (const auto& [options, option] : cases) {
    const auto plan = PlanServers(options);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(option));
  }
}

}  // namespace
}  // namespace shoal::cli
