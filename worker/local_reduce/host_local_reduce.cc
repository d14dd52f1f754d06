#include "worker/local_reduce/host_local_reduce.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"
#include "worker/local_reduce/host_local_group.h"

namespace shoal {
namespace {

// A Poll looks at the counters each time, at the sockets only now and then: they cost a system call and say little.
constexpr int kMaxPollsWithoutSockets = 64;
constexpr int kMaxSocketEvents = 64;

class HostLocalReduce : public LocalReduce {
 public:
  HostLocalReduce(FileDescriptor epoll, FlightRecorder* recorder) : epoll_(std::move(epoll)), recorder_(recorder) {}

  void Open(const LocalGroup& group) override {
    auto opened = std::make_unique<HostLocalGroup>(group, epoll_.get(), KeyOf(group.group), recorder_);
    opened->Open(&pending_);
    groups_.insert_or_assign(group.group, std::move(opened));
  }

  void Start(const LocalOp& op) override { groups_.at(op.group)->Start(op, &pending_); }

  void PublishPart(GroupHandle group, uint64_t ticket, ElementRange elements, uint32_t contributors) override {
    groups_.at(group)->PublishPart(ticket, elements, contributors);
  }

  void Fail(GroupHandle group, const absl::Status& why) override { groups_.at(group)->Fail(why, &pending_); }

  void Close(GroupHandle group) override {
    groups_.at(group)->Close();
    groups_.erase(group);
    // Another group may have its handle by the next Poll.
    const auto is_of_it = [&](const auto& event) { return event.group == group; };
    std::erase_if(pending_, [&](const LocalReduceEvent& event) { return std::visit(is_of_it, event); });
  }

  std::vector<LocalRank> Missing(GroupHandle group) const override { return groups_.at(group)->Missing(); }

  std::span<const LocalReduceEvent> Poll() override {
    const bool was_asleep = asleep_;
    WakeUp();
    if (!groups_.empty() && (was_asleep || ++polls_without_sockets_ >= kMaxPollsWithoutSockets)) PollSockets();
    for (auto& [handle, group] : groups_) group->Advance(&pending_);
    returned_.clear();
    returned_.swap(pending_);
    return returned_;
  }

  bool Arm() override {
    if (!pending_.empty()) return false;
    asleep_ = true;
    bool idle = true;
    for (auto& [handle, group] : groups_) {
      group->FallAsleep();
      idle = idle && !group->CanAdvance();
    }
    if (!idle) WakeUp();
    return idle;
  }

  int wake_fd() const override { return epoll_.get(); }

 private:
  static uint64_t KeyOf(GroupHandle group) { return group.value() * NodePeers::kKeys; }

  void WakeUp() {
    if (!asleep_) return;
    for (auto& [handle, group] : groups_) group->WakeUp();
    asleep_ = false;
  }

  void PollSockets() {
    polls_without_sockets_ = 0;
    std::array<epoll_event, kMaxSocketEvents> events;
    const int count = epoll_wait(epoll_.get(), events.data(), kMaxSocketEvents, 0);
    for (int i = 0; i < count; ++i) {
      const uint64_t key = events[static_cast<size_t>(i)].data.u64;
      const auto found = groups_.find(GroupHandle(static_cast<GroupHandle::NumberType>(key / NodePeers::kKeys)));
      if (found != groups_.end()) found->second->OnReadable(key, &pending_);
    }
  }

  const FileDescriptor epoll_;
  FlightRecorder* const recorder_;  // null: there is none
  std::map<GroupHandle, std::unique_ptr<HostLocalGroup>> groups_;
  bool asleep_ = false;
  int polls_without_sockets_ = 0;
  std::vector<LocalReduceEvent> pending_;
  std::vector<LocalReduceEvent> returned_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LocalReduce>> MakeHostLocalReduce(FlightRecorder* recorder) {
  // Groups that are to be reduced elsewhere must know it before they are made.
  const absl::StatusOr<std::unique_ptr<OwnedMemory>> probe = OwnedMemory::Make("shoal-probe", 1);
  if (!probe.ok()) return probe.status();
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  return std::make_unique<HostLocalReduce>(*std::move(epoll), recorder);
}

}  // namespace shoal
