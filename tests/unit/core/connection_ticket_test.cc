#include "core/connection_ticket.h"

#include <string>

#include "absl/strings/escaping.h"
#include "core/hmac_sha256.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint64_t kTicketPeriod = 500'000;
constexpr TicketHolder kHolder = {JobId(7), JobRank(3), Incarnation(0x1122334455667788)};

TokenKey ClusterKey(uint8_t first) {
  TokenKey key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = std::byte(first + i);
  return key;
}

std::string HexOf(std::span<const std::byte> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::span<const std::byte> TextBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// RFC 4231, cases 1 and 2.
TEST(HmacSha256, IsThatOfTheStandard) {
  EXPECT_EQ(HexOf(HmacSha256(std::vector<std::byte>(20, std::byte{0x0b}), TextBytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HexOf(HmacSha256(TextBytes("Jefe"), TextBytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(ConnectionTicket, AServerDerivesTheKeyThatWasIssued) {
  const ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  EXPECT_LE(ticket.bytes.size(), kMaxTicketBytes);
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod, ticket.bytes), (TicketKey{ticket.key, true}));
}

// Servers and schedulers of two releases derive the same.
TEST(ConnectionTicket, ItsBytesAndKeyAreFrozen) {
  const ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  EXPECT_EQ(HexOf(ticket.bytes), "010120a10700000000000700000000000000030000008877665544332211");
  EXPECT_EQ(HexOf(ticket.key), "b9c2a47ddb1d0a47060e6c504c2591817a95f6abebf81f747320e0d186aef08d");
}

TEST(ConnectionTicket, EachHolderPeriodAndClusterHasAKeyOfItsOwn) {
  const ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  TicketHolder other = kHolder;
  other.rank = JobRank(4);
  EXPECT_NE(IssueTicket(ClusterKey(1), kTicketPeriod, other, true).key, ticket.key);
  other = kHolder;
  other.job = JobId(8);
  EXPECT_NE(IssueTicket(ClusterKey(1), kTicketPeriod, other, true).key, ticket.key);
  other = kHolder;
  other.incarnation = Incarnation(1);
  EXPECT_NE(IssueTicket(ClusterKey(1), kTicketPeriod, other, true).key, ticket.key);
  EXPECT_NE(IssueTicket(ClusterKey(1), kTicketPeriod + 1, kHolder, true).key, ticket.key);
  EXPECT_NE(IssueTicket(ClusterKey(2), kTicketPeriod, kHolder, true).key, ticket.key);
}

// Who changes the ticket on its way has a key that nobody has issued.
TEST(ConnectionTicket, WhetherItSealsIsPartOfWhatIsProved) {
  ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  EXPECT_TRUE(ticket.seals);
  ticket.bytes[1] = std::byte{0};
  const std::optional<TicketKey> bare = KeyOfTicket(ClusterKey(1), kTicketPeriod, ticket.bytes);
  ASSERT_TRUE(bare.has_value());
  EXPECT_FALSE(bare->seals);
  EXPECT_NE(bare->key, ticket.key);
  EXPECT_EQ(bare->key, IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, false).key);
}

TEST(ConnectionTicket, HoldsInItsPeriodAndTheNeighbours) {
  const ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod + 1, ticket.bytes)->key, ticket.key);
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod - 1, ticket.bytes)->key, ticket.key);
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod + 2, ticket.bytes), std::nullopt);
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod - 2, ticket.bytes), std::nullopt);
  EXPECT_EQ(KeyPeriodAt({.unix_ms = 2 * kKeyPeriodMs - 1}) + 1, KeyPeriodAt({.unix_ms = 2 * kKeyPeriodMs}));
}

TEST(ConnectionTicket, WhatIsNoTicketHasNoKey) {
  const ConnectionTicket ticket = IssueTicket(ClusterKey(1), kTicketPeriod, kHolder, true);
  const std::span<const std::byte> bytes(ticket.bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod, bytes.first(size)), std::nullopt) << size;
  }
  std::vector<std::byte> longer = ticket.bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod, longer), std::nullopt);
  for (const size_t place : {0, 1}) {  // version, flags
    std::vector<std::byte> of_later_release = ticket.bytes;
    of_later_release[place] = std::byte{2};
    EXPECT_EQ(KeyOfTicket(ClusterKey(1), kTicketPeriod, of_later_release), std::nullopt) << place;
  }
  // One that somebody made up has a key that he can't know.
  std::vector<std::byte> made_up = ticket.bytes;
  made_up.back() ^= std::byte{1};
  EXPECT_NE(KeyOfTicket(ClusterKey(1), kTicketPeriod, made_up)->key, ticket.key);
}

}  // namespace
}  // namespace shoal
