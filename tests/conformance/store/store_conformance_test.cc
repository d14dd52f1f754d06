// What every store must do, whatever it keeps the state in.
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "gtest/gtest.h"
#include "scheduler/leading/etcd_election.h"
#include "scheduler/store/etcd_store.h"
#include "scheduler/store/file_store.h"
#include "scheduler/store/memory_store.h"
#include "tests/conformance/store/etcd_process.h"

namespace shoal::scheduler {
namespace {

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<Store>(const std::string& folder)> open;
};

// A store in a real etcd, of a scheduler that leads.
class ElectedStore : public Store {
 public:
  explicit ElectedStore(const std::string& folder)
      : etcd_(folder),
        client_(*ParseEtcdTarget("etcd://" + etcd_.address())),
        election_(&client_, "127.0.0.1:7070", 10'000),
        store_(&client_, election_.leader_key(), election_.Stand()->term) {}

  absl::StatusOr<std::optional<std::string>> Load() override { return store_.Load(); }
  void StartSave(uint64_t number, std::string state) override { store_.StartSave(number, std::move(state)); }
  std::optional<Saved> PollSaved() override { return store_.PollSaved(); }
  void SetWake(std::function<void()> wake) override { store_.SetWake(std::move(wake)); }
  std::string Describe() const override { return store_.Describe(); }

 private:
  EtcdProcess etcd_;
  EtcdClient client_;
  EtcdElection election_;
  EtcdStore store_;
};

class StoreConformanceTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  StoreConformanceTest() {
    std::string pattern = ::testing::TempDir() + "/shoal-store-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    store_ = GetParam().open(folder_);
    store_->SetWake([this] {
      const std::lock_guard<std::mutex> guard(mutex_);
      ++wakes_;
      woken_.notify_all();
    });
  }
  ~StoreConformanceTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Relies on the wake alone: a store that forgets it makes this hang (and the test time out).
  Store::Saved Save(uint64_t number, const std::string& state) {
    store_->StartSave(number, state);
    for (;;) {
      if (const std::optional<Store::Saved> saved = store_->PollSaved()) return *saved;
      std::unique_lock<std::mutex> guard(mutex_);
      woken_.wait(guard, [this] { return wakes_ > 0; });
      --wakes_;
    }
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

TEST_P(StoreConformanceTest, ANewStoreHasNothing) {
  const auto loaded = store_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_FALSE(loaded->has_value());
  EXPECT_FALSE(store_->PollSaved().has_value());
  EXPECT_FALSE(store_->Describe().empty());
}

TEST_P(StoreConformanceTest, TheLastSaveIsLoaded) {
  for (uint64_t number = 1; number <= 20; ++number) {
    const Store::Saved saved = Save(number * 3, "state " + std::to_string(number));
    EXPECT_TRUE(saved.status.ok()) << saved.status;
    EXPECT_EQ(saved.number, number * 3);
    EXPECT_FALSE(store_->PollSaved().has_value()) << "told once";
  }
  const auto loaded = store_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(**loaded, "state 20");
}

TEST_P(StoreConformanceTest, AnyBytesOfAnySizeComeBack) {
  std::string large(3'000'000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 13);
  for (const std::string& state : {std::string(), std::string("\0a\n\xff", 4), large, std::string("short again")}) {
    EXPECT_TRUE(Save(1, state).status.ok());
    const auto loaded = store_->Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(**loaded == state) << state.size() << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         ::testing::Values(StoreKind{"Memory",
                                                     [](const std::string&) -> std::unique_ptr<Store> {
                                                       return std::make_unique<MemoryStore>();
                                                     }},
                                           StoreKind{"File",
                                                     [](const std::string& folder) -> std::unique_ptr<Store> {
                                                       return *FileStore::Open(folder + "/state");
                                                     }},
                                           StoreKind{"Etcd",
                                                     [](const std::string& folder) -> std::unique_ptr<Store> {
                                                       return std::make_unique<ElectedStore>(folder);
                                                     }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal::scheduler
