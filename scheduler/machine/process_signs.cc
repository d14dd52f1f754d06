#include "scheduler/machine/process_signs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"

namespace shoal::scheduler {

void ProcessSigns::OnStreamOpened(WatcherId stream) {
  open_streams_.insert(stream);
  Forget();
}

void ProcessSigns::OnStreamClosed(WatcherId stream, uint64_t heard_ns, Now now) {
  if (open_streams_.erase(stream) == 0 || !open_streams_.empty()) return;
  // The connection of a process that fell silent is closed by this side, which says nothing about the process.
  if (now.monotonic_ns < heard_ns + kStreamOfLivingNs) stream_closed_ns_ = now.monotonic_ns;
}

void ProcessSigns::OnConnectionLost(uint64_t lost_ns, const std::string& because, Now now) {
  // A server repeats what it said, and its clock need not go as ours.
  if (connection_lost_ns_.has_value() && lost_ns < *connection_lost_ns_ + kSameMomentNs) return;
  connection_lost_ns_ = lost_ns;
  told_ns_ = now.monotonic_ns;
  connection_lost_because_ = because;
}

void ProcessSigns::OnHeartbeat(Now now) {
  if (stream_closed_ns_.has_value() && now.monotonic_ns < *stream_closed_ns_ + kHeartbeatUnderWayNs) return;
  Forget();
}

void ProcessSigns::Forget() {
  stream_closed_ns_.reset();
  connection_lost_ns_.reset();
}

uint64_t ProcessSigns::EndedAtNs() const {
  if (!stream_closed_ns_.has_value() || !connection_lost_ns_.has_value()) return kNoDeadline;
  const uint64_t apart_ns =
      std::max(*stream_closed_ns_, *connection_lost_ns_) - std::min(*stream_closed_ns_, *connection_lost_ns_);
  return apart_ns > kSameMomentNs ? kNoDeadline : std::max(*stream_closed_ns_ + patience_ns_, told_ns_);
}

uint64_t ProcessSigns::TakeOverAtNs() const {
  return stream_closed_ns_.has_value() ? *stream_closed_ns_ + kTakeOverPatienceNs : kNoDeadline;
}

std::string ProcessSigns::Describe() const {
  return absl::StrCat("its process ended: it closed its stream to the scheduler, and ", connection_lost_because_);
}

}  // namespace shoal::scheduler
