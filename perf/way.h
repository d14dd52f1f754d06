// shoal-perf --way: what the way from this node to one server carries, by shoal_measure_way.
#ifndef SHOAL_PERF_WAY_H_
#define SHOAL_PERF_WAY_H_

#include "perf/perf_options.h"

namespace shoal {

// Measures, and returns the exit code. One line to stdout, which `shoalctl doctor --bandwidth` reads:
//   way mbit_per_s=9402.1 round_trip_us=108.2 processor_share=0.62 transports=tcp/eth0
// mbit_per_s: of payload, to all addresses together. processor_share: of one core of this node. Errors go to stderr.
int RunWay(const PerfOptions& options);

}  // namespace shoal

#endif  // SHOAL_PERF_WAY_H_
