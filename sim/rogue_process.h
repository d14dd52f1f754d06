// A process that is not a worker. It connects to a server and sends it garbage, forged frames and useless payloads.
#ifndef SHOAL_SIM_ROGUE_PROCESS_H_
#define SHOAL_SIM_ROGUE_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/sim_process.h"
#include "sim/sim_transport.h"

namespace shoal::sim {

class RogueProcess : public SimProcess {
 public:
  // `audit` knows the groups that there are, which a rogue might have heard of.
  RogueProcess(World* world, const Profile& profile, SimNetwork* network, const WireAudit* audit,
               const std::string& server_address);

 protected:
  uint64_t Run(Now now) override;

 private:
  void SendSomething(PeerId peer);
  std::vector<std::byte> Garbage(size_t size);

  const WireAudit* audit_;
  std::string server_address_;
  std::vector<std::byte> payload_;
  std::unique_ptr<SimTransport> transport_;
  uint64_t tokens_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_ROGUE_PROCESS_H_
