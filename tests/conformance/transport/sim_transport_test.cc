#include "sim/sim_transport.h"

#include "tests/conformance/transport/transport_suite.h"

namespace shoal::sim {
namespace {

// Time passes where the suite lets it: between rounds of polling.
TransportKind SimKind(const std::string& name, const NetworkProfile& profile) {
  struct Network {
    explicit Network(const NetworkProfile& p) : network(&world, p, /*audit=*/nullptr) {}
    World world{1};
    SimNetwork network;
  };
  auto network = std::make_shared<Network>(profile);
  return {.name = name,
          .make = [network](const TransportSetup& setup) -> std::unique_ptr<Transport> {
            return network->network.MakeTransport(
                "peer", setup.listen, [] {}, setup.limits);
          },
          .idle = [network] { network->world.RunUntil(network->world.now_ns() + 10'000); },
          .lends = profile.lend_per_million != 0,
          .accepts_at_once = profile.eager_per_million > 0};
}

INSTANTIATE_TEST_SUITE_P(Sim, TransportSuite,
                         testing::Values(SimKind("Mixed", {}), SimKind("RendezvousOnly", {.eager_per_million = 0}),
                                         SimKind("EagerOnly", {.eager_per_million = 1'000'000}),
                                         SimKind("Lending", {.lend_per_million = 1'000'000}),
                                         SimKind("LendingSome", {.eager_per_million = 0, .lend_per_million = 600'000}),
                                         SimKind("Shuffled",
                                                 {.latency_ns = 1'000, .jitter_ns = 500'000, .ns_per_kib = 10})),
                         TransportKindName);

}  // namespace
}  // namespace shoal::sim
