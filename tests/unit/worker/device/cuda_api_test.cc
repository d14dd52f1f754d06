#include "worker/device/cuda_api.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulated_cuda/program_on_device.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(CudaApi, SaysWhatIsMissing) {
  const auto no_library = cuda::Api::Load("libno-such-driver.so.1");
  EXPECT_TRUE(absl::IsNotFound(no_library.status()));
  EXPECT_THAT(no_library.status().message(), HasSubstr("libno-such-driver.so.1"));
  const auto another_library = cuda::Api::Load("libm.so.6");
  EXPECT_TRUE(absl::IsNotFound(another_library.status()));
  EXPECT_THAT(another_library.status().message(), HasSubstr("libm.so.6 has no function cuInit"));
}

TEST(CudaApi, GivesTheDriversWordsForAnError) {
  const auto api = cuda::Api::Load(CudaLibraryForTests(SHOAL_SIMULATED_CUDA));
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_TRUE((*api)->Check(0, "cuInit").ok());
  EXPECT_EQ((*api)->Check(2, "cuMemAlloc"), absl::InternalError("CUDA: cuMemAlloc: out of memory (2)"));
  EXPECT_EQ((*api)->Check(4711, "cuMemAlloc"), absl::InternalError("CUDA: cuMemAlloc: an unknown error (4711)"));
}

}  // namespace
}  // namespace shoal
