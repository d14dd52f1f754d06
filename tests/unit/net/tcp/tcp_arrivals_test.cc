// What the TCP transport tells of when payloads came: TransportEvent::came_with_last.
#include <chrono>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

class TcpArrivalsTest : public TransportSuite {
 protected:
  // While the server looks at nothing.
  void SendAndLetCome(Node& client, PeerId server, size_t bytes) {
    const Bytes& payload = Keep(Pattern(bytes, ++sent_));
    ASSERT_TRUE(client.transport().Send(server, {}, payload, sent_).ok());
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) client.Poll();
  }

  void Receive(Node& server) {
    ASSERT_TRUE(PollUntil("all payloads", [&] { return server.received().size() == sent_; }));
  }

  static std::vector<bool> CameWithLast(const Node& server) {
    std::vector<bool> result;
    for (const Node::Seen& seen : server.All(TransportEventKind::kLanded)) result.push_back(seen.event.came_with_last);
    return result;
  }

  uint64_t sent_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpArrivalsTest, testing::Values(TcpKind("Bare", false), TcpKind("Sealed", true)),
                         TransportKindName);

TEST_P(TcpArrivalsTest, PayloadsThatLieThereTogetherSaySo) {
  // Some are read with their headers, and some into their places.
  for (const size_t bytes : {size_t{8} << 10, size_t{30} << 10, size_t{60} << 10}) {
    Node& server = MakeNode();
    Node& client = MakeNode({.listen = false});
    const PeerId to_server = ConnectNodes(client, server).to_b;
    server.AcceptAll();
    sent_ = 0;
    SendAndLetCome(client, to_server, bytes);
    Receive(server);
    // Together, as far as anybody can tell: both lay there when the server looked.
    SendAndLetCome(client, to_server, bytes);
    SendAndLetCome(client, to_server, bytes);
    Receive(server);
    SendAndLetCome(client, to_server, bytes);
    Receive(server);
    EXPECT_THAT(CameWithLast(server), ElementsAre(false, false, true, false)) << bytes;
  }
}

}  // namespace
}  // namespace shoal
