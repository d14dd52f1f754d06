// One connection's socket with what stands on it: its channel, the records that come and those that go.
//
// Not thread safe. No call blocks.
#ifndef SHOAL_NET_TCP_TCP_STREAM_H_
#define SHOAL_NET_TCP_TCP_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/tcp/record_reader.h"
#include "net/tcp/secure_channel.h"
#include "net/tcp/send_queue.h"
#include "process/file_descriptor.h"

namespace shoal {

struct TcpStream {
  WatchedDescriptor socket;
  std::string peer_name;                   // "ip:port"
  std::unique_ptr<SecureChannel> channel;  // null before both are ready for the handshake
  RecordReader reader;
  SendQueue queue;
  bool awaits_room = false;  // the socket is watched for being writable

  // Takes the socket under another key of the epoll. ResourceExhausted: it can't be watched; it is closed.
  absl::Status WatchAs(int epoll, uint64_t key);
  // Sends what the socket takes, at most a few MiB. The tokens of payloads that are sent are added to `sent`. An errno:
  // the other side takes no more; reading tells why. 0: none.
  int Flush(std::vector<uint64_t>* sent);
  // Watches the socket for being writable only where something waits for that.
  void AwaitRoom(bool awaits);
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_STREAM_H_
