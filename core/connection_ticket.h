// Tickets: what a rank shows to servers, and the key with which it proves that the ticket is its own.
//
// The scheduler issues a ticket to a member, together with its key. A server derives the same key from the ticket and
// from the cluster's key, so it keeps nothing for anybody. A ticket is no secret; its key is, and is never sent over
// the connection that it opens.
//
// A ticket holds in its own key period, and in the periods before and after it: the scheduler counts the periods, and
// says to members and servers which one it is with every heartbeat, so no other clock has to be right. Where no
// scheduler answers, the period stands still, and tickets go on.
//
// Pure functions; any thread.
#ifndef SHOAL_CORE_CONNECTION_TICKET_H_
#define SHOAL_CORE_CONNECTION_TICKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/token.h"

namespace shoal {

using ConnectionKey = std::array<std::byte, 32>;

inline constexpr size_t kMaxTicketBytes = 96;

struct ConnectionTicket {
  std::vector<std::byte> bytes;  // 1 to kMaxTicketBytes; empty: there is none
  ConnectionKey key{};
  bool seals = false;  // what travels over its connections is encrypted; the ticket says so as well
};

// What a server finds out from a ticket.
struct TicketKey {
  ConnectionKey key{};
  bool seals = false;

  friend bool operator==(const TicketKey&, const TicketKey&) = default;
};

inline constexpr uint64_t kKeyPeriodMs = 3'600'000;

// Which key period it is, by the scheduler's clock.
constexpr uint64_t KeyPeriodAt(Now now) { return now.unix_ms / kKeyPeriodMs; }

// For whom a ticket is.
struct TicketHolder {
  JobId job;  // 0: no rank, but somebody who measures the way to a server
  JobRank rank;
  Incarnation incarnation;  // of the process
};

// Of whoever holds the cluster's key.
ConnectionTicket IssueTicket(const TokenKey& cluster_key, uint64_t key_period, const TicketHolder& holder, bool seals);

// The key of a ticket that somebody shows, whoever he is. nullopt: it is no ticket, or its time is over. A ticket that
// nobody has issued has a key as well: nobody but the cluster's servers knows it.
std::optional<TicketKey> KeyOfTicket(const TokenKey& cluster_key, uint64_t key_period,
                                     std::span<const std::byte> ticket);

}  // namespace shoal

#endif  // SHOAL_CORE_CONNECTION_TICKET_H_
