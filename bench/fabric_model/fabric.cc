#include "bench/fabric_model/fabric.h"

#include <xbt/log.h>

#include <string>

namespace shoal::fabric_model {
namespace {

namespace s4u = simgrid::s4u;

constexpr double kProcessorSpeed = 1e9;  // SimGrid wants one; time is spent by sleeping
constexpr unsigned kActorStackKib = 128;

}  // namespace

Fabric::Fabric(const FabricSettings& settings, int* argument_count, char** arguments)
    : settings_(settings), engine_(argument_count, arguments) {
  xbt_log_control_set("root.thresh:warning");
  // Links carry what they are given, without SimGrid's own factors for TCP: the rates are measured ones.
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("surf/precision:1e-9");
  zone_ = s4u::create_star_zone("fabric");
  finished_ = s4u::Semaphore::create(0);
}

Fabric::NodeNumber Fabric::AddNode(double link_bytes_per_s, uint32_t copies) {
  return AddNode(link_bytes_per_s * copies, copies, nullptr);
}

Fabric::NodeNumber Fabric::AddNodeInside(NodeNumber carrier, double link_bytes_per_s, uint32_t copies) {
  return AddNode(link_bytes_per_s * copies, copies, nodes_[carrier].get());
}

Fabric::NodeNumber Fabric::AddPort(NodeNumber owner, double link_bytes_per_s) {
  const NodeNumber port = AddNode(link_bytes_per_s * copies(owner), copies(owner), nullptr);
  nodes_[port]->owner = owner;
  return port;
}

Fabric::NodeNumber Fabric::AddNode(double link_bytes_per_s, uint32_t copies, const Node* carrier) {
  using Direction = s4u::LinkInRoute::Direction;
  const auto number = static_cast<NodeNumber>(nodes_.size());
  auto node = std::make_unique<Node>();
  node->host = zone_->create_host("host-" + std::to_string(number), kProcessorSpeed);
  node->copies = copies;
  node->owner = number;
  node->arrived = s4u::Semaphore::create(0);
  s4u::SplitDuplexLink* const link =
      zone_->create_split_duplex_link("link-" + std::to_string(number), link_bytes_per_s);
  link->set_latency(0);
  link->seal();
  node->link = link;
  std::vector<s4u::LinkInRoute> route{{link, Direction::UP}};
  if (carrier != nullptr) route.emplace_back(carrier->link, Direction::UP);
  zone_->add_route(node->host->get_netpoint(), nullptr, nullptr, nullptr, route, true);
  nodes_.push_back(std::move(node));
  return number;
}

void Fabric::SetProgram(NodeNumber node, std::function<void()> program) {
  s4u::ActorPtr actor = s4u::Actor::init("program", nodes_[node]->host);
  actor->set_stacksize(kActorStackKib);
  actor->start(std::move(program));
}

double Fabric::Run(uint32_t finishes) {
  zone_->seal();
  s4u::Actor::create("end", nodes_.front()->host, [this, finishes] {
    for (uint32_t i = 0; i < finishes; ++i) finished_->acquire();
    s4u::Actor::kill_all();
  });
  engine_.run();
  return s4u::Engine::get_clock();
}

void Fabric::SpendMessages(uint32_t count) const { s4u::this_actor::sleep_for(settings_.message_cost_s * count); }

void Fabric::Send(NodeNumber from, NodeNumber to, double payload_bytes, uint32_t message_count, Message message,
                  std::optional<double> latency_s) {
  message.from = nodes_[from]->owner;
  const double delay_s = latency_s.value_or(settings_.latency_s);
  if (payload_bytes <= 0) return Deliver(to, delay_s, message);
  std::unique_ptr<Connection>& connection = connections_[{from, to}];
  if (connection == nullptr) {
    connection = std::make_unique<Connection>();
    connection->waiting = s4u::Semaphore::create(0);
    s4u::ActorPtr actor = s4u::Actor::init("connection", nodes_[from]->host);
    actor->set_stacksize(kActorStackKib);
    actor->start([this, connection = connection.get(), from, to] { RunConnection(connection, from, to); });
  }
  connection->queue.push_back({payload_bytes + settings_.message_bytes * message_count, delay_s, message});
  connection->waiting->release();
}

void Fabric::Notify(NodeNumber from, NodeNumber to, double delay_s, Message message) {
  message.from = from;
  Deliver(to, delay_s, message);
}

void Fabric::RunConnection(Connection* connection, NodeNumber from, NodeNumber to) {
  while (true) {
    connection->waiting->acquire();
    const Departure departure = connection->queue.front();
    connection->queue.pop_front();
    s4u::Comm::sendto(nodes_[from]->host, nodes_[to]->host, static_cast<uint64_t>(departure.bytes));
    Deliver(to, departure.latency_s, departure.message);
  }
}

// The latency is no part of a transfer, which would keep the next one of the connection waiting.
void Fabric::Deliver(NodeNumber to, double delay_s, const Message& message) {
  Node& node = *nodes_[nodes_[to]->owner];
  node.messages.emplace(s4u::Engine::get_clock() + delay_s, message);
  node.arrived->release();
}

bool Fabric::HasMessage(NodeNumber node) const {
  const std::multimap<double, Message>& messages = nodes_[node]->messages;
  return !messages.empty() && messages.begin()->first <= s4u::Engine::get_clock();
}

Message Fabric::Receive(NodeNumber node) {
  std::multimap<double, Message>& messages = nodes_[node]->messages;
  while (!HasMessage(node)) {
    // A message that arrives earlier than the first one known may still be sent.
    if (messages.empty()) {
      nodes_[node]->arrived->acquire();
    } else {
      nodes_[node]->arrived->acquire_timeout(messages.begin()->first - s4u::Engine::get_clock());
    }
  }
  const Message message = messages.begin()->second;
  messages.erase(messages.begin());
  return message;
}

}  // namespace shoal::fabric_model
