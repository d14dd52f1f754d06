// What every Reducer must do (server/loop/reducer.h): the server's own, and the simulator's that takes its time.
#include "server/loop/reducer.h"

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/loop/inline_reducer.h"
#include "server/thread/timed_reducer.h"
#include "sim/sim_reducer.h"

namespace shoal {
namespace {

constexpr uint32_t kElements = 1000;
constexpr ReduceSpec kSum{.op = ReduceOp::kSum};

struct ReducerKind {
  std::string name;
  std::function<std::unique_ptr<Reducer>(sim::World* world)> make;
};

// The memory of one job: one array of floats for each rank.
class Contributions {
 public:
  Contributions(uint32_t ranks, float start) : arrays_(ranks, std::vector<float>(kElements)), expected_(kElements) {
    for (uint32_t r = 0; r < ranks; ++r) {
      for (uint32_t i = 0; i < kElements; ++i) arrays_[r][i] = start + static_cast<float>(r * kElements + i);
      inputs_.push_back(reinterpret_cast<const std::byte*>(arrays_[r].data()));
      for (uint32_t i = 0; i < kElements; ++i) expected_[i] += arrays_[r][i];
    }
  }

  // The sum replaces the first array, as a server has it.
  ReduceJob Job(uint64_t token) {
    return {.spec = kSum,
            .inputs = inputs_,
            .output = reinterpret_cast<std::byte*>(arrays_[0].data()),
            .elements = kElements,
            .token = token};
  }
  bool IsSummed() const { return arrays_[0] == expected_; }
  const std::vector<float>& array(uint32_t rank) const { return arrays_[rank]; }

 private:
  std::vector<std::vector<float>> arrays_;
  std::vector<const std::byte*> inputs_;
  std::vector<float> expected_;
};

class ReducerSuite : public ::testing::TestWithParam<ReducerKind> {
 protected:
  ReducerSuite() : reducer_(GetParam().make(&world_)) {}

  // All tokens that come while nothing but time passes.
  std::vector<uint64_t> PollAll() {
    std::vector<uint64_t> tokens;
    do {
      for (uint64_t budget_bytes = 1; reducer_->HasWork(); budget_bytes = 1) reducer_->Work(&budget_bytes);
      const std::span<const uint64_t> done = reducer_->Poll();
      tokens.insert(tokens.end(), done.begin(), done.end());
    } while (world_.RunOne(world_.now_ns() + 1'000'000));
    const std::span<const uint64_t> done = reducer_->Poll();
    tokens.insert(tokens.end(), done.begin(), done.end());
    return tokens;
  }

  sim::World world_{1};
  const std::unique_ptr<Reducer> reducer_;
};

TEST_P(ReducerSuite, NothingIsDoneBeforeAnythingWasStarted) { EXPECT_TRUE(PollAll().empty()); }

TEST_P(ReducerSuite, AJobIsDoneOnceAndItsSumIsThereThen) {
  Contributions contributions(3, 1);
  const std::vector<float> second = contributions.array(1);
  reducer_->Start(contributions.Job(77));
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{77});
  EXPECT_TRUE(contributions.IsSummed());
  EXPECT_EQ(contributions.array(1), second) << "inputs are read only";
  EXPECT_TRUE(PollAll().empty());
}

TEST_P(ReducerSuite, ManyJobsAtATimeEndInAnyOrderEachWithItsOwnSum) {
  std::vector<Contributions> all;
  for (uint32_t job = 0; job < 20; ++job) all.emplace_back(1 + job % 4, static_cast<float>(job));
  for (uint32_t job = 0; job < 20; ++job) reducer_->Start(all[job].Job(job));
  const std::vector<uint64_t> tokens = PollAll();
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_EQ(std::set<uint64_t>(tokens.begin(), tokens.end()).size(), 20u);
  for (const Contributions& contributions : all) EXPECT_TRUE(contributions.IsSummed());
}

TEST_P(ReducerSuite, AJobMayBeStartedWithTheMemoryOfOneThatIsDone) {
  Contributions contributions(2, 5);
  reducer_->Start(contributions.Job(1));
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{1});
  const float sum = contributions.array(0)[0];
  reducer_->Start(contributions.Job(2));
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{2});
  EXPECT_EQ(contributions.array(0)[0], sum + contributions.array(1)[0]);
}

INSTANTIATE_TEST_SUITE_P(Reducers, ReducerSuite,
                         ::testing::Values(ReducerKind{"Inline",
                                                       [](sim::World*) -> std::unique_ptr<Reducer> {
                                                         return std::make_unique<InlineReducer>();
                                                       }},
                                           ReducerKind{"Timed",
                                                       [](sim::World*) -> std::unique_ptr<Reducer> {
                                                         return std::make_unique<TimedReducer>(
                                                             std::make_unique<InlineReducer>());
                                                       }},
                                           ReducerKind{"Sim",
                                                       [](sim::World* world) -> std::unique_ptr<Reducer> {
                                                         return std::make_unique<sim::SimReducer>(
                                                             world, 50'000, sim::Sabotage::kNone, [] {});
                                                       }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal
