// A scheduler's store in a process of its own, which saves one state after the other until it is killed.
//
//   store_saver file PATH FIRST_NUMBER
//   store_saver etcd STORE FIRST_NUMBER
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "scheduler/leading/etcd_election.h"
#include "scheduler/store/etcd_store.h"
#include "scheduler/store/file_store.h"
#include "tests/conformance/store/saver_states.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kLeaseMs = 2'000;
constexpr std::chrono::milliseconds kCompactEvery{10};
constexpr uint64_t kTimeoutMs = 1'000;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "store_saver: %s\n", std::string(status.message()).c_str());
  return 1;
}

int SaveForEver(Store* store, uint64_t number) {
  for (;; ++number) {
    store->StartSave(number, WholeState(number));
    std::optional<Store::Saved> saved;
    while (!(saved = store->PollSaved()).has_value()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (!saved->status.ok()) return Fail(saved->status);
  }
}

int SaveInFile(const std::string& path, uint64_t number) {
  const auto store = FileStore::Open(path);
  return store.ok() ? SaveForEver(store->get(), number) : Fail(store.status());
}

// As other users of an etcd may, at any time: what was replaced can't be read any more.
void CompactForEver(const std::string& target) {
  EtcdClient client(*ParseEtcdTarget(target));
  for (;;) {
    std::this_thread::sleep_for(kCompactEvery);
    etcdserverpb::RangeRequest anything;
    anything.set_key("/");
    const absl::StatusOr<etcdserverpb::RangeResponse> read = client.Read(anything, kTimeoutMs);
    if (read.ok()) client.Compact(read->header().revision(), kTimeoutMs).IgnoreError();
  }
}

int SaveInEtcd(const std::string& target, uint64_t number) {
  std::thread(CompactForEver, target).detach();
  EtcdClient client(*ParseEtcdTarget(target));
  EtcdElection election(&client, "127.0.0.1:7070", kLeaseMs);
  for (;;) {
    const absl::StatusOr<Standing> standing = election.Stand();
    if (!standing.ok()) return Fail(standing.status());
    if (standing->leads) {
      EtcdStore store(&client, election.leader_key(), standing->term);
      return SaveForEver(&store, number);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace
}  // namespace shoal::scheduler

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const uint64_t number = std::strtoull(argv[3], nullptr, 10);
  return std::strcmp(argv[1], "file") == 0 ? shoal::scheduler::SaveInFile(argv[2], number)
                                           : shoal::scheduler::SaveInEtcd(argv[2], number);
}
