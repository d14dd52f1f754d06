// A door between programs and an address on this node: passes TCP connections on, until told to keep silent on those
// that there are. They stay then, as those to a node that is gone without a word. Further connections are passed on, or
// are taken and silent as well for as long as the path is cut.
#ifndef SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_TCP_DOOR_H_
#define SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_TCP_DOOR_H_

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/mutex.h"

namespace shoal {

class TcpDoor {
 public:
  // 127.0.0.1:`port` lies behind it.
  explicit TcpDoor(uint16_t port) : behind_(port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = Loopback(0);
    bind(listener_, reinterpret_cast<sockaddr*>(&own), sizeof(own));
    listen(listener_, 64);
    socklen_t size = sizeof(own);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    wake_ = eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] { Run(); });
  }
  ~TcpDoor() {
    stopping_ = true;
    Wake();
    thread_.join();
    for (const Pair& pair : pairs_) Close(pair);
    close(listener_);
    close(wake_);
  }
  TcpDoor(const TcpDoor&) = delete;
  TcpDoor& operator=(const TcpDoor&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void Silence() {
    const MutexLock lock(mutex_);
    for (Pair& pair : pairs_) pair.silent = true;
    Wake();
  }
  void Cut() {
    cut_ = true;
    Silence();
  }
  void Mend() { cut_ = false; }

 private:
  struct Pair {
    int outer = -1;
    int inner = -1;
    bool silent = false;
  };

  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static void Close(const Pair& pair) {
    close(pair.outer);
    close(pair.inner);
  }
  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
  }

  void Run() {
    while (!stopping_) {
      std::vector<pollfd> waits = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      {
        const MutexLock lock(mutex_);
        for (const Pair& pair : pairs_) {
          waits.push_back({pair.silent ? -1 : pair.outer, POLLIN, 0});
          waits.push_back({pair.silent ? -1 : pair.inner, POLLIN, 0});
        }
      }
      poll(waits.data(), waits.size(), -1);
      const MutexLock lock(mutex_);
      uint64_t count = 0;
      if (waits[0].revents != 0) (void)!read(wake_, &count, sizeof(count));
      std::vector<Pair> kept;
      for (size_t i = 0; i < pairs_.size(); ++i) {
        const Pair& pair = pairs_[i];
        const bool open = pair.silent || (PassOn(waits[2 + 2 * i].revents, pair.outer, pair.inner) &&
                                          PassOn(waits[3 + 2 * i].revents, pair.inner, pair.outer));
        if (open) {
          kept.push_back(pair);
        } else {
          Close(pair);
        }
      }
      pairs_ = std::move(kept);
      if (waits[1].revents != 0) Accept();
    }
  }
  // False: it is over.
  static bool PassOn(int16_t revents, int from, int to) {
    if (revents == 0) return true;
    char data[16384];
    const ssize_t bytes = read(from, data, sizeof(data));
    return bytes > 0 && send(to, data, static_cast<size_t>(bytes), MSG_NOSIGNAL) == bytes;
  }
  void Accept() SHOAL_REQUIRES(mutex_) {
    Pair pair{.silent = cut_};
    pair.outer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    pair.inner = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in behind = Loopback(behind_);
    if (connect(pair.inner, reinterpret_cast<const sockaddr*>(&behind), sizeof(behind)) == 0) {
      pairs_.push_back(pair);
    } else {
      Close(pair);
    }
  }

  const uint16_t behind_;
  uint16_t port_ = 0;
  int listener_ = -1;
  int wake_ = -1;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> cut_ = false;
  Mutex mutex_;
  std::vector<Pair> pairs_ SHOAL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_TCP_DOOR_H_
