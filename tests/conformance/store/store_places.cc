#include "tests/conformance/store/store_places.h"

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ids.h"
#include "scheduler/leading/etcd_election.h"
#include "scheduler/store/etcd_store.h"
#include "scheduler/store/file_store.h"
#include "scheduler/store/memory_store.h"
#include "sim/sim_store.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/store/etcd_process.h"
#include "tests/conformance/store/saver_states.h"

namespace shoal::scheduler {
namespace {

class MemoryPlace : public StorePlace {
 public:
  std::unique_ptr<Store> Open() override { return std::make_unique<MemoryStore>(); }
};

// The simulator's disk. Time passes while a save is under way.
class SimulatedStore : public Store {
 public:
  SimulatedStore(sim::World* world, sim::SimDisk* disk) : world_(world), store_(disk) {}

  absl::StatusOr<std::optional<std::string>> Load() override { return store_.Load(); }
  void StartSave(uint64_t number, std::string state) override {
    store_.StartSave(number, std::move(state));
    world_->RunUntil(world_->now_ns() + 10 * kNsPerMs);
  }
  std::optional<Saved> PollSaved() override { return store_.PollSaved(); }
  void SetWake(std::function<void()> wake) override { store_.SetWake(std::move(wake)); }
  std::string Describe() const override { return store_.Describe(); }

 private:
  sim::World* const world_;
  sim::SimStore store_;
};

class SimPlace : public LastingPlace {
 public:
  std::unique_ptr<Store> Open() override { return std::make_unique<SimulatedStore>(&world_, &disk_); }
  void MakeSavesFail() override { disk_.FailUntil(std::numeric_limits<uint64_t>::max()); }
  void LetSavesSucceed() override { disk_.FailUntil(0); }
  std::string Name() override { return "simulated disk"; }
  std::vector<Damage> Damages() override { return {}; }

  void StartSaver(uint64_t first_number) override {
    saver_.emplace(&disk_);
    saver_->SetWake([this] {
      saver_->PollSaved();
      ++saver_number_;
      saver_->StartSave(saver_number_, WholeState(saver_number_));
    });
    saver_number_ = first_number;
    saver_->StartSave(first_number, WholeState(first_number));
  }
  void KillSaver() override { saver_.reset(); }
  absl::StatusOr<std::optional<std::string>> LoadBeside() override {
    world_.RunUntil(world_.now_ns() + world_.random().Below(2 * kNsPerMs));
    return disk_.state();
  }

