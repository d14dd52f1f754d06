// A process that the tests kill, on the transport that the product runs on.
//
//   same_node_peer ADDRESS send|region|accept|fork [UID]
//
// Connects, then: `send` sends payloads of all sizes without end, `region` the same from memory that it shares,
// `accept` takes whatever is offered, half of it by borrowing; `fork` is `send` with a child that keeps every
// descriptor open. With a UID it is that user's process. Runs until it is killed or the connection ends.
#include <grp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "net/data_plane/data_plane.h"
#include "net/wake_up.h"
#include "tests/conformance/transport/tcp_under_test.h"

namespace shoal {
namespace {

constexpr size_t kPayloadBytes = 512 << 10;
constexpr size_t kSizes[] = {100, 8192, 100'000, kPayloadBytes};
constexpr uint64_t kInFlight = 8;

class Traffic {
 public:
  Traffic(const std::string& mode, Transport* transport, OwnedMemory* region, PeerId peer)
      : mode_(mode), transport_(transport), peer_(peer), own_(kPayloadBytes) {
    payload_ = mode == "region" ? region->bytes().first(kPayloadBytes) : std::span(own_);
    std::memset(payload_.data(), 0x5a, payload_.size());
  }

  // The exit code, when it is over.
  std::optional<int> On(const TransportEvent& event) {
    switch (event.kind) {
      case TransportEventKind::kPeerUp:
        if (mode_ == "fork" && fork() == 0) {
          pause();
          _exit(0);
        }
        if (mode_ == "accept") return std::nullopt;
        while (token_ < kInFlight) {
          if (!Send()) return 3;
        }
        return std::nullopt;
      case TransportEventKind::kSent:
        if (event.status.ok() && !Send()) return 3;
        return std::nullopt;
      case TransportEventKind::kOffered:
        if (++offers_ % 2 == 0 && transport_->lender()->Borrow(event.offer) != nullptr) {
          transport_->lender()->Return(event.offer);
          return std::nullopt;
        }
        landings_[++token_].resize(event.payload_bytes);
        return transport_->Accept(event.offer, landings_[token_], token_).ok() ? std::nullopt : std::optional(3);
      case TransportEventKind::kLanded:
        landings_.erase(event.token);
        return std::nullopt;
      case TransportEventKind::kNote:
        return std::nullopt;
      case TransportEventKind::kPeerDown:
        return 0;
    }
    return std::nullopt;
  }

 private:
  bool Send() {
    const size_t size = kSizes[++token_ % std::size(kSizes)];
    return transport_->Send(peer_, {}, payload_.first(size), token_).ok();
  }

  const std::string mode_;
  Transport* const transport_;
  const PeerId peer_;
  std::vector<std::byte> own_;
  std::span<std::byte> payload_;
  std::map<uint64_t, std::vector<std::byte>> landings_;
  uint64_t token_ = 0;
  uint64_t offers_ = 0;
};

int Run(const std::string& address, const std::string& mode) {
  const absl::StatusOr<std::unique_ptr<OwnedMemory>> region = OwnedMemory::Make("test-region", kPayloadBytes);
  if (!region.ok()) return 2;
  DataPlaneOptions options;
  options.network.net_device = "lo";
  options.region = region->get();
  options.keys = TcpUnderTest(false).keys;
  const absl::StatusOr<std::unique_ptr<Transport>> made = MakeDataPlaneTransport(options);
  if (!made.ok()) {
    fprintf(stderr, "no transport: %s\n", made.status().ToString().c_str());
    return 2;
  }
  Transport& transport = **made;
  const absl::StatusOr<PeerId> peer = transport.Connect(address);
  if (!peer.ok()) {
    fprintf(stderr, "no connection: %s\n", peer.status().ToString().c_str());
    return 2;
  }
  Traffic traffic(mode, &transport, region->get(), *peer);
  for (;;) {
    for (const TransportEvent& event : transport.Poll()) {
      if (const std::optional<int> code = traffic.On(event); code.has_value()) return *code;
    }
    if (transport.Arm()) WaitReadable({transport.wake_fd()}, std::nullopt);
  }
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: %s ADDRESS send|region|accept|fork [UID]\n", argv[0]);
    return 1;
  }
  if (argc == 4) {
    const auto user = static_cast<uid_t>(strtoul(argv[3], nullptr, 10));
    if (setgroups(0, nullptr) != 0 || setresuid(user, user, user) != 0) return 1;
  }
  return shoal::Run(argv[1], argv[2]);
}
