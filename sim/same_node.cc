#include "sim/same_node.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/forwarding_transport.h"
#include "net/shm/shm_transport.h"

namespace shoal::sim {

class SameNodeTransport : public ForwardingTransport {
 public:
  SameNodeTransport(SameNode* node, std::unique_ptr<Transport> below)
      : ForwardingTransport(std::move(below)), node_(node) {}
  ~SameNodeTransport() override { node_->Leave(this); }

 private:
  SameNode* const node_;
};

std::unique_ptr<Transport> SameNode::MakeTransport(bool listen, std::function<void()> wake) {
  const uint32_t number = next_address_++;
  ShmTransportOptions options;
  options.arena_bytes = arena_bytes_;
  // A name only: other simulators may run on this node. It must not look as if no other node reached it.
  const auto pid = static_cast<uint32_t>(getpid());
  if (listen) {
    options.listen_address =
        absl::StrCat("10.", pid >> 16 & 255, ".", pid >> 8 & 255, ".", pid & 255, ":", 10'000 + number);
  }
  absl::StatusOr<std::unique_ptr<ShmTransport>> made = MakeShmTransport(options);
  if (!made.ok()) {
    std::fprintf(stderr, "the simulator can't share memory: %s\n", made.status().ToString().c_str());
    std::abort();
  }
  auto transport = std::make_unique<SameNodeTransport>(this, *std::move(made));
  members_.push_back({.transport = transport.get(), .wake = std::move(wake)});
  return transport;
}

void SameNode::Leave(Transport* transport) {
  std::erase_if(members_, [&](const Member& member) { return member.transport == transport; });
  // Its sockets close after this.
  world_->After(1, [this] { Ring(); });
}

void SameNode::Ring() {
  std::vector<pollfd> descriptors;
  descriptors.reserve(members_.size());
  for (const Member& member : members_) descriptors.push_back({.fd = member.transport->wake_fd(), .events = POLLIN});
  poll(descriptors.data(), descriptors.size(), 0);
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((descriptors[i].revents & POLLIN) != 0 || !members_[i].transport->Arm()) members_[i].wake();
  }
}

}  // namespace shoal::sim
