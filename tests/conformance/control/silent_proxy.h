// Stands between clients and a server of TCP, and can fall silent: connections stay up, and nothing arrives any more.
//
// Threads: construct, call and destroy from one; the proxy forwards on a thread of its own.
#ifndef SHOAL_TESTS_CONFORMANCE_CONTROL_SILENT_PROXY_H_
#define SHOAL_TESTS_CONFORMANCE_CONTROL_SILENT_PROXY_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "net/wake_up.h"
#include "process/socket_address.h"

namespace shoal {

class SilentProxy {
 public:
  // Forwards to `server`, "ip:port". Listens on a free port of the loopback address.
  explicit SilentProxy(const std::string& server)
      : server_(*ParseSocketAddress(server)), wake_up_(*WakeUp::Make()), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    SocketAddress local = *MakeSocketAddress("127.0.0.1", 0);
    EXPECT_EQ(bind(listener_, local.get(), local.length), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&local.storage), &local.length);
    address_ = FormatSocketAddress(local.storage);
    thread_ = std::thread([this] { Forward(); });
  }
  ~SilentProxy() { Stop(); }
  SilentProxy(const SilentProxy&) = delete;
  SilentProxy& operator=(const SilentProxy&) = delete;

  const std::string& address() const { return address_; }

  void FallSilent() { silent_ = true; }
  // Ends all connections and refuses new ones.
  void Stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    wake_up_->Signal();
    thread_.join();
    close(listener_);
    for (const auto& [from, to] : pairs_) close(from);
  }

 private:
  void Forward() {
    while (!stopping_) {
      std::vector<pollfd> polled = {{wake_up_->fd(), POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const auto& [from, to] : pairs_) polled.push_back({from, POLLIN, 0});
      poll(polled.data(), polled.size(), -1);
      if ((polled[1].revents & POLLIN) != 0) Accept();
      for (size_t i = 2; i < polled.size(); ++i) {
        if (polled[i].revents != 0) PassOn(polled[i].fd);
      }
    }
  }

  void Accept() {
    const int client = accept(listener_, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(server, server_.get(), server_.length) != 0) {
      close(client);
      close(server);
      return;
    }
    pairs_.emplace_back(client, server);
    pairs_.emplace_back(server, client);
  }

  // What comes while the proxy is silent is lost.
  void PassOn(int from) {
    std::array<char, 65536> buffer;
    const ssize_t size = read(from, buffer.data(), buffer.size());
    int to = -1;
    for (const auto& [one, other] : pairs_) {
      if (one == from) to = other;
    }
    if (to < 0) return;
    if (size > 0) {
      // If the other side is gone, its own end of the connection says so.
      if (!silent_) static_cast<void>(send(to, buffer.data(), static_cast<size_t>(size), MSG_NOSIGNAL));
      return;
    }
    std::erase_if(pairs_, [&](const auto& pair) { return pair.first == from || pair.second == from; });
    close(from);
    close(to);
  }

  const SocketAddress server_;
  const std::unique_ptr<WakeUp> wake_up_;
  const int listener_;
  std::string address_;
  std::atomic<bool> silent_ = false;
  std::atomic<bool> stopping_ = false;
  std::vector<std::pair<int, int>> pairs_;  // of the thread: what comes from the first goes to the second
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_CONTROL_SILENT_PROXY_H_
