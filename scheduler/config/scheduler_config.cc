#include "scheduler/config/scheduler_config.h"

#include "core/flow_plan.h"
#include "process/listen_address.h"
#include "program/option_table.h"

namespace shoal {

void DeclareSchedulerOptions(SchedulerConfig* config, OptionTable* table) {
  table->String("listen", "SHOAL_SCHEDULER_LISTEN", "IP:PORT",
                "Address to listen on for servers, workers and operators. 0.0.0.0:PORT: every interface, over IPv4 and "
                "IPv6. Port 0: "
                "any free port.",
                &config->listen);
  table->Flag("insecure-network", "SHOAL_SCHEDULER_INSECURE_NETWORK",
              "Lets --listen without certificates, and --http, be addresses that other nodes reach, where everybody on "
              "the network can read and end the cluster. Without it that is an error. See docs/security.md.",
              &config->insecure_network);
  table->String("state-file", "SHOAL_SCHEDULER_STATE_FILE", "PATH",
                "File that keeps epoch, ids and members across restarts. Empty: they are kept in memory only.",
                &config->state_file);
  table->String("store", "SHOAL_SCHEDULER_STORE", "etcd://HOST:PORT,...[/PREFIX]",
                "Keeps the state in etcd instead, so that several schedulers can take over from each other.",
                &config->store);
  table->String("advertise", "SHOAL_SCHEDULER_ADVERTISE", "HOST:PORT",
                "With --store: address at which the other schedulers reach this one, of IPv6 with or without brackets. "
                "Empty: the "
                "address that it listens on.",
                &config->advertise);
  table->Uint64(
      "leader-lease", "SHOAL_SCHEDULER_LEADER_LEASE", "MS",
      "With --store: another scheduler takes over when the leading one has not renewed its lease for this time.",
      &config->leader_lease_ms, kMinLeaderLeaseMs, kMaxLeaseTtlMs);
  table->Uint64("lease-ttl", "SHOAL_SCHEDULER_LEASE_TTL", "MS",
                "A server or a rank without a heartbeat for this time counts as lost.", &config->lease_ttl_ms,
                kMinLeaseTtlMs, kMaxLeaseTtlMs);
  table->Bytes("port-buffer", "SHOAL_SCHEDULER_PORT_BUFFER",
               "What every switch port between nodes holds at the least, so that chunks and windows fit it. "
               "0: not known; 256K are assumed, and more of links above 8 Gbit/s.",
               &config->port_buffer_bytes, 0, kMaxPortBufferBytes);
  table->Flag("encrypt", "SHOAL_SCHEDULER_ENCRYPT",
              "Encrypts what ranks and servers send each other over TCP, which costs processor time. Servers and ranks "
              "that move data otherwise are refused. Not within a node.",
              &config->encrypt);
  table->String("http", "SHOAL_SCHEDULER_HTTP", "IP:PORT",
                "Address of /metrics, /healthz and /readyz over HTTP. Anybody who can reach it can read them, so one "
                "that other nodes reach takes --insecure-network. 0.0.0.0:PORT: every "
                "interface, over IPv6 only where civetweb has it (that of Debian 12 has not). Port 0: any free port. "
                "Empty: none.",
                &config->http);
  table->Flag("reflection", "SHOAL_SCHEDULER_REFLECTION", "Serves gRPC reflection, so that grpcurl knows the services.",
              &config->reflection);
  table->Flag(
      "log-events", "SHOAL_SCHEDULER_LOG_EVENTS",
      "Writes each event (servers, maps, jobs, lost ranks) to stderr as a line; without it only warnings and errors.",
      &config->log_events);
  table->String("log-format", "SHOAL_SCHEDULER_LOG_FORMAT", "FORMAT",
                "Form of the log on stderr: text (human-readable lines) or json (one object per line).",
                &config->log_format);
  table->String("audit-log", "SHOAL_SCHEDULER_AUDIT_LOG", "PATH",
                "File that gets a line of JSON for each call that changes something or is refused: who, from where, "
                "what, and how it ended (docs/security.md). Lines are appended. A file that was renamed is made anew. "
                "Empty: none.",
                &config->audit_log);
  DeclareCredentialOptions(&config->credentials, table);
  table->String(
      "identities", "SHOAL_SCHEDULER_IDENTITIES", "PATH",
      "With --tls-cert: file that says which identity has which role, a line each: \"IDENTITY ROLE\" or "
      "\"IDENTITY worker TENANT\" (docs/security.md). Read at the start. Empty: an identity of the form "
      "spiffe://DOMAIN/shoal/ROLE or spiffe://DOMAIN/shoal/worker/TENANT has that role, and no other has one.",
      &config->identities);
  table->String(
      "etcd-ca", "SHOAL_SCHEDULER_ETCD_CA", "PATH",
      "With --store: PEM file of the certificates of those who may sign etcd's. Empty: etcd is called in plain "
      "text.",
      &config->etcd_credentials.authorities);
  table->String("etcd-cert", "SHOAL_SCHEDULER_ETCD_CERT", "PATH",
                "With --etcd-ca: PEM file of the certificate to show etcd. Empty: none.",
                &config->etcd_credentials.certificate);
  table->String("etcd-key", "SHOAL_SCHEDULER_ETCD_KEY", "PATH", "PEM file of the private key of --etcd-cert.",
                &config->etcd_credentials.key);
  table->String("etcd-login", "SHOAL_SCHEDULER_ETCD_LOGIN", "PATH",
                "With --store: file with USER:PASSWORD of etcd. Read again at each login. Empty: no login.",
                &config->etcd_login);
}

std::string OpenToNetwork(const SchedulerConfig& config) {
  if (config.credentials.empty() && OthersMayReach(config.listen)) {
    return "everybody who reaches this scheduler can read and end the cluster, and take part in it";
  }
  if (config.http.empty() || !OthersMayReach(config.http)) return "";
  return "everybody who reaches the address of --http can read metrics and page";
}

}  // namespace shoal
