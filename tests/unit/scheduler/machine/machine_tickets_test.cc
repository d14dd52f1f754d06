// What members prove themselves with to each other.
#include "core/connection_ticket.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using testing::HasSubstr;

// As a server that is registered finds the key out.
std::optional<TicketKey> KeyAt(const ServerRegistered& server, const ConnectionTicket& ticket) {
  return KeyOfTicket(server.token_key, server.key_period, ticket.bytes);
}

TEST(MachineTickets, AServerDerivesTheKeyOfEachRank) {
  MachineHarness harness;
  const auto server = harness.Ask<ServerRegistered>(Server("alpha", 11, 1));
  const auto first = harness.Ask<JobJoined>(Join("gpt", 2, 0, 21));
  const auto second = harness.Ask<JobJoined>(Join("gpt", 2, 1, 22));
  EXPECT_EQ(KeyAt(server, first.ticket), (TicketKey{first.ticket.key, false}));
  EXPECT_EQ(KeyAt(server, second.ticket), (TicketKey{second.ticket.key, false}));
  EXPECT_NE(first.ticket.key, second.ticket.key);
  // Who asks again has the same one.
  EXPECT_EQ(harness.Ask<JobJoined>(Join("gpt", 2, 0, 21)).ticket.key, first.ticket.key);
}

TEST(MachineTickets, HeartbeatsBringTheNextPeriodToRanksAndServers) {
  MachineHarness harness;
  const auto server = harness.Ask<ServerRegistered>(Server("alpha", 11, 1));
  const auto joined = harness.Ask<JobJoined>(Join("gpt", 1, 0, 21));
  EXPECT_EQ(harness.Ask<WorkerRenewed>(Beat(joined.job, 0, 21)).ticket.key, joined.ticket.key);
  harness.Stall(kKeyPeriodMs);
  const auto renewed = harness.Ask<WorkerRenewed>(Beat(joined.job, 0, 21));
  EXPECT_NE(renewed.ticket.key, joined.ticket.key);
  const auto told =
      harness.Ask<ServerRenewed>(HeartbeatServer{.server = server.server, .incarnation = Incarnation(11)});
  EXPECT_EQ(told.key_period, server.key_period + 1);
  // In which order the two hear of it makes no difference.
  for (const uint64_t period : {server.key_period, told.key_period}) {
    for (const ConnectionTicket& ticket : {joined.ticket, renewed.ticket}) {
      const std::optional<TicketKey> key = KeyOfTicket(server.token_key, period, ticket.bytes);
      ASSERT_TRUE(key.has_value());
      EXPECT_EQ(key->key, ticket.key);
    }
  }
}

TEST(MachineTickets, WhoBelongsToNoJobCanHaveOne) {
  MachineHarness harness;
  const auto server = harness.Ask<ServerRegistered>(Server("alpha", 11, 1));
  const auto issued = harness.Ask<TicketIssued>(GetTicket{});
  EXPECT_EQ(KeyAt(server, issued.ticket), (TicketKey{issued.ticket.key, false}));
}

TEST(MachineTickets, AClusterThatEncryptsRefusesWhoCanNot) {
  MachineHarness harness(std::nullopt, 0, /*encrypt=*/true);
  const absl::Status server = harness.Try(Server("alpha", 11, 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(server)) << server;
  EXPECT_THAT(std::string(server.message()), HasSubstr("server \"alpha\" can't: start it with --transports tcp"));
  const absl::Status rank = harness.Try(Join("gpt", 1, 0, 21));
  EXPECT_TRUE(absl::IsFailedPrecondition(rank)) << rank;
  EXPECT_THAT(std::string(rank.message()), HasSubstr("rank 0 of job \"gpt\" can't: set SHOAL_TRANSPORTS=tcp"));

  RegisterServer server_that_can = Server("alpha", 11, 1);
  server_that_can.can_encrypt = true;
  const auto registered = harness.Ask<ServerRegistered>(server_that_can);
  JoinJob rank_that_can = Join("gpt", 1, 0, 21);
  rank_that_can.can_encrypt = true;
  const auto joined = harness.Ask<JobJoined>(rank_that_can);
  EXPECT_TRUE(joined.ticket.seals);
  EXPECT_EQ(KeyAt(registered, joined.ticket), (TicketKey{joined.ticket.key, true}));
  EXPECT_TRUE(harness.Ask<WorkerRenewed>(Beat(joined.job, 0, 21)).ticket.seals);
  EXPECT_TRUE(harness.Ask<TicketIssued>(GetTicket{}).ticket.seals);
}

}  // namespace
}  // namespace shoal::scheduler
