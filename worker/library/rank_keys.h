// The ticket with which a rank's connections to servers are proved: the newest that the scheduler has sent.
//
// Any thread: the member thread sets it, and the I/O thread's transport asks for it.
#ifndef SHOAL_WORKER_LIBRARY_RANK_KEYS_H_
#define SHOAL_WORKER_LIBRARY_RANK_KEYS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/connection_keys.h"
#include "process/mutex.h"

namespace shoal {

class RankKeys final : public ConnectionKeys {
 public:
  void SetTicket(ConnectionTicket ticket) {
    const MutexLock lock(mutex_);
    ticket_ = std::move(ticket);
  }

  absl::StatusOr<ConnectionTicket> TicketFor(const std::string& address) override {
    const MutexLock lock(mutex_);
    if (!ticket_.bytes.empty()) return ticket_;
    return absl::UnauthenticatedError("the scheduler has sent no ticket for a connection to " + address +
                                      ": it is older than this worker; update it first");
  }
  // Nobody connects to a rank.
  std::optional<TicketKey> KeyOf(std::span<const std::byte>) override { return std::nullopt; }

 private:
  Mutex mutex_;
  ConnectionTicket ticket_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_RANK_KEYS_H_
