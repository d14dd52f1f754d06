#include "scheduler/rpc/grpc_calls.h"

namespace shoal::scheduler {

absl::Status GrpcCalls::CheckRoom() const {
  if (!closed_.ok()) return closed_;
  if (queue_.size() < kMaxQueuedEvents && calls_.size() < kMaxOpenCalls) return absl::OkStatus();
  return OverloadedError();
}

void GrpcCalls::Push(SchedulerEvent event) {
  queue_.push_back(std::move(event));
  if (wake_) wake_();
}

absl::Status GrpcCalls::AddCall(std::shared_ptr<PendingCall> call, Request request, RequestHandle* handle,
                                CallOrigin origin) {
  const MutexLock guard(mutex_);
  if (absl::Status status = CheckRoom(); !status.ok()) return status;
  *handle = RequestHandle(next_number_++);
  calls_[*handle] = std::move(call);
  Push(RequestArrived{*handle, std::move(request), std::move(origin.caller), std::move(origin.from)});
  return absl::OkStatus();
}

bool GrpcCalls::AddRefusal(const CallFacts& call) {
  const MutexLock guard(mutex_);
  if (!CheckRoom().ok()) return false;
  Push(CallRefused{call});
  return true;
}

std::shared_ptr<PendingCall> GrpcCalls::TakeCall(RequestHandle handle) {
  const MutexLock guard(mutex_);
  auto node = calls_.extract(handle);
  return node.empty() ? nullptr : std::move(node.mapped());
}

std::shared_ptr<PendingCall> GrpcCalls::CancelCall(RequestHandle handle) {
  const MutexLock guard(mutex_);
  auto node = calls_.extract(handle);
  if (node.empty()) return nullptr;
  Push(RequestCancelled{handle});
  return std::move(node.mapped());
}

std::shared_ptr<OpenStream> GrpcCalls::FindStream(WatcherId watcher) {
  const MutexLock guard(mutex_);
  const auto found = streams_.find(watcher);
  return found == streams_.end() ? nullptr : found->second;
}

void GrpcCalls::StreamIsDone(WatcherId watcher) {
  const MutexLock guard(mutex_);
  if (streams_.erase(watcher) != 0) Push(StreamClosed{watcher});
}

std::optional<SchedulerEvent> GrpcCalls::Poll() {
  const MutexLock guard(mutex_);
  if (queue_.empty()) return std::nullopt;
  SchedulerEvent event = std::move(queue_.front());
  queue_.pop_front();
  return event;
}

void GrpcCalls::SetWake(std::function<void()> wake) {
  const MutexLock guard(mutex_);
  wake_ = std::move(wake);
}

void GrpcCalls::CloseAll(const absl::Status& status) {
  std::map<RequestHandle, std::shared_ptr<PendingCall>> calls;
  std::vector<std::shared_ptr<OpenStream>> streams;
  {
    const MutexLock guard(mutex_);
    closed_ = status;
    calls.swap(calls_);
    for (const auto& [watcher, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& [handle, call] : calls) call->Complete(status);
  for (const std::shared_ptr<OpenStream>& stream : streams) stream->Close(status);
}

void WatchStream::Send(const SendWatch& update) {
  {
    const MutexLock guard(mutex_);
    if (update.map != nullptr) map_ = update.map;
    lost_ranks_.insert(lost_ranks_.end(), update.lost_ranks.begin(), update.lost_ranks.end());
    for (const GroupMap& group : update.groups) groups_[group.group] = group;
    if (update.colocation.has_value()) colocation_ = update.colocation;
  }
  Continue();
}

bool WatchStream::TakeNext(v1::WatchResponse* message) {
  if (map_ == nullptr && lost_ranks_.empty() && groups_.empty() && !colocation_.has_value()) return false;
  if (map_ != nullptr) ToMessage(map_, message->mutable_map());
  for (const RankLost& lost : lost_ranks_) ToMessage(lost, message->add_lost_ranks());
  for (const auto& [id, group] : groups_) ToMessage(group, message->add_groups());
  if (colocation_.has_value()) ToMessage(*colocation_, message->mutable_colocation());
  map_.reset();
  lost_ranks_.clear();
  groups_.clear();
  colocation_.reset();
  return true;
}

void EventStream::Send(const SendEvent& event) {
  bool close = false;
  {
    const MutexLock guard(mutex_);
    if (too_slow_) return;
    close = too_slow_ = events_.size() >= kMaxQueuedStreamEvents;
    if (!close) {
      events_.push_back(event.event);
    } else {
      events_.clear();
    }
  }
  if (close) {
    Close(ReaderTooSlowError());
  } else {
    Continue();
  }
}

bool EventStream::TakeNext(v1::Event* message) {
  if (events_.empty()) return false;
  ToMessage(events_.front(), message);
  events_.pop_front();
  return true;
}

}  // namespace shoal::scheduler
