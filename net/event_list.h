// The events that one Poll returns, with the bytes they point to.
//
// Not thread safe. Spans in events() are valid until the next Clear or Add.
#ifndef SHOAL_NET_EVENT_LIST_H_
#define SHOAL_NET_EVENT_LIST_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace shoal {

class EventList {
 public:
  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }

  // Adds an event whose `bytes` are copied.
  void Add(TransportEvent event, std::span<const std::byte> bytes = {}) {
    ranges_.emplace_back(bytes_.size(), bytes.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    events_.push_back(std::move(event));
  }

  void Clear() {
    events_.clear();
    ranges_.clear();
    bytes_.clear();
  }

  void Swap(EventList& other) {
    events_.swap(other.events_);
    ranges_.swap(other.ranges_);
    bytes_.swap(other.bytes_);
  }

  std::span<const TransportEvent> events() {
    // Only now do the bytes stay where they are.
    for (size_t i = 0; i < events_.size(); ++i) {
      events_[i].bytes = std::span<const std::byte>(bytes_).subspan(ranges_[i].first, ranges_[i].second);
    }
    return events_;
  }

 private:
  std::vector<TransportEvent> events_;
  std::vector<std::pair<size_t, size_t>> ranges_;  // offset and length in bytes_
  std::vector<std::byte> bytes_;
};

}  // namespace shoal

#endif  // SHOAL_NET_EVENT_LIST_H_
