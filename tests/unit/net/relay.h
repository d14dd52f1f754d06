// Stands between a client and a listener and passes on what they say: as much of it as a test wants, and at its pace.
#ifndef SHOAL_TESTS_UNIT_NET_RELAY_H_
#define SHOAL_TESTS_UNIT_NET_RELAY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/net/raw_socket.h"

namespace shoal {

class Relay {
 public:
  explicit Relay(std::string listener) : to_(std::move(listener)) {}

  // Where the client is to connect, once.
  std::string address() const { return entrance_.address(); }

  // When so many bytes of one side have come through, both hear that the other one has hung up.
  size_t most_of_client = SIZE_MAX;
  size_t most_of_server = SIZE_MAX;
  // So many bytes in one PassOn, each way.
  size_t most_at_once = SIZE_MAX;

  // To be called again and again.
  void PassOn() {
    if (client_ == nullptr) client_ = entrance_.Accept();
    if (client_ == nullptr || over_) return;
    if (server_ == nullptr) server_ = std::make_unique<RawSocket>(RawSocket::ConnectTo(to_));
    const bool client_ended = client_->HasEnded();
    const bool server_ended = server_->HasEnded();
    Pass(*client_, *server_, most_of_client, &passed_of_client_);
    Pass(*server_, *client_, most_of_server, &passed_of_server_);
    if (client_ended || server_ended || passed_of_client_ == most_of_client || passed_of_server_ == most_of_server) {
      HangUp();
    }
  }

  void HangUp() {
    over_ = true;
    client_->HangUp();
    server_->HangUp();
  }

  const Bytes& heard_of_client() const { return client_->heard(); }
  const Bytes& heard_of_server() const { return server_->heard(); }

 private:
  void Pass(const RawSocket& from, const RawSocket& to, size_t most, size_t* passed) const {
    const size_t bytes = std::min({from.heard().size() - *passed, most - *passed, most_at_once});
    to.Say(std::span(from.heard()).subspan(*passed, bytes));
    *passed += bytes;
  }

  const std::string to_;
  const RawSocket entrance_ = RawSocket::ListenOnLoopback();
  std::unique_ptr<RawSocket> client_;
  std::unique_ptr<RawSocket> server_;
  size_t passed_of_client_ = 0;
  size_t passed_of_server_ = 0;
  bool over_ = false;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_NET_RELAY_H_
