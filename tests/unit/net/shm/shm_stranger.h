// Somebody who connects to a same-node transport with its own greeting pieces, and says and writes what a test likes.
#ifndef SHOAL_TESTS_UNIT_NET_SHM_SHM_STRANGER_H_
#define SHOAL_TESTS_UNIT_NET_SHM_SHM_STRANGER_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/shm/lent_memory.h"
#include "net/shm/outbox.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"

namespace shoal {

class Stranger {
 public:
  static constexpr uint64_t kArenaBytes = kStatusPageBytes + 4 * PageArena::kPageBytes;

  explicit Stranger(FileDescriptor socket)
      : outbox_(*OwnedMemory::Make("test-outbox", kOutboxBytes)),
        arena_(*OwnedMemory::Make("test-arena", kArenaBytes)),
        socket_(std::move(socket)) {}

  static Stranger ConnectTo(const std::string& address) {
    absl::StatusOr<FileDescriptor> socket = ConnectOnThisNode(address);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return Stranger(socket.ok() ? *std::move(socket) : FileDescriptor());
  }

  // What an honest peer says.
  static SameNodeGreeting Greeting() {
    return {.magic = kSameNodeMagic,
            .layout_version = kSameNodeLayoutVersion,
            .outbox_bytes = kOutboxBytes,
            .arena_bytes = kArenaBytes};
  }
  std::vector<int> Memory() const { return {outbox_->fd(), arena_->fd()}; }

  // Any bytes with any number of descriptors. What the other side no longer wants to hear is lost.
  void Say(std::span<const std::byte> bytes, const std::vector<int>& descriptors = {}) const {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    iovec data{.iov_base = copy.data(), .iov_len = copy.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    const size_t descriptor_bytes = descriptors.size() * sizeof(int);
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptor_bytes);
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptor_bytes);
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptor_bytes);
    }
    [[maybe_unused]] const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void Greet(const SameNodeGreeting& greeting, const std::vector<int>& memory) const {
    Say(std::as_bytes(std::span(&greeting, 1)), memory);
  }

  // True once the other side's greeting has come.
  bool IsGreeted() {
    if (their_outbox_ != nullptr) return true;
    absl::StatusOr<std::optional<ReceivedGreeting>> received = ReceiveGreeting(socket_.get());
    if (!received.ok() || !received->has_value()) return false;
    absl::StatusOr<std::unique_ptr<PeerMemory>> mapped = PeerMemory::Map((*received)->memory[0].get(), kOutboxBytes);
    if (!mapped.ok()) return false;
    their_outbox_ = *std::move(mapped);
    return true;
  }
  // True if the other side has hung up.
  bool HasEnded() const { return !DrainBells(socket_.get()); }
  void HangUp() { socket_.Reset(); }

  int socket() const { return socket_.get(); }
  // What it writes for the other side to read.
  OutboxHeader& header() { return *reinterpret_cast<OutboxHeader*>(outbox_->bytes().data()); }
  std::span<std::byte> ring() { return outbox_->bytes().subspan(kOutboxHeaderBytes); }
  StatusPage& status_page() { return *reinterpret_cast<StatusPage*>(arena_->bytes().data()); }
  // What the other side says; IsGreeted() first.
  const OutboxHeader& their_header() const {
    return *reinterpret_cast<const OutboxHeader*>(their_outbox_->bytes().data());
  }

 private:
  std::unique_ptr<OwnedMemory> outbox_;
  std::unique_ptr<OwnedMemory> arena_;
  FileDescriptor socket_;
  std::unique_ptr<PeerMemory> their_outbox_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_NET_SHM_SHM_STRANGER_H_