 private:
  sim::World world_{1};
  sim::SimDisk disk_{&world_};
  uint64_t saver_number_ = 0;
  std::optional<sim::SimStore> saver_;
};

std::string BytesOf(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

class FilePlace : public LastingPlace {
 public:
  explicit FilePlace(const std::string& folder) : folder_(folder), path_(folder + "/state") {}
  ~FilePlace() override { LetSavesSucceed(); }

  std::unique_ptr<Store> Open() override { return *FileStore::Open(path_); }
  // As on a disk that is full: the first bytes can be written.
  void MakeSavesFail() override {
    std::signal(SIGXFSZ, SIG_IGN);
    SetLargestFile(4096);
  }
  void LetSavesSucceed() override { SetLargestFile(RLIM_INFINITY); }
  std::string Name() override { return path_; }
  std::vector<Damage> Damages() override {
    return {{"a byte of the state differs",
             [this] {
               std::string bytes = BytesOf(path_);
               bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
               WriteFile(path_, bytes);
             }},
            {"its end is missing", [this] { std::filesystem::resize_file(path_, BytesOf(path_).size() / 2); }},
            {"it is empty", [this] { std::filesystem::resize_file(path_, 0); }},
            {"something follows it", [this] { WriteFile(path_, BytesOf(path_) + "x"); }},
            {"it is a foreign file", [this] { WriteFile(path_, "dear diary"); }}};
  }

  void StartSaver(uint64_t first_number) override {
    saver_.emplace(std::vector<std::string>{SHOAL_STORE_SAVER, "file", path_, absl::StrCat(first_number)});
  }
  void KillSaver() override { saver_->Kill(); }
  // From a copy, as an operator makes one: the saver has the lock.
  absl::StatusOr<std::optional<std::string>> LoadBeside() override {
    const std::string copy = folder_ + "/copy";
    std::filesystem::remove(copy);
    if (std::filesystem::exists(path_)) WriteFile(copy, BytesOf(path_));
    const auto store = FileStore::Open(copy);
    return store.ok() ? (*store)->Load() : store.status();
  }

 private:
  static void SetLargestFile(rlim_t bytes) {
    rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
  }

  const std::string folder_;
  const std::string path_;
  std::optional<PeerProcess> saver_;
};

// Of a scheduler that leads.
class ElectedStore : public Store {
 public:
  explicit ElectedStore(EtcdClient* client)
      : election_(client, "127.0.0.1:7070", /*lease_ttl_ms=*/10'000),
        store_(client, election_.leader_key(), TermOnceElected(&election_)) {}

  absl::StatusOr<std::optional<std::string>> Load() override { return store_.Load(); }
  void StartSave(uint64_t number, std::string state) override { store_.StartSave(number, std::move(state)); }
  std::optional<Saved> PollSaved() override { return store_.PollSaved(); }
  void SetWake(std::function<void()> wake) override { store_.SetWake(std::move(wake)); }
  std::string Describe() const override { return store_.Describe(); }

 private:
  // One that was killed leads until its lease ends.
  static int64_t TermOnceElected(EtcdElection* election) {
    for (;;) {
      const absl::StatusOr<Standing> standing = election->Stand();
      if (standing.ok() && standing->leads) return standing->term;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  EtcdElection election_;
  EtcdStore store_;
};

class EtcdPlace : public LastingPlace {
 public:
  explicit EtcdPlace(const std::string& folder)
      : etcd_(folder), target_("etcd://" + etcd_.address() + "/test"), client_(*ParseEtcdTarget(target_)) {}

  std::unique_ptr<Store> Open() override { return std::make_unique<ElectedStore>(&client_); }
  void MakeSavesFail() override { etcd_.SetFull(true); }
  void LetSavesSucceed() override { etcd_.SetFull(false); }
  std::string Name() override { return etcd_.address(); }
  std::vector<Damage> Damages() override {
    return {{"the last piece is missing", [this] { Delete(LastPiece().key()); }},
            {"a byte of a piece differs",
             [this] {
               const etcdserverpb::KeyValue piece = LastPiece();
               std::string bytes = piece.value();
               bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
               Put(piece.key(), bytes);
             }},
            {"all pieces are missing",
             [this] {
               etcdserverpb::TxnRequest request;
               *request.add_success()->mutable_request_delete_range() = AllPieces<etcdserverpb::DeleteRangeRequest>();
               Do(request);
             }},
            {"a piece is another one of the same state",
             [this] {
               const auto pieces = client_.Read(AllPieces<etcdserverpb::RangeRequest>(), /*timeout_ms=*/5000);
               Put(pieces->kvs(0).key(), pieces->kvs(1).value());
             }},
            {"there is a piece too many", [this] { Put(LastPiece().key() + "0", "x"); }},
            {"what names the pieces is empty", [this] { Put(kStateKey, ""); }},
            {"what names the pieces names none", [this] { Put(kStateKey, " 00"); }},
            {"what names the pieces is foreign", [this] { Put(kStateKey, "dear diary"); }}};
  }

  void StartSaver(uint64_t first_number) override {
    saver_.emplace(std::vector<std::string>{SHOAL_STORE_SAVER, "etcd", target_, absl::StrCat(first_number)});
  }
  void KillSaver() override { saver_->Kill(); }
  absl::StatusOr<std::optional<std::string>> LoadBeside() override {
    return EtcdStore(&client_, /*leader_key=*/"of another", /*term=*/0).Load();
  }

 private:
  static constexpr char kStateKey[] = "/test/state";

  template <typename Message>
  static Message AllPieces() {
    Message message;
    message.set_key("/test/state/");
    message.set_range_end("/test/state0");
    return message;
  }
  void Do(const etcdserverpb::TxnRequest& request) {
    if (!client_.Transact(request, /*timeout_ms=*/5000).ok()) std::abort();
  }
  void Put(const std::string& key, const std::string& value) {
    etcdserverpb::TxnRequest request;
    etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
    put->set_key(key);
    put->set_value(value);
    Do(request);
  }
  void Delete(const std::string& key) {
    etcdserverpb::TxnRequest request;
    request.add_success()->mutable_request_delete_range()->set_key(key);
    Do(request);
  }
  etcdserverpb::KeyValue LastPiece() {
    const auto pieces = client_.Read(AllPieces<etcdserverpb::RangeRequest>(), /*timeout_ms=*/5000);
    if (!pieces.ok() || pieces->kvs_size() == 0) std::abort();
    return pieces->kvs(pieces->kvs_size() - 1);
  }

  EtcdProcess etcd_;
  const std::string target_;
  EtcdClient client_;
  std::optional<PeerProcess> saver_;
};

}  // namespace

std::unique_ptr<StorePlace> MakeMemoryPlace() { return std::make_unique<MemoryPlace>(); }
std::unique_ptr<LastingPlace> MakeSimPlace() { return std::make_unique<SimPlace>(); }
std::unique_ptr<LastingPlace> MakeFilePlace(const std::string& folder) { return std::make_unique<FilePlace>(folder); }
std::unique_ptr<LastingPlace> MakeEtcdPlace(const std::string& folder) { return std::make_unique<EtcdPlace>(folder); }

}  // namespace shoal::scheduler
