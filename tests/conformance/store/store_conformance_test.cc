// What every store must do, whatever it keeps the state in (scheduler/store/store.h).
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/mutex.h"
#include "tests/conformance/store/saver_states.h"
#include "tests/conformance/store/store_places.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kSaverPatience{30};

template <typename Place>
struct PlaceKind {
  std::string name;
  std::function<std::unique_ptr<Place>(const std::string& folder)> make;
};

template <typename Place>
class StoreTest : public ::testing::TestWithParam<PlaceKind<Place>> {
 protected:
  StoreTest() {
    std::string pattern = ::testing::TempDir() + "/shoal-store-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    place_ = this->GetParam().make(folder_);
  }
  ~StoreTest() override {
    store_.reset();
    place_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Another scheduler starts; the one before has ended.
  void Open() {
    store_.reset();
    store_ = place_->Open();
    store_->SetWake([this] {
      const MutexLock guard(mutex_);
      ++wakes_;
      woken_.notify_all();
    });
  }

  // Relies on the wake alone: a store that forgets it makes this hang (and the test time out).
  Store::Saved Save(uint64_t number, const std::string& state) {
    store_->StartSave(number, state);
    for (;;) {
      if (const std::optional<Store::Saved> saved = store_->PollSaved()) return *saved;
      MutexLock guard(mutex_);
      woken_.wait(guard, [this]() SHOAL_REQUIRES(mutex_) { return wakes_ > 0; });
      --wakes_;
    }
  }

  std::string folder_;
  std::unique_ptr<Place> place_;
  Mutex mutex_;
  std::condition_variable woken_;
  int wakes_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Store> store_;
};

// ---- every store ----

using StoreConformanceTest = StoreTest<StorePlace>;

TEST_P(StoreConformanceTest, ANewStoreHasNothing) {
  Open();
  const auto loaded = store_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_FALSE(loaded->has_value());
  EXPECT_FALSE(store_->PollSaved().has_value());
  EXPECT_FALSE(store_->Describe().empty());
}

TEST_P(StoreConformanceTest, TheLastSaveIsLoaded) {
  Open();
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
  Open();
  std::string large(3'000'000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 13);
  for (const std::string& state : {std::string(), std::string("\0a\n\xff", 4), large, std::string("short again")}) {
    EXPECT_TRUE(Save(1, state).status.ok());
    const auto loaded = store_->Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(**loaded == state) << state.size() << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreConformanceTest,
    ::testing::Values(PlaceKind<StorePlace>{"Memory", [](const auto&) { return MakeMemoryPlace(); }},
                      PlaceKind<StorePlace>{"Sim", [](const auto&) { return MakeSimPlace(); }},
                      PlaceKind<StorePlace>{"File", MakeFilePlace}, PlaceKind<StorePlace>{"Etcd", MakeEtcdPlace}),
    [](const auto& kind) { return kind.param.name; });

// ---- stores that outlive the scheduler ----

class LastingStoreTest : public StoreTest<LastingPlace> {
 protected:
  // What the next scheduler finds.
  absl::StatusOr<std::optional<std::string>> LoadAnew() {
    Open();
    return store_->Load();
  }

  void ExpectNextFinds(const std::optional<std::string>& state) {
    const auto loaded = LoadAnew();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(*loaded, state);
  }

  // The number of the state that is there, which must be whole and not older than `at_least`; 0: there is none yet.
  void ExpectWhole(const absl::StatusOr<std::optional<std::string>>& loaded, uint64_t* at_least) {
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded->has_value()) {
      EXPECT_EQ(*at_least, 0u) << "the state is gone";
      return;
    }
    const std::optional<uint64_t> number = NumberOfWhole(**loaded);
    ASSERT_TRUE(number.has_value()) << (*loaded)->size() << " bytes are no state that was saved";
    EXPECT_GE(*number, *at_least) << "an older state is back";
    *at_least = *number;
  }
};

TEST_P(LastingStoreTest, TheNextSchedulerFindsTheState) {
  Open();
  ASSERT_TRUE(Save(1, "hello").status.ok());
  ExpectNextFinds("hello");
  ASSERT_TRUE(Save(1, "hello again").status.ok());
  ExpectNextFinds("hello again");
}

TEST_P(LastingStoreTest, ASaveThatFailsIsToldAndKeepsTheFormerState) {
  Open();
  ASSERT_TRUE(Save(1, "former").status.ok());
  place_->MakeSavesFail();
  const Store::Saved failed = Save(7, WholeState(3));
  EXPECT_FALSE(failed.status.ok());
  EXPECT_EQ(failed.number, 7u);
  EXPECT_THAT(std::string(failed.status.message()), HasSubstr(place_->Name()));
  EXPECT_FALSE(store_->PollSaved().has_value()) << "told once";
  place_->LetSavesSucceed();
  ExpectNextFinds("former");
}

TEST_P(LastingStoreTest, AFirstSaveThatFailsLeavesNothing) {
  Open();
  place_->MakeSavesFail();
  EXPECT_FALSE(Save(1, WholeState(3)).status.ok());
  place_->LetSavesSucceed();
  ExpectNextFinds(std::nullopt);
}

TEST_P(LastingStoreTest, AfterASaveThatFailedTheNextOneSucceeds) {
  Open();
  ASSERT_TRUE(Save(1, "former").status.ok());
  place_->MakeSavesFail();
  EXPECT_FALSE(Save(2, WholeState(3)).status.ok());
  EXPECT_FALSE(Save(3, WholeState(3)).status.ok());
  place_->LetSavesSucceed();
  const Store::Saved saved = Save(4, "next");
  EXPECT_TRUE(saved.status.ok()) << saved.status;
  EXPECT_EQ(saved.number, 4u);
  ExpectNextFinds("next");
}

TEST_P(LastingStoreTest, WhoReadsWhileStatesAreSavedSeesOneOfThemWhole) {
  constexpr int kReads = 200;
  constexpr uint64_t kStates = 10;
  place_->StartSaver(1);
  uint64_t newest = 0;
  const auto until = std::chrono::steady_clock::now() + kSaverPatience;
  for (int reads = 0; reads < kReads || newest < kStates; ++reads) {
    ASSERT_NO_FATAL_FAILURE(ExpectWhole(place_->LoadBeside(), &newest));
    ASSERT_LT(std::chrono::steady_clock::now(), until) << "the saver has saved " << newest << " states";
  }
  place_->KillSaver();
}

TEST_P(LastingStoreTest, AfterASchedulerWasKilledAmidASaveTheOldOrTheNewStateIsThereWhole) {
  constexpr int kRounds = 5;
  uint64_t newest = 0;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t before = newest;
    place_->StartSaver(before + 1);
    const auto until = std::chrono::steady_clock::now() + kSaverPatience;
    while (newest == before) {
      ASSERT_NO_FATAL_FAILURE(ExpectWhole(place_->LoadBeside(), &newest));
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "the saver saves nothing";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
    place_->KillSaver();
    ASSERT_NO_FATAL_FAILURE(ExpectWhole(LoadAnew(), &newest));
    // What the killed one left behind is in nobody's way.
    ASSERT_TRUE(Save(1, WholeState(++newest)).status.ok());
    ASSERT_NO_FATAL_FAILURE(ExpectWhole(LoadAnew(), &newest));
    store_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, LastingStoreTest,
                         ::testing::Values(PlaceKind<LastingPlace>{"Sim", [](const auto&) { return MakeSimPlace(); }},
                                           PlaceKind<LastingPlace>{"File", MakeFilePlace},
                                           PlaceKind<LastingPlace>{"Etcd", MakeEtcdPlace}),
                         [](const auto& kind) { return kind.param.name; });

// ---- stores whose bytes can change behind their back ----

class DamagedStoreTest : public LastingStoreTest {};

TEST_P(DamagedStoreTest, ADamagedStateIsRefusedWithDataLossAndNotTakenForNone) {
  const std::vector<LastingPlace::Damage> damages = place_->Damages();
  ASSERT_FALSE(damages.empty());
  for (const LastingPlace::Damage& damage : damages) {
    Open();
    ASSERT_TRUE(Save(1, WholeState(3)).status.ok());
    store_.reset();
    damage.inflict();
    const auto loaded = LoadAnew();
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << damage.what << ": " << loaded.status();
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(place_->Name())) << damage.what;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("to start a new cluster")) << "what to do";
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, DamagedStoreTest,
                         ::testing::Values(PlaceKind<LastingPlace>{"File", MakeFilePlace},
                                           PlaceKind<LastingPlace>{"Etcd", MakeEtcdPlace}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal::scheduler
