// The load that a job's ranks put on a scheduler: each joins over a connection of its own, and renews its lease again
// and again. Prints how long a join took, and then for how long the scheduler used a processor. bench/identities/run.py
// runs it with certificates and without.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/version.h"
#include "process/credential_files.h"
#include "process/open_files.h"
#include "process/scheduler_address.h"
#include "program/option_table.h"
#include "proto/credentials.h"
#include "proto/scheduler_channel.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};

struct Member {
  std::unique_ptr<v1::Scheduler::Stub> stub;
  uint64_t job_id = 0;
  uint32_t rank = 0;
};

void SetDeadline(grpc::ClientContext* context) { context->set_deadline(std::chrono::system_clock::now() + kPatience); }

double Milliseconds(steady_clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

// Of all its threads, in user space and in the kernel.
double ProcessorMs(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  std::getline(file, word, ')');
  double ticks = 0;
  for (int i = 0; i < 13 && file >> word; ++i) {
    if (i >= 11) ticks += std::stod(word);
  }
  return ticks * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Connects and joins; false: it was refused, and says why.
bool Join(const std::string& scheduler, const Credentials& credentials, uint32_t world_size, Member* member) {
  member->stub = v1::Scheduler::NewStub(OpenSchedulerChannel(*SchedulerTarget(scheduler), credentials));
  v1::JoinJobRequest request;
  request.set_control_version(kControlVersion);
  request.set_oldest_control_version(kOldestControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_job_name("load");
  request.set_world_size(world_size);
  request.set_rank(member->rank);
  request.set_incarnation(member->rank + 1);
  request.set_node("bench");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::JoinJobResponse response;
  const grpc::Status status = member->stub->JoinJob(&context, request, &response);
  if (!status.ok()) std::fprintf(stderr, "member_load: %s\n", status.error_message().c_str());
  member->job_id = response.job_id();
  return status.ok();
}

bool Renew(const Member& member) {
  v1::HeartbeatWorkerRequest request;
  request.set_job_id(member.job_id);
  request.set_rank(member.rank);
  request.set_incarnation(member.rank + 1);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::HeartbeatWorkerResponse response;
  const grpc::Status status = member.stub->HeartbeatWorker(&context, request, &response);
  if (!status.ok()) std::fprintf(stderr, "member_load: %s\n", status.error_message().c_str());
  return status.ok();
}

int Run(const std::string& scheduler, const Credentials& credentials, uint32_t pid, uint32_t ranks, uint32_t rounds) {
  std::vector<Member> members(ranks);
  std::vector<double> join_ms;
  const auto own_pid = static_cast<uint32_t>(getpid());
  const double before_joins_ms = ProcessorMs(pid) + ProcessorMs(own_pid);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    members[rank].rank = rank;
    const steady_clock::time_point since = steady_clock::now();
    if (!Join(scheduler, credentials, ranks, &members[rank])) return 1;
    join_ms.push_back(Milliseconds(steady_clock::now() - since));
  }
  const double joins_processor_ms = ProcessorMs(pid) + ProcessorMs(own_pid) - before_joins_ms;
  std::ranges::sort(join_ms);
  const double before_ms = ProcessorMs(pid);
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const Member& member : members) {
      if (!Renew(member)) return 1;
    }
  }
  std::printf("join_p50_ms=%.3f join_p90_ms=%.3f join_processor_ms=%.3f processor_us_per_heartbeat=%.2f\n",
              join_ms[join_ms.size() / 2], join_ms[join_ms.size() * 9 / 10], joins_processor_ms / ranks,
              (ProcessorMs(pid) - before_ms) * 1000 / (uint64_t{ranks} * rounds));
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  std::string scheduler;
  uint32_t pid = 0;
  uint32_t ranks = 1024;
  uint32_t rounds = 20;
  CredentialFiles files;
  OptionTable table("member_load", "Joins a job with many ranks and renews their leases one after the other.");
  table.String("scheduler", "", "HOST:PORT", "The scheduler.", &scheduler);
  table.Uint32("pid", "", "PID", "Its process, on this node.", &pid, 1);
  table.Uint32("ranks", "", "N", "How many ranks.", &ranks, 1, 65536);
  table.Uint32("rounds", "", "N", "How many heartbeats of each.", &rounds, 1, 100000);
  DeclareCredentialOptions(&files, &table);
  const absl::Status parsed = table.Parse(arguments);
  const absl::StatusOr<Credentials> credentials = Credentials::Load(files, nullptr);
  const absl::Status status = !parsed.ok() ? parsed : credentials.status();
  if (!status.ok()) {
    std::fprintf(stderr, "member_load: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  if (!table.answer().empty()) {
    std::printf("%s", table.answer().c_str());
    return 0;
  }
  RaiseOpenFileLimit();
  return Run(scheduler, *credentials, pid, ranks, rounds);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main({argv + 1, argv + argc}); }
