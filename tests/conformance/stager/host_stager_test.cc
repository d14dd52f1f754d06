#include "worker/device/host_stager.h"

#include "tests/conformance/stager/stager_suite.h"

namespace shoal {
namespace {

class HostHarness : public HostTensors {
 public:
  static constexpr bool kCopiesInStart = true;

  Stager& stager() { return stager_; }
  std::shared_ptr<StagingArena> arena() { return nullptr; }

 private:
  HostStager stager_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, StagerSuite, HostHarness);

}  // namespace
}  // namespace shoal
