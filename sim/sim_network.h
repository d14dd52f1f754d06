// The simulated network: which transports reach each other, and which of their connections break.
//
// Over a way that is cut it does what net/tcp and the kernel below it do: what is said arrives after the cut, both ends
// probe the other and give a silent connection up, each by its own clock, and an attempt to connect is repeated ever
// more rarely. A connection that one side has given up is up for the other until it hears of that, or gives up as well.
// Outlives its transports. One thread (the world's).
#ifndef SHOAL_SIM_SIM_NETWORK_H_
#define SHOAL_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/transport_event.h"
#include "net/transport_limits.h"
#include "sim/network_cuts.h"
#include "sim/profile.h"
#include "sim/wire_audit.h"
#include "sim/world.h"

namespace shoal::sim {

class SimTransport;

class SimNetwork {
 public:
  // `audit` outlives the network; null: no audit.
  SimNetwork(World* world, const NetworkProfile& profile, WireAudit* audit)
      : world_(world), profile_(profile), audit_(audit) {}

  // `node`: where its process runs. `wake` is called (from a world event) when Poll will return events.
  std::unique_ptr<SimTransport> MakeTransport(const std::string& node, bool listen, std::function<void()> wake,
                                              const TransportLimits& limits = {});

  // From now on and until then nothing gets from one side to the other; sides: network_cuts.h.
  void Cut(const std::string& from, const std::string& to, bool one_way, uint64_t until_ns);
  // Called when a connection breaks at an end whose process did not ask for that, with the nodes of both ends.
  void SetOnBroken(std::function<void(const std::string& node, const std::string& other)> on_broken) {
    on_broken_ = std::move(on_broken);
  }
  // Breaks a connection at random; both sides notice after a while. Their nodes; empty if there is no connection.
  std::vector<std::string> ResetRandomConnection();
  // Breaks all connections of the side that listens at the address.
  void ResetConnectionsOf(const std::string& address);
  // Until then, one bit of up to so many payloads that have a checksum is flipped on its way. False: there is no
  // connection whose payloads have one.
  bool Corrupt(uint64_t payloads, uint64_t until_ns);
  const NetworkProfile& profile() const { return profile_; }
  // Of all transports.
  uint64_t loans_taken() const { return loans_taken_; }
  uint64_t loans_open() const { return loans_open_; }
  // Payloads that arrived changed, and for which the receiver cut the connection at once.
  uint64_t changes_caught() const { return changes_caught_; }
  // What users did with memory that was not theirs; each text names its check, as those of Checkers do.
  const std::vector<std::string>& faults() const { return faults_; }
  World* world() const { return world_; }

 private:
  friend class SimTransport;
  struct End {
    SimTransport* transport = nullptr;  // null: that side is down
    PeerId peer;                        // as that side calls the other
    std::string name;
    std::string node;
    uint64_t last_note_ns = 0;  // arrival of the newest note towards this end
  };
  struct Connection {
    uint64_t number = 0;
    End ends[2];
    bool established = false;
    bool audited = true;     // false: of a stranger
    bool checksums = false;  // its payloads have them
  };

  static CutEnd WayEnd(const End& end) { return {.node = end.node, .address = end.name}; }
  // An attempt to connect, with those that the kernel makes after it while the way is cut.
  void TryToConnect(const std::shared_ptr<Connection>& connection, uint64_t first_ns, size_t attempt);
  void Establish(const std::shared_ptr<Connection>& connection);
  // How long this end of a connection may hear nothing before it gives up.
  uint64_t SilencePatienceNs(int end);
  void GiveUpIfSilent(const std::shared_ptr<Connection>& connection, int end, uint64_t patience_ns);
  // The other end hears that its connection has ended, when that gets through.
  void TellOther(const std::shared_ptr<Connection>& connection, int other);
  // An end's process learns that the connection has ended.
  void Break(const std::shared_ptr<Connection>& connection, int end, const char* why);
  void Reset(const std::shared_ptr<Connection>& connection);
  // At the other end than `from`, of something that starts now.
  uint64_t ArrivalNs(const Connection& connection, int from, uint64_t bytes);
  // How much longer than others this step of a payload takes.
  uint64_t StraggleNs();
  // Of a payload that is sent now: whether a bit of it is to be flipped on its way.
  bool DrawChange(const Connection& connection);
  WireAudit* AuditOf(const Connection& connection) { return connection.audited ? audit_ : nullptr; }

  World* world_;
  NetworkProfile profile_;
  WireAudit* audit_;
  uint64_t next_address_ = 1;
  std::map<std::string, SimTransport*> listeners_;
  std::map<uint64_t, std::shared_ptr<Connection>> connections_;
  uint64_t next_connection_ = 1;
  NetworkCuts cuts_;
  std::set<std::string> dark_;  // addresses of processes that fell silent
  std::function<void(const std::string&, const std::string&)> on_broken_ = [](const auto&, const auto&) {};
  uint64_t loans_taken_ = 0;
  uint64_t loans_open_ = 0;
  uint64_t changes_due_ = 0;  // payloads that are still to be changed
  uint64_t changes_until_ns_ = 0;
  uint64_t changes_caught_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_NETWORK_H_
