// A cluster's network in SimGrid: nodes with one full-duplex link each to a switch that is never the bottleneck.
//
// What it has: bandwidth shared max-min fairly between what crosses a link at a time, a latency, a cost of processor
// time for each message at both of its ends, and first-in-first-out connections. What it has not: packets, losses,
// buffers.
//
// A node may stand for many equal ones in lockstep ("copies"): its link carries what theirs carry together, and a
// message is one message of each. That makes a thousand nodes cheap. It is exact where messages cost nothing; where
// they do, copies' messages come all at once and not spread, which makes it up to a tenth too slow.
//
// SimGrid runs one actor at a time, so there is nothing to lock. One fabric a process.
#ifndef SHOAL_BENCH_FABRIC_MODEL_FABRIC_H_
#define SHOAL_BENCH_FABRIC_MODEL_FABRIC_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <simgrid/s4u.hpp>
#include <utility>
#include <vector>

namespace shoal::fabric_model {

struct FabricSettings {
  double latency_s = 0;       // from the last byte's leaving to the receiver's program
  double message_cost_s = 0;  // of processor time at each end of a message
  double message_bytes = 0;   // on the wire beside the payload
};

// What a message is about is the layout's own business. The fabric sets `from`.
struct Message {
  uint32_t from = 0;
  uint32_t bucket = 0;
  uint32_t part = 0;
};

class Fabric {
 public:
  using NodeNumber = uint32_t;

  Fabric(const FabricSettings& settings, int* argument_count, char** arguments);

  NodeNumber AddNode(double link_bytes_per_s, uint32_t copies);
  // A node inside `carrier`, in as many of its copies: what it sends and receives crosses their links too.
  NodeNumber AddNodeInside(NodeNumber carrier, double link_bytes_per_s, uint32_t copies);
  // A second link of a node, which crosses nothing else. What comes by it is among the owner's messages.
  NodeNumber AddPort(NodeNumber owner, double link_bytes_per_s);
  uint32_t copies(NodeNumber node) const { return nodes_[node]->copies; }
  double latency_s() const { return settings_.latency_s; }

  // What the node does; it may run for ever.
  void SetProgram(NodeNumber node, std::function<void()> program);
  // Runs until Finish() was called `finishes` times; gives the time in seconds. One call.
  double Run(uint32_t finishes);
  void Finish() { finished_->release(); }

  // ---- for programs, on their own node ----

  // Spends the processor time of so many messages.
  void SpendMessages(uint32_t count) const;
  // Puts a message behind those that wait for the same connection. `payload_bytes` of all copies together; 0 stays
  // inside the node. It arrives `latency_s` (without it: the settings') after its last byte has left.
  void Send(NodeNumber from, NodeNumber to, double payload_bytes, uint32_t message_count, Message message,
            std::optional<double> latency_s = std::nullopt);
  // A message between programs of one node (or to itself), which costs nothing: it arrives after `delay_s`.
  void Notify(NodeNumber from, NodeNumber to, double delay_s, Message message);
  bool HasMessage(NodeNumber node) const;
  Message Receive(NodeNumber node);

 private:
  struct Node {
    simgrid::s4u::Host* host = nullptr;
    const simgrid::s4u::Link* link = nullptr;
    uint32_t copies = 1;
    NodeNumber owner = 0;                     // whose messages come here; itself if it is no port
    simgrid::s4u::SemaphorePtr arrived;       // released for each message, or more often
    std::multimap<double, Message> messages;  // by the time at which they arrive
  };
  struct Departure {
    double bytes = 0;
    double latency_s = 0;
    Message message;
  };
  struct Connection {
    simgrid::s4u::SemaphorePtr waiting;
    std::deque<Departure> queue;
  };

  NodeNumber AddNode(double link_bytes_per_s, uint32_t copies, const Node* carrier);
  void RunConnection(Connection* connection, NodeNumber from, NodeNumber to);
  void Deliver(NodeNumber to, double delay_s, const Message& message);

  const FabricSettings settings_;
  simgrid::s4u::Engine engine_;
  simgrid::s4u::NetZone* zone_;
  simgrid::s4u::SemaphorePtr finished_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<NodeNumber, NodeNumber>, std::unique_ptr<Connection>> connections_;
};

}  // namespace shoal::fabric_model

#endif  // SHOAL_BENCH_FABRIC_MODEL_FABRIC_H_
