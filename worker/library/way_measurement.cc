#include "worker/library/way_measurement.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/frame.h"
#include "core/now.h"
#include "net/wake_up.h"
#include "process/clock.h"

namespace shoal {
namespace {

// Less than any transport sends only when it is asked for: what is offered has crossed the way.
constexpr size_t kPayloadBytes = size_t{64} << 10;
constexpr std::array<std::byte, kPayloadBytes> kPayload{};
// On the way at a time, to each address: more than 100 Gbit/s hold in a tenth of a millisecond.
constexpr int kPayloadsOnTheWay = 32;
constexpr int kRoundTrips = 5;
// So many of each connection in the time that counts, and longer where they do not come, up to this. Each has a payload
// that has partly arrived when that time begins, and one when it ends.
constexpr uint64_t kPayloadsOfEach = 16;
constexpr uint64_t kMaxExtraNs = 5 * kNsPerS;

uint64_t ThreadProcessorNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kNsPerS + static_cast<uint64_t>(used.tv_nsec);
}

class WayMeasurement {
 public:
  WayMeasurement(const WayToMeasure& way, Transport* transport) : way_(way), transport_(transport) {}
  ~WayMeasurement() {
    for (const Connection& connection : connections_) transport_->Close(connection.peer);
  }
  WayMeasurement(const WayMeasurement&) = delete;
  WayMeasurement& operator=(const WayMeasurement&) = delete;

  absl::StatusOr<WayFacts> Run() {
    if (absl::Status status = Connect(); !status.ok()) return status;
    if (absl::Status status = MeasureRoundTrip(); !status.ok()) return status;
    if (absl::Status status = MeasureBandwidth(); !status.ok()) return status;
    facts_.transports = Transports();
    return facts_;
  }

 private:
  struct Connection {
    std::string address;
    PeerId peer;
    bool up = false;
    int on_the_way = 0;  // probes whose echo is missing
  };

  absl::Status Connect() {
    for (const std::string& address : way_.addresses) {
      const absl::StatusOr<PeerId> peer = transport_->Connect(address);
      if (!peer.ok()) return peer.status();
      connections_.push_back({.address = address, .peer = *peer});
    }
    return PollUntil(way_.connect_timeout_ms, "the connection",
                     [](const Connection& connection) { return connection.up; });
  }

