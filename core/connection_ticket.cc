#include "core/connection_ticket.h"

#include <string_view>

#include "core/hmac_sha256.h"

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

// Little endian.
template <typename T>
void Append(T value, std::vector<std::byte>* bytes) {
  for (size_t i = 0; i < sizeof(value); ++i) bytes->push_back(static_cast<std::byte>(value >> (8 * i)));
}

uint64_t KeyPeriodOf(std::span<const std::byte> ticket) {
  uint64_t period = 0;
  for (size_t i = 0; i < sizeof(period); ++i)
    period |= std::to_integer<uint64_t>(ticket[kBytesBeforePeriod + i]) << (8 * i);
  return period;
}

}  // namespace

ConnectionTicket IssueTicket(const TokenKey& cluster_key, uint64_t key_period, const TicketHolder& holder, bool seals) {
  ConnectionTicket ticket{.bytes = {}, .seals = seals};
  ticket.bytes.reserve(kTicketBytes);
  ticket.bytes.push_back(kTicketVersion);
  ticket.bytes.push_back(seals ? kSeals : std::byte{0});
  Append(key_period, &ticket.bytes);
  Append(holder.job.value(), &ticket.bytes);
  Append(holder.rank.value(), &ticket.bytes);
  Append(holder.incarnation.value(), &ticket.bytes);
  ticket.key = HmacSha256(KeyOfTickets(cluster_key), ticket.bytes);
  return ticket;
}

std::optional<TicketKey> KeyOfTicket(const TokenKey& cluster_key, uint64_t key_period,
                                     std::span<const std::byte> ticket) {
  if (ticket.size() != kTicketBytes || ticket[0] != kTicketVersion || (ticket[1] & ~kSeals) != std::byte{0}) {
    return std::nullopt;
  }
  const uint64_t period = KeyPeriodOf(ticket);
  const uint64_t apart = period > key_period ? period - key_period : key_period - period;
  if (apart > 1) return std::nullopt;
  return TicketKey{.key = HmacSha256(KeyOfTickets(cluster_key), ticket), .seals = ticket[1] == kSeals};
}

}  // namespace shoal
