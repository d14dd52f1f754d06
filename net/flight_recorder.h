// What last happened on a transport, for the time after a failure: the newest events and calls, in a ring that is
// always on. Of a rank also the reductions within its node (worker/local_reduce), which cross no transport.
//
// A layer of the transport fills it (net/observed_transport.h), so that the code of workers and servers has no word of
// it; the reduction within the node adds an entry for each op. It keeps headers and sizes, and neither payloads nor the
// tokens of greetings. An entry costs a copy of about 150 bytes. While an operator traces the job (docs/operating.md),
// a second and larger ring keeps the same.
//
// Thread: the transport's, but for StartTrace and StopTrace.
#ifndef SHOAL_NET_FLIGHT_RECORDER_H_
#define SHOAL_NET_FLIGHT_RECORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/frame.h"
#include "core/now.h"
#include "process/mutex.h"

namespace shoal {

class FlightRecorder {
 public:
  static constexpr size_t kEntries = 1024;
  static constexpr size_t kTraceEntries = 32768;  // 5 MB, while a trace lasts

  enum class What : uint8_t {
    kConnect,  // a call, as those below
    kSendNote,
    kSend,
    kAccept,
    kDecline,
    kClose,
    kPeerUp,  // an event, as those below
    kPeerDown,
    kNote,
    kOffered,
    kLanded,
    kSent,
    kNodeOp,  // AddNodeOp
  };

  FlightRecorder() : newest_(kEntries) {}
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Of the entries that Add makes from now on.
  void SetTime(uint64_t now_ns) { now_ns_ = now_ns; }
  // Of the transport; 0: it has none.
  struct Numbers {
    uint64_t offer = 0;
    uint64_t token = 0;
  };
  // `frame`: a note or a header, of which the header is kept; may be empty.
  void Add(What what, uint64_t peer, Numbers numbers, uint64_t payload_bytes, bool failed,
           std::span<const std::byte> frame);

  // An op of a group as it went through the memory of its node. Stages end one after the other; 0: not yet.
  struct NodeOp {
    uint64_t group = 0;
    uint64_t op = 0;
    uint64_t begun_ns = 0;
    uint64_t contributed_ns = 0;  // all of the own contribution was where the other ranks read it
    uint64_t reduced_ns = 0;      // the others' was there, and the own part summed
    uint64_t published_ns = 0;    // the own part of the result was where the others read it
    uint64_t ended_ns = 0;        // their parts were collected, or the group failed
  };
  // `failed`: it ended before its last stage.
  void AddNodeOp(const NodeOp& op, uint64_t payload_bytes, bool failed);

  // A line that says when that was, then one for each entry, the oldest first; times are seconds before `now`.
  std::string Text(Now now) const;

  // Of any thread, one at a time: also keeps the newest kTraceEntries of what comes from now on.
  void StartTrace();
  // Ends that, and returns the text of those, or of as many of the newest as fit in so many bytes. A trace that was not
  // started has none.
  std::string StopTrace(Now now, size_t most_bytes);

 private:
  struct Entry {
    uint64_t at_ns = 0;
    uint64_t peer = 0;
    Numbers numbers;
    uint64_t payload_bytes = 0;
    What what = What::kConnect;
    bool failed = false;
    std::variant<std::monostate, FrameHeaderBytes, NodeOp> content;
  };

  class Ring {
   public:
    explicit Ring(size_t entries) : entries_(entries) {}
    // The next entry, to be filled in.
    Entry& Next() { return entries_[added_++ % entries_.size()]; }
    std::string Text(Now now, size_t most_bytes) const;

   private:
    std::vector<Entry> entries_;
    uint64_t added_ = 0;  // the next entry is at added_ % entries_.size()
  };

  // Of the newest entry, which is filled in: to the trace as well, if there is one.
  void KeepForTrace(const Entry& entry);
  static std::string Line(const Entry& entry, Now now);

  Ring newest_;
  uint64_t now_ns_ = 0;
  std::atomic<bool> is_traced_ = false;  // trace_ has a ring
  Mutex trace_mutex_;                    // nobody waits for it but at the start and the end of a trace
  std::unique_ptr<Ring> trace_ SHOAL_GUARDED_BY(trace_mutex_);
};

}  // namespace shoal

#endif  // SHOAL_NET_FLIGHT_RECORDER_H_
