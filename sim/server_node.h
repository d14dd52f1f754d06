// A simulated reduction server process: the real loops (one for each I/O thread) and the real registration machine.
#ifndef SHOAL_SIM_SERVER_NODE_H_
#define SHOAL_SIM_SERVER_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/lease/registration_machine.h"
#include "server/loop/server_loop.h"
#include "sim/checkers.h"
#include "sim/node.h"
#include "sim/profile.h"
#include "sim/sim_control.h"
#include "sim/sim_reducer.h"
#include "sim/sim_transport.h"

namespace shoal::sim {

class ServerNode : public Node {
 public:
  struct Place {
    std::string name;
    std::string node;
    JobId job;  // of a server in a worker's process: the only one that it serves; 0: serves all
  };

  ServerNode(World* world, const Profile& profile, const Place& place, SimNetwork* network, SimControl* control,
             Checkers* checkers);
  // The process dies.
  ~ServerNode() override = default;

  const Place& place() const { return place_; }

  const std::vector<std::string>& addresses() const { return addresses_; }
  // When the process dies, nobody hears of it.
  void FallSilent();
  // It leaves the cluster and opens no new group; drained() when none is open any more.
  void Drain();
  bool registered() const { return registration_->was_registered(); }
  bool draining() const { return draining_; }
  bool drained() const { return deregistered_ && GroupsOpen() == 0; }
  // Reports what is still open, once everybody is gone.
  void CheckAtEnd() const;

 protected:
  uint64_t Run(Now now) override;

 private:
  struct IoThread {
    std::vector<std::byte> memory;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<SimReducer> reducer;
    std::unique_ptr<ServerLoop> loop;  // from the registration on
  };

  // Or gives the loops that there are the newest key.
  void StartLoops();
  void Deregister();
  uint64_t StepRegistration(Now now);
  uint32_t GroupsOpen() const;

  SimControl::Caller AsCaller() const { return {alive(), name()}; }

  const Profile& profile_;
  const Place place_;
  SimControl* control_;
  Checkers* checkers_;
  Incarnation incarnation_;
  std::vector<IoThread> threads_;
  std::vector<std::string> addresses_;
  std::optional<RegistrationMachine> registration_;
  bool call_under_way_ = false;
  bool draining_ = false;
  bool deregistered_ = false;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SERVER_NODE_H_
