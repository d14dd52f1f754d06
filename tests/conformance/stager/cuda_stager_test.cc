// On the simulated driver (tests/simulated_cuda), or a real one (docs/gpu_checks.md).
#include "worker/device/cuda_stager.h"

#include <atomic>

#include "tests/conformance/stager/stager_suite.h"
#include "tests/simulated_cuda/program_on_device.h"

namespace shoal {
namespace {

class CudaHarness {
 public:
  static constexpr bool kFillsFailed = true;
  static constexpr bool kCopiesInStart = false;

  Stager& stager() { return *stager_; }
  std::shared_ptr<StagingArena> arena() { return stager_->arena(); }
  std::byte* MakeTensor(const void* content, uint64_t bytes) {
    std::byte* const tensor = program_.Allocate((bytes + 3) / 4 * 4);  // it is read in floats
    program_.Write(stream_, tensor, content, bytes);
    return tensor;
  }
  std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes) {
    for (const std::shared_ptr<DeviceOp>& op : ops_) EXPECT_TRUE(stager_->WaitOnStream(*op, stream_).ok());
    const std::vector<float> content = program_.Read(stream_, tensor, (bytes + 3) / 4);
    const auto* const start = reinterpret_cast<const std::byte*>(content.data());
    return {start, start + bytes};
  }
  void StartOp(uint64_t ticket, std::byte* tensor, uint64_t bytes, uint16_t group = 0) {
    auto op = stager_->Prepare({.ticket = ticket,
                                .group = GroupHandle(group),
                                .group_id = GroupId(group),
                                .stream = stream_,
                                .tensor = tensor,
                                .bytes = bytes});
    ASSERT_TRUE(op.ok()) << op.status();
    std::atomic<bool> ready = false;
    const absl::Status launched = stager_->Launch(*op, [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ready = true;
    });
    ASSERT_TRUE(launched.ok()) << launched;
    while (!ready) std::this_thread::yield();
    ops_.push_back(*op);
  }

 private:
  const std::string library_ = CudaLibraryForTests(SHOAL_SIMULATED_CUDA);
  ProgramOnDevice program_{library_};
  void* stream_ = program_.MakeStream();
  std::unique_ptr<CudaStager> stager_ = CudaStager::Make({.library = library_, .arena_bytes = 32 << 20}).value();
  std::vector<std::shared_ptr<DeviceOp>> ops_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(SimulatedCuda, StagerSuite, CudaHarness);

TEST(CudaStager, WhatADeviceCanNotEncodeIsRefused) {
  CudaHarness harness;
  const std::vector<float> content(64, 1.0f);
  std::byte* const tensor = harness.MakeTensor(content.data(), 256);
  harness.StartOp(1, tensor, 256);
  const auto memory = StagingMemory::Allocate(1, 1024, harness.arena()).value();
  std::memset(memory->Place(0), 0x5a, 1024);
  harness.stager().Start({.token = {.op = OpNumber(1)},
                          .ticket = 1,
                          .tensor = tensor,
                          .staging = memory,
                          .place = memory->Place(0),
                          .elements = 64,
                          .codec = WireCodec(DataType::kFloat32, WireFormat::kFloat8)});
  const std::span<const DeviceCopyEnded> ended = harness.stager().Poll();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(absl::IsUnimplemented(ended[0].status)) << ended[0].status;
  EXPECT_EQ(*memory->Place(0), std::byte{0x5a});
  harness.stager().EndOp(1, true);
}

}  // namespace
}  // namespace shoal
