// By itself: the library, which has no command line, has the rest of the configuration.

#include "core/shard_map.h"
#include "program/option_table.h"
#include "server/server_config.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxTimeoutMs = 24ull * 3600 * 1000;

}  // namespace

void DeclareServerOptions(ServerConfig* config, OptionTable* table) {
  table->String("scheduler", "SHOAL_SCHEDULER", "HOST:PORT", "Scheduler to register with. Required.",
                &config->scheduler);
  table->String("advertise", "SHOAL_SERVER_ADVERTISE", "ADDRESS",
                "IP address of this node that workers connect to; the server listens there. Or a network in which this "
                "node has one address (10.20.0.0/16), or a device that has one (eth1). Over TCP, data goes by its "
                "device. Required.",
                &config->advertise);
  table->String("name", "SHOAL_SERVER_NAME", "NAME",
                "Unique name in the cluster, by which operators know the server. Started again under its name on its "
                "node, it takes its old place; on another node it is refused while the old one is live. Empty: "
                "HOSTNAME-PORT, which is another name at each start unless --port-base is given.",
                &config->name);
  table->Uint32("io-threads", "SHOAL_SERVER_IO_THREADS", "N",
                "Threads that receive, sum and send; each listens on its own port. Each gets the same share of the "
                "chunks, so a server with four gets four times the bytes of one with one, unless --weight says "
                "otherwise.",
                &config->io_threads, 1, kMaxServerIoThreads);
  table->Bytes(
      "slot-memory", "SHOAL_SERVER_SLOT_MEMORY",
      "Memory for chunks that are being summed, shared equally by the I/O threads. With RDMA all of it is in use, "
      "and locked, from the start.",
      &config->slot_memory_bytes, kMinSlotMemoryBytesPerIoThread);
  table->Uint32("port-base", "SHOAL_SERVER_PORT_BASE", "PORT",
                "Port of the first I/O thread; the others use the next ports. 0: any free ports.", &config->port_base,
                0, kMaxPort);
  table->String("net-device", "SHOAL_SERVER_NET_DEVICE", "DEVICE",
                "Network device of the data plane, such as eth0 or mlx5_0:1. Empty: that of each route.",
                &config->net_device);
  table->String(
      "transports", "SHOAL_SERVER_TRANSPORTS", "LIST",
      "How bytes travel between nodes: tcp for sockets, or RDMA transports of UCX such as rc. Workers need the same.",
      &config->transports);
  table->Flag("network-only", "SHOAL_SERVER_NETWORK_ONLY",
              "Uses the network instead of shared memory between processes of one node as well.",
              &config->network_only);
  table->Uint32(
      "weight", "SHOAL_SERVER_WEIGHT", "N",
      "For servers of one pool whose links have different speeds: share of the chunks that each I/O thread gets, "
      "relative to the other servers' weights. In a job with colocated servers: speed of this server's link as a "
      "multiple of a rank's.",
      &config->weight, 1, kMaxShardWeight);
  table->Uint64("timeout", "SHOAL_SERVER_TIMEOUT", "MS",
                "How long to try at the start to register, a wait for the network device's link included. Once "
                "registered, the server waits for the scheduler without limit.",
                &config->timeout_ms, 1, kMaxTimeoutMs);
  table->Uint64("drain-timeout", "SHOAL_SERVER_DRAIN_TIMEOUT", "MS",
                "How long open groups get to end after SIGTERM, SIGINT or shoalctl drain.", &config->drain_timeout_ms,
                0, kMaxTimeoutMs);
  table->String("http", "SHOAL_SERVER_HTTP", "IP:PORT",
                "Address of /metrics, /healthz and /readyz over HTTP. Anybody who can reach it can read them, so one "
                "that other nodes reach takes --insecure-network. 0.0.0.0:PORT: every "
                "interface, over IPv6 only where civetweb has it (that of Debian 12 has not). Port 0: any free port. "
                "Empty: none.",
                &config->http);
  table->Flag("insecure-network", "SHOAL_SERVER_INSECURE_NETWORK",
              "Lets --http be an address that other nodes reach. Without it that is an error.",
              &config->insecure_network);
  table->String(
      "flight-recorder", "SHOAL_SERVER_FLIGHT_RECORDER", "FOLDER",
      "Where the last events of an I/O thread's connections are written when a group has failed on it; the scheduler "
      "is sent them as well. auto: to a folder shoal-flights-UID in the temporary directory, which is made then. "
      "off: nowhere, and they are not sent.",
      &config->flight_recorder);
  table->String("log-format", "SHOAL_SERVER_LOG_FORMAT", "FORMAT",
                "Form of the log on stderr: text (human-readable lines) or json (one object per line).",
                &config->log_format);
  DeclareCredentialOptions(&config->credentials, table);
}

}  // namespace shoal
