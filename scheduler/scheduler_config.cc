#include "scheduler/scheduler_config.h"

namespace shoal {

void DeclareSchedulerOptions(SchedulerConfig* config, OptionTable* table) {
  table->String("listen", "SHOAL_SCHEDULER_LISTEN", "IP:PORT",
                "Address for servers, workers and operators. 0.0.0.0:PORT: every interface. Port 0: any free port.",
                &config->listen);
  table->String("state-file", "SHOAL_SCHEDULER_STATE_FILE", "PATH",
                "File that keeps epoch, ids and members over a restart. None: they are kept in memory only.",
                &config->state_file);
  table->Uint64("lease-ttl", "SHOAL_SCHEDULER_LEASE_TTL", "MS",
                "After this time without a heartbeat a server or a rank counts as lost.", &config->lease_ttl_ms,
                kMinLeaseTtlMs, kMaxLeaseTtlMs);
  table->Flag("reflection", "SHOAL_SCHEDULER_REFLECTION", "Serve gRPC reflection, so that grpcurl knows the services.",
              &config->reflection);
  table->Flag("log-events", "SHOAL_SCHEDULER_LOG_EVENTS",
              "Write each event (servers, maps, jobs, lost ranks) to stderr as a line.", &config->log_events);
}

}  // namespace shoal
