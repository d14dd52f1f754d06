#include "net/tcp/tcp_stream.h"

#include <array>

namespace shoal {
namespace {

constexpr size_t kPiecesAtOnce = 64;
// A peer that takes everything must not keep the others waiting.
constexpr size_t kMaxBytesPerFlush = 4 << 20;

}  // namespace

absl::Status TcpStream::WatchAs(int epoll, uint64_t key) {
  return socket.Watch(socket.Release(), epoll, key, awaits_room ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

int TcpStream::Flush(std::vector<uint64_t>* sent) {
  std::array<iovec, kPiecesAtOnce> pieces;
  for (size_t flushed = 0; !queue.empty() || channel->OwesBytes();) {
    const size_t count = queue.Gather(pieces);
    const SecureChannel::Transfer transfer = channel->Write(std::span(pieces).first(count));
    queue.Advance(transfer.bytes, sent);
    if (transfer.error != 0) return transfer.error;
    flushed += transfer.bytes;
    if (transfer.blocked || flushed >= kMaxBytesPerFlush) break;
  }
  AwaitRoom(!queue.empty() || channel->OwesBytes());
  return 0;
}

void TcpStream::AwaitRoom(bool awaits) {
  if (awaits == awaits_room) return;
  awaits_room = awaits;
  socket.WatchFor(awaits ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

}  // namespace shoal
