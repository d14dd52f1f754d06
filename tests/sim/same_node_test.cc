// When processes of a simulation that share a node wake each other.
#include "sim/same_node.h"

#include <gtest/gtest.h>

#include <memory>

#include "sim/checkers.h"
#include "sim/server_process.h"
#include "sim/sim_control.h"

namespace shoal::sim {
namespace {

// The scheduler may have saved the registration and told ranks of the server before the server hears of it.
TEST(SameNode, ARankThatConnectsTooEarlyDoesNotKeepTheServerBusy) {
  World world(1);
  Profile profile;
  profile.wake_delay_ns = 1;
  Checkers checkers(
      &world, [](uint32_t) { return uint64_t{0}; }, kNsPerS);
  SimControl control(&world, /*latency_ns=*/1000);  // there is no scheduler
  SameNode node(&world, /*arena_bytes=*/16384);
  ServerProcess server(&world, profile, {.name = "server", .node = "server", .slot_memory_bytes = 65536},
                       /*network=*/nullptr, &node, &control, &checkers);
  const std::unique_ptr<Transport> rank = node.MakeTransport(/*listen=*/false, [] {});
  ASSERT_TRUE(rank->Connect(server.addresses().front()).ok());
  node.Ring();
  world.RunUntil(world.now_ns() + 100'000);
  EXPECT_FALSE(server.registered());
  EXPECT_LT(world.events_run(), 1000u);
}

}  // namespace
}  // namespace shoal::sim
