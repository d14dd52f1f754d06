#include "proto/flight_record_sender.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {

std::string SendFlightRecord(const std::string& scheduler, v1::SendFlightRecordRequest member,
                             const FlightFolder::Record& record, uint64_t deadline_ns, const Credentials& credentials) {
  v1::SendFlightRecordRequest request = std::move(member);
  request.set_job_id(record.job.value());
  request.set_group_id(record.group.value());
  request.set_io_thread(record.io_thread);
  request.set_record(record.text);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(NsUntil(deadline_ns)));
  v1::SendFlightRecordResponse response;
  const std::unique_ptr<v1::Scheduler::Stub> stub =
      v1::Scheduler::NewStub(OpenSchedulerChannel(*SchedulerTarget(scheduler), credentials));
  if (!stub->SendFlightRecord(&context, request, &response).ok()) return "";
  return absl::StrCat("the scheduler has it: `shoalctl timeline --group ", record.group.value(), "` draws it");
}

}  // namespace shoal
