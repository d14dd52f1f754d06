#include "sim/scheduler_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/store/state_codec.h"

namespace shoal::sim {

SchedulerProcess::SchedulerProcess(World* world, const Profile& profile, SimControl* control, SimDisk* disk,
                                   OnEvent on_event)
    : SimProcess(world, "scheduler", profile), store_(disk), host_(control) {
  Start(profile, std::move(on_event));
}

SchedulerProcess::SchedulerProcess(World* world, const Profile& profile, SimControl* control, SimDisk* disk,
                                   OnEvent on_event, Lead lead)
    : SimProcess(world, "scheduler", profile),
      holds_lead_(std::move(lead.holds)),
      store_(disk, lead.term, std::move(lead.way)),
      host_(control) {
  Start(profile, std::move(on_event));
}

void SchedulerProcess::Start(const Profile& profile, OnEvent on_event) {
  const std::optional<std::string> saved = *store_.Load();
  scheduler::PersistedState state;
  if (saved.has_value()) {
    state = *scheduler::DecodeState(*saved);
  } else {
    Random& random = world().random();
    state.cluster_id = absl::StrCat("simulated-", random.Next());
    for (std::byte& byte : state.token_key) byte = static_cast<std::byte>(random.Next());
    state.next_server_id = scheduler::FirstIdOfNewCluster(random.Next());
    state.next_job_id = scheduler::FirstIdOfNewCluster(random.Next());
    state.next_group_id = scheduler::FirstIdOfNewCluster(random.Next());
  }
  auto machine = scheduler::ObservedScheduler::Make({.lease_ttl_ms = profile.lease_ttl_ms,
                                                     .port_buffer_bytes = profile.port_buffer_bytes,
                                                     .store = store_.Describe(),
                                                     .is_colocated = profile.is_hosted},
                                                    state, !saved.has_value(), LocalNow());
  loop_ = std::make_unique<scheduler::SchedulerLoop>(
      *std::move(machine), &host_, &store_, scheduler::EncodeState,
      [this, on_event = std::move(on_event)](const scheduler::EventRecord& event) {
        this->world().TraceText("scheduler: ", event.kind, " ", event.subject, ": ", event.reason);
        if (on_event) on_event(event);
      });
  host_.SetWake([this] { Wake(); });
  store_.SetWake([this] { Wake(); });
  Wake();
}

void SchedulerProcess::PauseUntil(uint64_t world_ns) {
  host_.StandStillUntil(world_ns);
  SimProcess::PauseUntil(world_ns);
}

uint64_t SchedulerProcess::Run(Now now) { return holds_lead_ && !holds_lead_() ? kNoDeadline : loop_->RunOnce(now); }

}  // namespace shoal::sim
