// Bits that flip on their way: with checksums the sums are right all the same.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/forwarding_transport.h"
#include "net/observed_transport.h"
#include "tests/scenario/cluster.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 3;
constexpr uint64_t kOps = 4;

// Flips one bit of a payload now and then, after its checksum was computed.
class FlippingTransport final : public ForwardingTransport {
 public:
  // Of the sends of all transports together, those whose number is in `flips`.
  struct Plan {
    std::vector<uint64_t> flips;
    uint64_t sends = 0;
    uint64_t flipped = 0;
    std::deque<std::vector<std::byte>> changed;  // payloads, as long as a transport may read them
  };

  FlippingTransport(std::unique_ptr<Transport> below, Plan* plan)
      : ForwardingTransport(std::move(below)), plan_(plan) {}

  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    const uint64_t number = ++plan_->sends;
    if (std::find(plan_->flips.begin(), plan_->flips.end(), number) == plan_->flips.end()) {
      return below()->Send(peer, header, payload, token);
    }
    ++plan_->flipped;
    std::vector<std::byte>& changed = plan_->changed.emplace_back(payload.begin(), payload.end());
    changed[number % changed.size()] ^= std::byte{0x10};
    return below()->Send(peer, header, changed, token);
  }

 private:
  Plan* const plan_;
};

using Tensors = std::vector<std::vector<std::byte>>;

// By op and worker; small whole numbers, so that a wrong bit shows.
std::vector<Tensors> Inputs() {
  std::vector<Tensors> inputs(kOps, Tensors(kWorkers));
  for (uint64_t op = 0; op < kOps; ++op) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      std::vector<float> numbers(20'000);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>((i * (worker + 3) + op) % 1013);
      inputs[op][worker].resize(numbers.size() * sizeof(float));
      std::memcpy(inputs[op][worker].data(), numbers.data(), inputs[op][worker].size());
    }
  }
  return inputs;
}

struct Outcome {
  std::vector<Tensors> results;
  std::vector<absl::Status> statuses;
  uint64_t flipped = 0;
};

// Moves the group on, as the scheduler would, whenever it stands still.
Outcome RunWith(const std::vector<uint64_t>& flips, bool checksums, uint64_t seed) {
  FlippingTransport::Plan plan{.flips = flips};
  ClusterOptions options{.workers = kWorkers, .servers = 2, .seed = seed};
  options.wrap = [&](std::unique_ptr<Transport> below) -> std::unique_ptr<Transport> {
    auto flipping = std::make_unique<FlippingTransport>(std::move(below), &plan);
    if (!checksums) return flipping;
    return MakeObservedTransport(std::move(flipping), {.checksums = Checksums::kToAll});
  };
  Outcome run{.results = Inputs()};
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  for (uint64_t op = 0; op < kOps; ++op) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      cluster.Submit(worker, 0, op, run.results[op][worker], DataType::kFloat32, ReduceOp::kSum);
    }
  }
  for (int moves = 0; moves < 40 && !cluster.RunUntil([&] { return cluster.AllDone(0, kOps - 1); }); ++moves) {
    cluster.MoveGroup(1);
  }
  EXPECT_TRUE(cluster.AllDone(0, kOps - 1)) << "seed " << seed;
  for (uint64_t op = 0; op < kOps; ++op) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      const OpDone* const done = cluster.Done(worker, op);
      run.statuses.push_back(done == nullptr ? absl::UnknownError("not done") : done->status);
    }
  }
  run.flipped = plan.flipped;
  return run;
}

TEST(Corruption, WithChecksumsTheBitsAreThoseOfTheUndisturbedRun) {
  const Outcome undisturbed = RunWith({}, true, 1);
  uint64_t flipped = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome run = RunWith({3 * seed, 100 + 7 * seed, 300 + 11 * seed, 900 + seed}, true, seed);
    flipped += run.flipped;
    for (const absl::Status& status : run.statuses) ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    ASSERT_TRUE(run.results == undisturbed.results) << "seed " << seed;
  }
  EXPECT_EQ(flipped, 80u);
}

TEST(Corruption, WithoutChecksumsItWouldShow) {
  const Outcome undisturbed = RunWith({}, false, 1);
  const Outcome run = RunWith({30, 130, 330}, false, 1);
  EXPECT_FALSE(run.results == undisturbed.results);
}

}  // namespace
}  // namespace shoal
