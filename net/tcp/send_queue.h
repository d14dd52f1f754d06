// What one connection still has to send: records in their order, each a head, a header, and perhaps the caller's
// payload, which is not copied.
//
// Not thread safe. Pure: it writes to no socket.
#ifndef SHOAL_NET_TCP_SEND_QUEUE_H_
#define SHOAL_NET_TCP_SEND_QUEUE_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "net/tcp/record.h"

namespace shoal {

class SendQueue {
 public:
  // `header` is copied; it is as DecodeRecordHead demands.
  void Add(RecordKind kind, std::span<const std::byte> header);
  // `payload` stays as it is until Advance gives `token`, or the queue is gone.
  void AddPayload(std::span<const std::byte> header, std::span<const std::byte> payload, uint64_t token);

  bool empty() const { return records_.empty(); }
  size_t notes() const { return records_.size() - payloads_; }
  size_t payloads() const { return payloads_; }

  // The next bytes to send, in order, as far as `pieces` has room. So many of them were filled.
  size_t Gather(std::span<iovec> pieces) const;
  // So many bytes were sent. The tokens of payloads that are sent wholly by now are added to `sent`.
  void Advance(size_t bytes, std::vector<uint64_t>* sent);

  // Of payloads that are not sent wholly.
  std::vector<uint64_t> WaitingTokens() const;

 private:
  struct Record {
    std::vector<std::byte> head;  // with the header
    std::span<const std::byte> payload;
    uint64_t token = 0;

    size_t size() const { return head.size() + payload.size(); }
  };

  std::deque<Record> records_;
  size_t sent_of_first_ = 0;
  size_t payloads_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_SEND_QUEUE_H_
