// Somebody who is no worker: connects to a server and sends it garbage, forged frames and payloads for nobody.
#ifndef SHOAL_SIM_ROGUE_NODE_H_
#define SHOAL_SIM_ROGUE_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/node.h"
#include "sim/sim_transport.h"

namespace shoal::sim {

class RogueNode : public Node {
 public:
  RogueNode(World* world, SimNetwork* network, const std::string& server_address);

 protected:
  uint64_t Run(Now now) override;

 private:
  void SendSomething(PeerId peer);
  std::vector<std::byte> Garbage(size_t size);

  std::string server_address_;
  std::vector<std::byte> payload_;
  std::unique_ptr<SimTransport> transport_;
  uint64_t tokens_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_ROGUE_NODE_H_
