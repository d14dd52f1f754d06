#include "core/connection_ticket.h"

#include <string_view>

#include "core/hmac_sha256.h"
#include "core/little_endian.h"

namespace shoal {
namespace {

constexpr auto kTicketVersion = std::byte{1};
constexpr auto kSeals = std::byte{1};
// Version, whether it seals, key period, job, rank, incarnation.
constexpr size_t kBytesBeforePeriod = 2;
constexpr size_t kTicketBytes = kBytesBeforePeriod + 8 + 8 + 4 + 8;

// So what is signed with the cluster's key elsewhere, and goes over the network, is no key of a ticket.
ConnectionKey KeyOfTickets(const TokenKey& cluster_key) {
  constexpr std::string_view kPurpose = "shoal connection tickets";
  return HmacSha256(cluster_key, std::as_bytes(std::span(kPurpose)));
}

}  // namespace

ConnectionTicket IssueTicket(const TokenKey& cluster_key, uint64_t key_period, const TicketHolder& holder, bool seals) {
  ConnectionTicket ticket{.bytes = std::vector<std::byte>(kTicketBytes), .seals = seals};
  std::byte* at = ticket.bytes.data();
  *at++ = kTicketVersion;
  *at++ = seals ? kSeals : std::byte{0};
  const auto append = [&at](auto number) {
    WriteLittleEndian(at, number);
    at += sizeof(number);
  };
  append(key_period);
  append(holder.job.value());
  append(holder.rank.value());
  append(holder.incarnation.value());
  ticket.key = HmacSha256(KeyOfTickets(cluster_key), ticket.bytes);
  return ticket;
}

std::optional<TicketKey> KeyOfTicket(const TokenKey& cluster_key, uint64_t key_period,
                                     std::span<const std::byte> ticket) {
  if (ticket.size() != kTicketBytes || ticket[0] != kTicketVersion || (ticket[1] & ~kSeals) != std::byte{0}) {
    return std::nullopt;
  }
  const auto period = ReadLittleEndian<uint64_t>(ticket.data() + kBytesBeforePeriod);
  const uint64_t apart = period > key_period ? period - key_period : key_period - period;
  if (apart > 1) return std::nullopt;
  return TicketKey{.key = HmacSha256(KeyOfTickets(cluster_key), ticket), .seals = ticket[1] == kSeals};
}

}  // namespace shoal
