// The keys of whoever connects to a server: derived from the tickets that ranks show (core/connection_ticket.h).
//
// Not thread safe: it belongs to the thread of its transport.
#ifndef SHOAL_SERVER_THREAD_TICKET_KEYS_H_
#define SHOAL_SERVER_THREAD_TICKET_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/connection_ticket.h"
#include "net/connection_keys.h"

namespace shoal {

class TicketKeys final : public ConnectionKeys {
 public:
  // Until both are set nobody is let in.
  void SetClusterKey(const TokenKey& key) { cluster_key_ = key; }
  void SetPeriod(uint64_t key_period) { period_ = key_period; }

  absl::StatusOr<ConnectionTicket> TicketFor(const std::string&) override {
    return absl::FailedPreconditionError("a server connects to nobody");
  }
  std::optional<TicketKey> KeyOf(std::span<const std::byte> ticket) override {
    if (!cluster_key_.has_value() || !period_.has_value()) return std::nullopt;
    return KeyOfTicket(*cluster_key_, *period_, ticket);
  }

 private:
  std::optional<TokenKey> cluster_key_;
  std::optional<uint64_t> period_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_THREAD_TICKET_KEYS_H_
