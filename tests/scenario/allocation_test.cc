// That neither loop allocates memory for a chunk: after a warm-up, no call of operator new between the first and the
// last chunks of a large op. What the loopback network allocates inside is not counted; it is for tests only.
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "net/forwarding_transport.h"
#include "tests/scenario/cluster.h"

namespace {

bool counting = false;
uint64_t allocations = 0;

void* CountedAllocation(std::size_t size) {
  if (counting) ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return CountedAllocation(size); }
void* operator new[](std::size_t size) { return CountedAllocation(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace shoal {
namespace {

class Pause {
 public:
  Pause() : saved_(std::exchange(counting, false)) {}
  ~Pause() { counting = saved_; }

 private:
  bool saved_;
};

class UncountedTransport : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  absl::StatusOr<PeerId> Connect(const std::string& address) override {
    const Pause pause;
    return below()->Connect(address);
  }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override {
    const Pause pause;
    return below()->SendNote(peer, note);
  }
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    const Pause pause;
    return below()->Send(peer, header, payload, token);
  }
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override {
    const Pause pause;
    return below()->Accept(offer, buffer, token);
  }
  void Decline(OfferId offer) override {
    const Pause pause;
    below()->Decline(offer);
  }
  void Close(PeerId peer) override {
    const Pause pause;
    below()->Close(peer);
  }
  std::span<const TransportEvent> Poll() override {
    const Pause pause;
    return below()->Poll();
  }
};

TEST(Allocation, TheCounterCounts) {
  counting = true;
  const auto number = std::make_unique<int>(3);
  counting = false;
  EXPECT_EQ(allocations, 1u) << *number;
}

void ExpectNoneForAChunk(WireFormat wire) {
  // About 3900 chunks of 1 KiB.
  const uint64_t elements = WireCodec(DataType::kFloat32, wire).ElementsIn(4'000'000);
  ClusterOptions options{.workers = 3, .servers = 2, .wire = wire};
  options.wrap = [](std::unique_ptr<Transport> inner) {
    return std::make_unique<UncountedTransport>(std::move(inner));
  };
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<std::byte>> tensors(3, std::vector<std::byte>(4 * elements));
  const auto submit = [&](uint64_t ticket) {
    for (uint32_t w = 0; w < 3; ++w) cluster.Submit(w, 0, ticket, tensors[w], DataType::kFloat32, ReduceOp::kSum);
  };
  const auto reduced = [&] {
    const Pause pause;
    return cluster.server_counters(0).chunks_reduced + cluster.server_counters(1).chunks_reduced;
  };
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) {
    submit(ticket);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(ticket, ticket); }));
  }
  submit(4);
  const uint64_t before = reduced();
  ASSERT_TRUE(cluster.RunUntil([&] { return reduced() > before + 400; }));
  allocations = 0;
  counting = true;
  const bool came_far = cluster.RunUntil([&] { return reduced() > before + 3400; });
  counting = false;
  ASSERT_TRUE(came_far);
  EXPECT_EQ(allocations, 0u) << "for 3000 chunks";
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(4, 4); }));
}

TEST(Allocation, NoneForAChunkInEitherLoop) { ExpectNoneForAChunk(WireFormat::kAsIs); }

TEST(Allocation, NoneForAChunkOverA16BitWire) { ExpectNoneForAChunk(WireFormat::kBfloat16); }

TEST(Allocation, NoneForAChunkOfBlocks) {
  ExpectNoneForAChunk(WireFormat::kInt8);
  ExpectNoneForAChunk(WireFormat::kFloat8);
}

}  // namespace
}  // namespace shoal
