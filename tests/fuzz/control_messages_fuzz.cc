// What the scheduler makes of what its callers send: protobuf bytes, turned into requests, given to the machine, and
// its answers turned back.
//
// The input is a row of calls, each a number and the message's bytes, with time going by and saves that fail. Held
// against it: nothing aborts, every call is answered once and in the end, and what is saved can be read again. A
// quarter of the inputs are saved states instead.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/overloaded.h"
#include "scheduler/insight/observed_scheduler.h"
#include "scheduler/insight/page_room.h"
#include "scheduler/rpc/control_messages.h"
#include "scheduler/store/state_codec.h"
#include "tests/fuzz/fuzz_input.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kMostCalls = 64;  // of one input: more only make it slower

PersistedState NewState() {
  PersistedState state;
  state.cluster_id = "fuzz";
  state.token_key.fill(std::byte{7});
  return state;
}

template <typename Message, typename Value>
void RequireConverts(const Value& value) {
  Message message;
  ToMessage(value, &message);
  Message again;
  Require(again.ParseFromString(message.SerializeAsString()), "an answer can be read");
}

template <typename Message, typename Page>
void RequireFits(const Page& page) {
  RequireConverts<Message>(page);
  Message message;
  ToMessage(page, &message);
  Require(message.ByteSizeLong() <= kMaxPageBytes, "a page is no larger than callers are told");
}

void RequireConverts(const Response& response) {
  std::visit(Overloaded{
                 [](const Done& done) { RequireConverts<v1::LeaveJobResponse>(done); },
                 [](const ServerRegistered& answer) { RequireConverts<v1::RegisterServerResponse>(answer); },
                 [](const ServerRenewed& answer) { RequireConverts<v1::HeartbeatServerResponse>(answer); },
                 [](const ServerDraining& answer) { RequireConverts<v1::DrainServerResponse>(answer); },
                 [](const ServerUndrained& answer) { RequireConverts<v1::UndrainServerResponse>(answer); },
                 [](const ServerEvicted& answer) { RequireConverts<v1::EvictServerResponse>(answer); },
                 [](const JobAborted& answer) { RequireConverts<v1::AbortJobResponse>(answer); },
                 [](const TraceStarted& answer) { RequireConverts<v1::TraceJobResponse>(answer); },
                 [](const TraceView& answer) { RequireConverts<v1::Trace>(answer); },
                 [](const FlightRecordsView& answer) { RequireConverts<v1::FlightRecords>(answer); },
                 [](const JobJoined& answer) { RequireConverts<v1::JoinJobResponse>(answer); },
                 [](const GroupJoined& answer) { RequireConverts<v1::JoinGroupResponse>(answer); },
                 [](const WorkerRenewed& answer) { RequireConverts<v1::HeartbeatWorkerResponse>(answer); },
                 [](const TicketIssued& answer) { RequireConverts<v1::GetTicketResponse>(answer); },
                 [](const ServerReported& answer) { RequireConverts<v1::ReportServerResponse>(answer); },
                 [](const ClusterView& answer) { RequireConverts<v1::Cluster>(answer); },
                 [](const ServersPage& answer) { RequireFits<v1::ListServersResponse>(answer); },
                 [](const JobsPage& answer) { RequireFits<v1::ListJobsResponse>(answer); },
                 [](const std::shared_ptr<const ShardMap>& answer) { RequireConverts<v1::ShardMap>(answer); },
             },
             response);
}

class SchedulerUnderFuzz {
 public:
  explicit SchedulerUnderFuzz(FuzzInput input)
      : input_(input),
        machine_(*ObservedScheduler::Make({.lease_ttl_ms = 5000, .store = "fuzz"}, NewState(), true, now_)) {
    Tick();
  }

  void Run() {
    for (uint64_t calls = 0; calls < kMostCalls && !input_.empty(); ++calls) Step();
    saves_fail_ = false;
    // Whatever a caller may wait for has happened by then: the longest wait, leases, saves that are tried again.
    Advance(2 * kMaxGroupWaitNs);
    Require(open_calls_.empty(), "every call is answered");
  }

 private:
  static constexpr uint64_t kMaxGroupWaitNs = 3600 * kNsPerS;

