// How what a member's connections did before a group failed (net/flight_recorder.h) reaches the scheduler, which keeps
// it for `shoalctl timeline`: the member may have no disk to write it to.
//
// Thread: any.
#ifndef SHOAL_PROTO_FLIGHT_RECORD_SENDER_H_
#define SHOAL_PROTO_FLIGHT_RECORD_SENDER_H_

#include <cstdint>
#include <string>

#include "process/flight_folder.h"
#include "proto/credentials.h"
#include "shoal/v1/scheduler.pb.h"

namespace shoal {

// As FlightFolder::Send. `scheduler`: an address that SchedulerTarget takes. `member`: who sends it. One try: whoever
// fails may be about to end, and a scheduler that is away, or is older than this call, is not waited for.
std::string SendFlightRecord(const std::string& scheduler, v1::SendFlightRecordRequest member,
                             const FlightFolder::Record& record, uint64_t deadline_ns,
                             const Credentials& credentials = {});

}  // namespace shoal

#endif  // SHOAL_PROTO_FLIGHT_RECORD_SENDER_H_
