#include "scheduler/rpc/control_server.h"

#include <utility>

#include "core/failure_detection.h"

namespace shoal::scheduler {
namespace {

constexpr int kProbePeriodMs = kControlProbePeriodNs / kNsPerMs;
constexpr int kProbeTimeoutMs = kControlProbeTimeoutNs / kNsPerMs;
constexpr int kMinPeerPingIntervalMs = 5'000;
// Newer releases of gRPC wait for the answer to a probe by a time of its own, a minute unless it is set, where the
// peer's kernel still acknowledges and its process is silent. gRPC 1.51 has no such time and no name for it.
constexpr char kPingTimeoutMs[] = "grpc.http2.ping_timeout_ms";

}  // namespace

void ListenOn(const std::string& listen, grpc::ServerBuilder* builder, int* port,
              std::shared_ptr<Doorkeeper> doorkeeper) {
  builder->AddListeningPort(listen, Doorkeeper::CredentialsOf(std::move(doorkeeper)), port);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // or a second scheduler would share the port unnoticed
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kProbePeriodMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kProbeTimeoutMs);
  builder->AddChannelArgument(kPingTimeoutMs, kProbeTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPeerPingIntervalMs);
}

}  // namespace shoal::scheduler
