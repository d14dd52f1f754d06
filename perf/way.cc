#include "perf/way.h"

#include <cstdio>
#include <string>

#include "perf/rank_process.h"
#include "shoal/worker.h"

namespace shoal {

int RunWay(const PerfOptions& options) {
  // Of several devices that ranks are dealt over, the first rank's.
  const std::string net_device = options.net_device.substr(0, options.net_device.find('/'));
  shoal_way_options to_measure = {};
  to_measure.addresses = options.way.c_str();
  to_measure.scheduler = options.scheduler.empty() ? nullptr : options.scheduler.c_str();
  to_measure.tls_cert = options.credentials.certificate.c_str();
  to_measure.tls_key = options.credentials.key.c_str();
  to_measure.tls_ca = options.credentials.authorities.c_str();
  to_measure.net_device = net_device.c_str();
  to_measure.transports = options.transports.c_str();
  to_measure.connect_timeout_ms = uint64_t{1000} * options.timeout_s;
  shoal_way way = {};
  shoal_error error = {};
  if (shoal_measure_way(&to_measure, &way, &error) != SHOAL_OK) {
    std::fprintf(stderr, "shoal-perf: %s\n", error.message);
    return kExitFailed;
  }
  std::printf("way mbit_per_s=%.1f round_trip_us=%.1f processor_share=%.2f transports=%s\n",
              static_cast<double>(way.bytes_per_s) * 8 / 1e6, static_cast<double>(way.round_trip_ns) / 1e3,
              way.processor_share, way.transports);
  return kExitOk;
}

}  // namespace shoal
