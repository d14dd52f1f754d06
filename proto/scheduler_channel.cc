#include "proto/scheduler_channel.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr int kFirstReconnectDelayMs = 100;
constexpr int kMaxReconnectDelayMs = 1000;
constexpr int kConnectTimeoutMs = 3000;
// How messages begin that tell of connections.
constexpr std::array<absl::string_view, 3> kOfConnections = {"failed to connect", "connections to all backends failing",
                                                             "DNS resolution"};

// What gRPC says of what may happen to anybody, and what that means.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 9> kInWords = {{
    {"Failed parsing HTTP/2",
     "what listens there is not a scheduler; the port of --http is another one than that of "
     "--listen"},
    {"Trying to connect an http1.x server",
     "what listens there is not a scheduler; the port of --http is another one "
     "than that of --listen"},
    {"certificate verify failed", "its certificate has expired, or none of those in --tls-ca has signed it"},
    {"wrong version number", "what listens there does not speak TLS, so it has no certificate"},
    {"Socket closed", "the connection was closed; if it asks for certificates, see --tls-cert"},
    {"Domain name not found", "that name has no address: see how it is spelled, and what /etc/hosts and DNS say"},
    {"Could not contact DNS servers", "no DNS server answers that knows the address of that name"},
    {"tcp handshaker shutdown",
     "nobody answers at that address: the node may be down, or a firewall drops the packets"},
    {"C-ares status is not ARES_SUCCESS",
     "that name has no address: see how it is spelled, and what /etc/hosts and DNS "
     "say"},
}};

}  // namespace

std::shared_ptr<grpc::Channel> OpenSchedulerChannel(const std::string& target, const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetMaxReceiveMessageSize(-1);  // a list of many jobs is large
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectDelayMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectDelayMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the scheduler is inside
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, credentials.ForScheduler(), arguments);
}

std::string ShortReason(const std::string& message) {
  const bool of_connection = std::any_of(kOfConnections.begin(), kOfConnections.end(),
                                         [&](absl::string_view begin) { return absl::StartsWith(message, begin); });
  const size_t colon = message.rfind(": ");
  const std::string reason = of_connection && colon != std::string::npos ? message.substr(colon + 2) : message;
  for (const auto& [end, words] : kInWords) {
    if (absl::StrContains(reason, end)) return std::string(words);
  }
  return reason;
}

}  // namespace shoal
