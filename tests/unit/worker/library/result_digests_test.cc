#include "worker/library/result_digests.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

GroupInfo Group(const std::string& name) {
  GroupInfo group;
  group.id = GroupId(13);  // of the rank's rail
  group.whole_group = GroupId(12);
  group.name = name;
  group.job_ranks = {JobRank(0), JobRank(3)};
  return group;
}

HostTensor TensorOf(const std::vector<float>& values, uint64_t op_number) {
  return {.data = reinterpret_cast<const std::byte*>(values.data()),
          .element_count = values.size(),
          .dtype = DataType::kFloat32,
          .op_number = op_number};
}

TEST(ResultDigests, HaveALineForEachResultWhileTheyAreWanted) {
  ResultDigests digests;
  const std::vector<float> values = {1, 2, 3};
  EXPECT_FALSE(digests.is_on());
  digests.Add(Group("ddp"), TensorOf(values, 4));
  digests.Start();
  EXPECT_TRUE(digests.is_on());
  digests.Add(Group("ddp"), TensorOf(values, 5));
  digests.Add(Group("a name\nof lines"), TensorOf(values, 6));
  const std::string text = digests.Stop(1 << 20);
  EXPECT_THAT(text, StartsWith("left_out=0\ngroup=12 ranks=2 op=5 elements=3 dtype=float32 crc64="));
  EXPECT_THAT(text, HasSubstr(" name=ddp\ngroup=12 ranks=2 op=6 "));
  EXPECT_THAT(text, EndsWith(" name=a name?of lines\n"));
  EXPECT_FALSE(digests.is_on());
  digests.Add(Group("ddp"), TensorOf(values, 7));
  EXPECT_EQ(digests.Stop(1 << 20), "left_out=0\n");
}

TEST(ResultDigests, CountOpsOnDevicesOfWhichThereIsNone) {
  ResultDigests digests;
  const std::vector<float> values = {1};
  digests.CountOnDevice();
  digests.Start();
  EXPECT_EQ(digests.Stop(1 << 20), "left_out=0\n") << "before the start";
  digests.Start();
  for (int i = 0; i < 3; ++i) digests.CountOnDevice();
  digests.Add(Group("ddp"), TensorOf(values, 5));
  EXPECT_THAT(digests.Stop(1 << 20), StartsWith("left_out=0\non_devices=3\ngroup=12 ranks=2 op=5 "));
  digests.Start();
  for (int i = 0; i < 3; ++i) digests.CountOnDevice();
  digests.Add(Group("ddp"), TensorOf(values, 5));
  EXPECT_EQ(digests.Stop(30), "left_out=1\non_devices=3\n") << "a line has no room";
}

std::string DigestOf(const std::vector<float>& values) {
  ResultDigests digests;
  digests.Start();
  digests.Add(Group("ddp"), TensorOf(values, 1));
  return digests.Stop(1 << 20);
}

TEST(ResultDigests, TellOneBitFromAnother) {
  std::vector<float> values(100'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.1F;
  std::vector<float> negative_zero = values;
  negative_zero[0] = -values[0];
  EXPECT_EQ(values, negative_zero) << "as numbers they are equal";
  EXPECT_EQ(DigestOf(values), DigestOf(values));
  EXPECT_NE(DigestOf(values), DigestOf(negative_zero));
  std::swap(values[7], values[99'999]);
  EXPECT_NE(DigestOf(values), DigestOf(negative_zero));
}

// The check value of CRC-64/XZ, which is this one (catalogue of parametrised CRC algorithms).
TEST(ResultDigests, AreTheCrcThatTheyAreSaidToBe) {
  const std::string text = "123456789";
  ResultDigests digests;
  digests.Start();
  digests.Add(Group("ddp"), {.data = reinterpret_cast<const std::byte*>(text.data()),
                             .element_count = text.size(),
                             .dtype = DataType::kUint8,
                             .op_number = 1});
  EXPECT_THAT(digests.Stop(1 << 20), HasSubstr("crc64=995dc9bbdf1939fa"));
}

TEST(ResultDigests, KeepTheNewestThatFit) {
  ResultDigests digests;
  const std::vector<float> values = {1};
  digests.Start();
  for (uint64_t op = 1; op <= ResultDigests::kMost + 10; ++op) digests.Add(Group("ddp"), TensorOf(values, op));
  const std::string text = digests.Stop(SIZE_MAX);
  EXPECT_THAT(text, StartsWith("left_out=10\ngroup=12 ranks=2 op=11 "));
  digests.Start();
  for (uint64_t op = 1; op <= 100; ++op) digests.Add(Group("ddp"), TensorOf(values, op));
  const std::string two = digests.Stop(200);
  EXPECT_THAT(two, StartsWith("left_out=98\ngroup=12 ranks=2 op=99 "));
  EXPECT_THAT(two, HasSubstr("\ngroup=12 ranks=2 op=100 "));
}

}  // namespace
}  // namespace shoal
