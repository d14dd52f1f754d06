// The process that transport_process_test.cc stops and kills.
//
//   transport_peer ADDRESS offer|accept|stop KIND
//
// Connects over that kind of transport (transports_of_processes.h), then: `offer` sends eight payloads of 4 MiB;
// `accept` takes whatever is offered; `stop` sends a note and stops itself. Runs until it is killed or the connection
// ends.
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/ucx/ucx_api.h"
#include "net/wake_up.h"
#include "tests/conformance/transport/transports_of_processes.h"

namespace shoal {
namespace {

std::unique_ptr<Transport> MakeTransport(const std::string& kind) {
  for (const std::vector<TransportKind>& kinds : {UcxOfProcesses(), TcpOfProcesses()}) {
    for (const TransportKind& each : kinds) {
      if (each.name == kind) return each.make({.listen = false});
    }
  }
  return nullptr;
}

int Run(const std::string& address, const std::string& mode, const std::string& kind) {
  const std::unique_ptr<Transport> made = MakeTransport(kind);
  if (made == nullptr) return 2;
  Transport& transport = *made;
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
  shoal::PrepareUcxEnvironment();
  if (argc != 4) {
    fprintf(stderr, "usage: %s ADDRESS offer|accept|stop KIND\n", argv[0]);
    return 1;
  }
  return shoal::Run(argv[1], argv[2], argv[3]);
}