  void Step() {
    switch (input_.TakeBelow(27)) {
      case 0:
        return Call<v1::RegisterServerRequest>();
      case 1:
        return Call<v1::HeartbeatServerRequest>();
      case 2:
        return Call<v1::DeregisterServerRequest>();
      case 3:
        return Call<v1::JoinJobRequest>();
      case 4:
        return Call<v1::JoinGroupRequest>();
      case 5:
        return Call<v1::HeartbeatWorkerRequest>();
      case 6:
        return Call<v1::LeaveJobRequest>();
      case 7:
        return Call<v1::GetClusterRequest>();
      case 8:
        return Call<v1::ListServersRequest>();
      case 9:
        return Call<v1::ListJobsRequest>();
      case 10:
        return Call<v1::GetShardMapRequest>();
      case 11:
        return OnEvent(WatchOpened{WatcherId(next_number_++), JobId(input_.TakeBelow(4)),
                                   JobRank(static_cast<uint32_t>(input_.TakeBelow(4))),
                                   Incarnation(input_.TakeBelow(4))});
      case 12:
        return OnEvent(EventsOpened{WatcherId(next_number_++), true, input_.TakeNumber<uint64_t>()});
      case 13:
        return OnEvent(StreamClosed{WatcherId(input_.TakeBelow(64))});
      case 14:
        saves_fail_ = input_.TakeBelow(2) == 1;
        return;
      case 15:
        return Advance(uint64_t{input_.TakeNumber<uint8_t>()} * 100 * kNsPerMs);
      case 16:
        return Call<v1::ReportServerRequest>();
      case 17:
        return Call<v1::DrainServerRequest>();
      case 18:
        return Call<v1::CloseGroupsRequest>();
      case 19:
        return Call<v1::UndrainServerRequest>();
      case 20:
        return Call<v1::EvictServerRequest>();
      case 21:
        return Call<v1::AbortJobRequest>();
      case 22:
        return Call<v1::TraceJobRequest>();
      case 23:
        return Call<v1::SendTraceRequest>();
      case 24:
        return Call<v1::GetTraceRequest>();
      case 25:
        return Call<v1::SendFlightRecordRequest>();
      case 26:
        return Call<v1::GetFlightRecordsRequest>();
    }
  }

  template <typename Message>
  void Call() {
    const std::span<const std::byte> bytes = input_.Take(input_.TakeNumber<uint8_t>());
    Message message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const RequestHandle handle(next_number_++);
    open_calls_.insert(handle);
    OnEvent(RequestArrived{handle, FromMessage(message)});
  }

  void Advance(uint64_t ns) {
    const uint64_t end_ns = now_.monotonic_ns + ns;
    while (machine_->NextDeadlineNs() <= end_ns) {
      MoveTo(std::max(machine_->NextDeadlineNs(), now_.monotonic_ns));
      Tick();
    }
    MoveTo(end_ns);
  }

  void MoveTo(uint64_t monotonic_ns) {
    now_.unix_ms += (monotonic_ns - now_.monotonic_ns) / kNsPerMs;
    now_.monotonic_ns = monotonic_ns;
  }

  void OnEvent(const SchedulerEvent& event) {
    SchedulerActions actions;
    std::visit([&](const auto& each) { machine_->OnEvent(each, now_, &actions); }, event);
    Take(actions);
  }

  void Tick() {
    SchedulerActions actions;
    machine_->Tick(now_, &actions);
    Take(actions);
  }

  void Take(const SchedulerActions& actions) {
    for (const SchedulerAction& action : actions) {
      if (const auto* reply = std::get_if<Reply>(&action)) {
        Require(open_calls_.erase(reply->handle) == 1, "a call is answered once");
        if (reply->response.ok()) {
          RequireConverts(*reply->response);
        } else {
          Require(!reply->response.status().message().empty(), "a refusal says why");
        }
      } else if (const auto* watch = std::get_if<SendWatch>(&action)) {
        if (watch->map != nullptr) RequireConverts<v1::ShardMap>(watch->map);
        for (const RankLost& lost : watch->lost_ranks) RequireConverts<v1::RankLost>(lost);
        for (const GroupMap& group : watch->groups) RequireConverts<v1::GroupMap>(group);
      } else if (const auto* event = std::get_if<SendEvent>(&action)) {
        RequireConverts<v1::Event>(event->event);
      } else if (const auto* persist = std::get_if<Persist>(&action)) {
        Save(*persist);
      }
    }
  }

  void Save(const Persist& persist) {
    const absl::StatusOr<PersistedState> read = DecodeState(EncodeState(persist.state));
    Require(read.ok() && *read == persist.state, "what is saved can be read again");
    OnEvent(Persisted{persist.number, saves_fail_ ? absl::UnavailableError("disk full") : absl::OkStatus()});
  }

  FuzzInput input_;
  Now now_{.monotonic_ns = kNsPerS, .unix_ms = 1'800'000'000'000};
  std::unique_ptr<ObservedScheduler> machine_;
  std::set<RequestHandle> open_calls_;
  bool saves_fail_ = false;
  uint64_t next_number_ = 1;
};

void TryState(const std::string& bytes) {
  const absl::StatusOr<PersistedState> state = DecodeState(bytes);
  if (!state.ok()) {
    Require(absl::IsDataLoss(state.status()), "a damaged state is called so");
    return;
  }
  const absl::StatusOr<PersistedState> again = DecodeState(EncodeState(*state));
  Require(again.ok() && *again == *state, "a state survives the way");
  const Now now{.monotonic_ns = kNsPerS, .unix_ms = 1'800'000'000'000};
  const auto machine = ObservedScheduler::Make({.lease_ttl_ms = 5000, .store = "fuzz"}, *state, false, now);
  if (!machine.ok()) return;
  SchedulerActions actions;
  (*machine)->Tick(now, &actions);
}

}  // namespace
}  // namespace shoal::scheduler

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shoal::FuzzInput input(data, size);
  if (input.TakeBelow(4) == 0) {
    const std::span<const std::byte> rest = input.Take(size);
    shoal::scheduler::TryState({reinterpret_cast<const char*>(rest.data()), rest.size()});
  } else {
    shoal::scheduler::SchedulerUnderFuzz(input).Run();
  }
  return 0;
}
