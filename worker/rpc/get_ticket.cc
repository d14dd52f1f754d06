#include "worker/rpc/get_ticket.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "proto/shared_messages.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {

absl::StatusOr<ConnectionTicket> GetTicket(const std::string& scheduler, uint64_t deadline_ns,
                                           const Credentials& credentials) {
  const absl::StatusOr<std::string> target = SchedulerTarget(scheduler);
  if (!target.ok()) return target.status();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(NsUntil(deadline_ns)));
  // A scheduler that has just begun to lead may not listen yet.
  context.set_wait_for_ready(true);
  v1::GetTicketResponse response;
  const std::unique_ptr<v1::Scheduler::Stub> stub = v1::Scheduler::NewStub(OpenSchedulerChannel(*target, credentials));
  const grpc::Status status = stub->GetTicket(&context, v1::GetTicketRequest(), &response);
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat("the scheduler at ", scheduler, " gives no ticket for connections to servers: ",
                                     ShortReason(status.error_message())));
  }
  ConnectionTicket ticket = FromMessage(response.ticket());
  if (ticket.bytes.empty()) return absl::InternalError("the scheduler's answer has no ticket");
  return ticket;
}

}  // namespace shoal
