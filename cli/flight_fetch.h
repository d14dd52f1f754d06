// The flight records of a failure, as the scheduler has them (GetFlightRecords in proto/shoal/v1/status.proto): what
// members sent it, for where nobody can get at their files.
#ifndef SHOAL_CLI_FLIGHT_FETCH_H_
#define SHOAL_CLI_FLIGHT_FETCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/cluster_client.h"
#include "cli/flight_record.h"

namespace shoal::cli {

// `job`: empty: of any. `group`: 0: the one that failed last. NotFound: the scheduler has none. Unavailable: it has
// none that can be read. Other errors: those of ClusterClient.
absl::StatusOr<FlightRecords> FetchFlightRecords(const std::string& job, uint64_t group, ClusterClient* client);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_FLIGHT_FETCH_H_
