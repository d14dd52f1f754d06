// The process that ucx_process_test.cc stops and kills.
//
//   transport_peer ADDRESS offer|accept|stop RENDEZVOUS_THRESHOLD
//
// Connects, then: `offer` sends eight payloads of 4 MiB; `accept` takes whatever is offered; `stop` sends a note and
// stops itself. Runs until it is killed or the connection ends.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "net/ucx/ucx_environment.h"
#include "net/wake_up.h"
#include "tests/conformance/transport/ucx_under_test.h"

namespace shoal {
namespace {

int Run(const std::string& address, const std::string& mode, size_t rendezvous_threshold_bytes) {
  UcxTransportOptions options = UcxUnderTest();
  options.listen_ip.clear();
  options.rendezvous_threshold_bytes = rendezvous_threshold_bytes;
  const absl::StatusOr<std::unique_ptr<Transport>> made = MakeUcxTransport(options);
  if (!made.ok()) return 2;
  Transport& transport = **made;
  const absl::StatusOr<PeerId> peer = transport.Connect(address);
  if (!peer.ok()) return 2;
  const std::vector<std::byte> payload(4 << 20, std::byte{0x5a});
  std::map<uint64_t, std::vector<std::byte>> landings;
  uint64_t token = 0;
  for (;;) {
    for (const TransportEvent& event : transport.Poll()) {
      switch (event.kind) {
        case TransportEventKind::kPeerUp:
          for (int i = 0; mode == "offer" && i < 8; ++i) {
            if (!transport.Send(*peer, {}, payload, ++token).ok()) return 3;
          }
          break;
        case TransportEventKind::kOffered:
          landings[++token].resize(event.payload_bytes);
          if (mode == "accept" && !transport.Accept(event.offer, landings[token], token).ok()) return 3;
          break;
        case TransportEventKind::kLanded:
          landings.erase(event.token);
          break;
        case TransportEventKind::kNote:
          if (mode == "stop") raise(SIGSTOP);
          break;
        case TransportEventKind::kPeerDown:
          return 0;
        case TransportEventKind::kSent:
          break;
      }
    }
    if (transport.Arm()) WaitReadable({transport.wake_fd()}, std::nullopt);
  }
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::PrepareUcxEnvironment(argv);
  if (argc != 4) {
    fprintf(stderr, "usage: %s ADDRESS offer|accept|stop RENDEZVOUS_THRESHOLD\n", argv[0]);
    return 1;
  }
  return shoal::Run(argv[1], argv[2], strtoull(argv[3], nullptr, 10));
}
