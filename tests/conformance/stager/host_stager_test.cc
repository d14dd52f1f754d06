#include "worker/device/host_stager.h"

#include "tests/conformance/stager/stager_suite.h"

namespace shoal {
namespace {

class HostHarness {
 public:
  static constexpr bool kFillsFailed = false;

  Stager& stager() { return stager_; }
  std::shared_ptr<StagingArena> arena() { return nullptr; }
  std::byte* MakeTensor(const void* content, uint64_t bytes) {
    // Aligned for every type.
    tensors_.push_back(std::make_unique<std::vector<uint64_t>>(bytes / 8 + 1));
    std::memcpy(tensors_.back()->data(), content, bytes);
    return reinterpret_cast<std::byte*>(tensors_.back()->data());
  }
  std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes) { return {tensor, tensor + bytes}; }
  void StartOp(uint64_t /*ticket*/, std::byte* /*tensor*/, uint64_t /*bytes*/, uint16_t /*group*/ = 0) {}

 private:
  HostStager stager_;
  std::vector<std::unique_ptr<std::vector<uint64_t>>> tensors_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, StagerSuite, HostHarness);

}  // namespace
}  // namespace shoal