  absl::Status MeasureRoundTrip() {
    Connection& first = connections_.front();
    for (int i = 0; i < kRoundTrips; ++i) {
      const uint64_t sent_ns = MonotonicNs();
      if (absl::Status status = transport_->SendNote(first.peer, EncodeHeader({.type = FrameType::kProbe}));
          !status.ok()) {
        return status;
      }
      ++first.on_the_way;
      if (absl::Status status = AwaitEchoes(way_.connect_timeout_ms); !status.ok()) return status;
      const uint64_t took_ns = MonotonicNs() - sent_ns;
      facts_.round_trip_ns = i == 0 ? took_ns : std::min(facts_.round_trip_ns, took_ns);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureBandwidth() {
    const uint64_t half_ns = way_.duration_ms * kNsPerMs / 2;
    // A shaped link lets a burst through first, and TCP starts slowly.
    if (absl::Status status = SendFor(half_ns); !status.ok()) return status;
    const uint64_t since_ns = MonotonicNs();
    const uint64_t processor_since_ns = ThreadProcessorNs();
    // From one arrival to another: on a slow way few come, and what lies between them counts.
    const uint64_t first_arrival_ns = last_arrival_ns_ == 0 ? since_ns : last_arrival_ns_;
    payloads_arrived_ = 0;
    uint64_t sent_ns = 0;
    do {
      if (absl::Status status = SendFor(half_ns); !status.ok()) return status;
      sent_ns += half_ns;
    } while (payloads_arrived_ < kPayloadsOfEach * connections_.size() && sent_ns < half_ns + kMaxExtraNs);
    const auto share = [](uint64_t part, uint64_t of) {
      return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(of, 1));
    };
    facts_.bytes_per_s =
        static_cast<uint64_t>(kNsPerS * share(payloads_arrived_ * kPayloadBytes,
                                              last_arrival_ns_ - std::min(last_arrival_ns_, first_arrival_ns)));
    facts_.processor_share = share(ThreadProcessorNs() - processor_since_ns, MonotonicNs() - since_ns);
    return absl::OkStatus();
  }

  absl::Status SendFor(uint64_t duration_ns) {
    const uint64_t until_ns = MonotonicNs() + duration_ns;
    while (MonotonicNs() < until_ns) {
      if (absl::Status status = SendWhatMayGo(); !status.ok()) return status;
      if (absl::Status status = Poll(until_ns); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status SendWhatMayGo() {
    static const FrameHeaderBytes kHeader = EncodeHeader({.type = FrameType::kProbe});
    for (Connection& connection : connections_) {
      for (; connection.on_the_way < kPayloadsOnTheWay; ++connection.on_the_way) {
        const absl::Status status = transport_->Send(connection.peer, kHeader, kPayload, 0);
        if (absl::IsNotFound(status)) return absl::OkStatus();  // the end of the connection is about to be told
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status AwaitEchoes(uint64_t timeout_ms) {
    return PollUntil(timeout_ms, "an echo", [](const Connection& connection) { return connection.on_the_way == 0; });
  }

  absl::Status PollUntil(uint64_t timeout_ms, const char* what, const std::function<bool(const Connection&)>& done) {
    const uint64_t deadline_ns = DeadlineIn(timeout_ms);
    while (true) {
      const auto missing = std::ranges::find_if_not(connections_, done);
      if (missing == connections_.end()) return absl::OkStatus();
      if (MonotonicNs() >= deadline_ns) {
        return absl::DeadlineExceededError(
            absl::StrCat(what, " to the server at ", missing->address, " was missing after ", timeout_ms, " ms"));
      }
      if (absl::Status status = Poll(deadline_ns); !status.ok()) return status;
    }
  }

  // Waits for something to happen, until the deadline at most.
  absl::Status Poll(uint64_t deadline_ns) {
    std::span<const TransportEvent> events = transport_->Poll();
    if (events.empty() && transport_->Arm()) {
      transport_->Sleep(static_cast<int64_t>(NsUntil(deadline_ns)), /*other_fd=*/-1);
      events = transport_->Poll();
    }
    for (const TransportEvent& event : events) {
      const auto found = std::ranges::find(connections_, event.peer, &Connection::peer);
      if (found == connections_.end()) continue;
      if (event.kind == TransportEventKind::kPeerUp) found->up = true;
      if (event.kind == TransportEventKind::kNote) TakeEcho(event, &*found);
      if (event.kind == TransportEventKind::kPeerDown) {
        return absl::Status(event.status.code(),
                            absl::StrCat("the server at ", found->address, ": ", event.status.message()));
      }
    }
    return absl::OkStatus();
  }

  void TakeEcho(const TransportEvent& event, Connection* from) {
    const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
    if (!header.ok() || header->type != FrameType::kProbe || from->on_the_way == 0) return;
    --from->on_the_way;
    ++payloads_arrived_;
    last_arrival_ns_ = MonotonicNs();
  }

  std::string Transports() const {
    std::vector<PeerId> peers;
    for (const Connection& connection : connections_) peers.push_back(connection.peer);
    const std::vector<std::string> of_each = transport_->Report(peers).peer_transports;
    return absl::StrJoin(std::set<std::string>(of_each.begin(), of_each.end()), ",");
  }

  const WayToMeasure way_;
  Transport* const transport_;
  std::vector<Connection> connections_;
  uint64_t payloads_arrived_ = 0;
  uint64_t last_arrival_ns_ = 0;  // 0: none has come
  WayFacts facts_;
};

}  // namespace

absl::StatusOr<WayFacts> MeasureWay(const WayToMeasure& way, Transport* transport) {
  return WayMeasurement(way, transport).Run();
}

}  // namespace shoal
