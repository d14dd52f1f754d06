// What servers and ranks tell of their work, as the machine's plain structs and as protobuf messages. Pure;
// any thread.
#ifndef SHOAL_SCHEDULER_RPC_LOAD_MESSAGES_H_
#define SHOAL_SCHEDULER_RPC_LOAD_MESSAGES_H_

#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "shoal/v1/scheduler.pb.h"
#include "shoal/v1/status.pb.h"

namespace shoal::scheduler {

ServerLoad FromMessage(const v1::ServerLoad& message);
// Another number of op times than we have buckets is none.
WorkerLoad FromMessage(const v1::WorkerLoad& message);

void ToMessage(const ServerLoad& load, v1::ServerLoad* message);
void ToMessage(const ServerRates& rates, v1::ServerRates* message);
// Of one rank: without its op times.
void ToMessage(const WorkerLoad& load, v1::WorkerLoad* message);
// Of a job; its op times too, if they are known.
void ToMessageOfJob(const WorkerLoad& load, v1::WorkerLoad* message);
void ToMessage(const JobRates& rates, v1::JobRates* message);
void ToMessage(const RankRates& rates, v1::RankRates* message);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_LOAD_MESSAGES_H_
