// A ticket for connections to servers (core/connection_ticket.h) for a process that belongs to no job.
//
// Any thread.
#ifndef SHOAL_WORKER_RPC_GET_TICKET_H_
#define SHOAL_WORKER_RPC_GET_TICKET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/connection_ticket.h"
#include "proto/credentials.h"

namespace shoal {

// One try, by `deadline_ns` of the monotonic clock. InvalidArgument: `scheduler` is no address. Unavailable,
// DeadlineExceeded: it does not answer. Unimplemented: it is older than this call.
absl::StatusOr<ConnectionTicket> GetTicket(const std::string& scheduler, uint64_t deadline_ns,
                                           const Credentials& credentials = {});

}  // namespace shoal

#endif  // SHOAL_WORKER_RPC_GET_TICKET_H_
