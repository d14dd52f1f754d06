// What a DeviceComm's ranks have after Reduce and Gather.
#include "worker/device/device_comm.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/device/device_comm_ranks.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum,
                             ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
                               DataType::kInt8,    DataType::kInt32,   DataType::kInt64,   DataType::kUint8};

class DeviceCommSums : public DeviceCommTest, public testing::WithParamInterface<uint32_t> {};

INSTANTIATE_TEST_SUITE_P(OfSize, DeviceCommSums, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

TEST_P(DeviceCommSums, EachRankHasTheSumOfItsPartAndThenThoseOfAll) {
  const uint32_t size = GetParam();
  // Equal parts, unequal ones, and empty ones.
  const uint64_t counts[] = {64ull * size, 64ull * size - 1, 5};
  WithRanks(size, [&](Rank* rank, uint32_t number) {
    for (const uint64_t count : counts) {
      for (const DataType dtype : kTypes) {
        for (const ReduceOp op : kOps) {
          if (CanReduce(dtype, op)) ReduceAndGather(rank, number, size, count, dtype, op);
        }
      }
    }
  });
}

TEST_P(DeviceCommSums, TensorsOfAnyLength) {
  const uint32_t size = GetParam();
  WithRanks(size, [&](Rank* rank, uint32_t number) {
    for (const uint64_t count : {0, 1, 63, 64, 65, 1000, 12'800, 40'000, 98'304}) {
      ReduceAndGather(rank, number, size, count, DataType::kFloat32, ReduceOp::kSum);
    }
  });
}

TEST_P(DeviceCommSums, EachFactorIsItsOwn) {
  const uint32_t size = GetParam();
  WithRanks(size, [&](Rank* rank, uint32_t /*number*/) {
    std::byte* const tensor = rank->Allocate(400);
    for (const double factor : {1.0, 2.0, 2.0, -0.5, 1.0}) {
      rank->Write(tensor, BytesOf(DataType::kFloat32, std::vector<double>(100, 3.0)));
      ASSERT_TRUE(
          rank->comm().Reduce(rank->stream(), tensor, 100, DataType::kFloat32, ReduceOp::kPremulSum, factor).ok());
      ASSERT_TRUE(rank->comm().Gather(rank->stream(), tensor, 100, DataType::kFloat32).ok());
      ASSERT_EQ(rank->Read(tensor, 400),
                BytesOf(DataType::kFloat32, std::vector<double>(100, 3 * factor * static_cast<double>(size))));
    }
  });
}

// Of groups whose ops take turns in two streams.
TEST_P(DeviceCommSums, WorkBehindItInTheStreamSeesTheResult) {
  const uint32_t size = GetParam();
  constexpr int kOpsInFlight = 6;
  constexpr uint64_t kCount = 1000;
  WithRanks(size, [&](Rank* rank, uint32_t /*number*/) {
    void* const streams[] = {rank->program().MakeStream(), rank->program().MakeStream()};
    std::vector<std::byte*> tensors;
    for (int op = 0; op < kOpsInFlight; ++op) {
      tensors.push_back(rank->Allocate(4 * kCount));
      void* const stream = streams[op % 2];
      auto* const cuda_stream = static_cast<cuda::Stream>(stream);
      rank->program().Fill(stream, tensors[op], kCount, static_cast<float>(op));
      ASSERT_TRUE(rank->comm().Reduce(cuda_stream, tensors[op], kCount, DataType::kFloat32, ReduceOp::kSum, 1).ok());
      ASSERT_TRUE(rank->comm().Gather(cuda_stream, tensors[op], kCount, DataType::kFloat32).ok());
      rank->program().Scale(stream, tensors[op], kCount, 2);
    }
    for (int op = 0; op < kOpsInFlight; ++op) {
      const std::vector<float> result = rank->program().Read(streams[op % 2], tensors[op], kCount);
      for (uint64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(result[i], 2 * static_cast<float>(size) * static_cast<float>(op + static_cast<int>(i % 251)));
      }
    }
  });
}

// ---- what NCCL has not ----

TEST_F(DeviceCommTest, SaysWhichTypesNcclLacks) {
  for (const DataType dtype : kTypes) EXPECT_TRUE(DeviceComm::CheckReduces(dtype).ok());
  const absl::Status status = DeviceComm::CheckReduces(DataType::kInt16);
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(status.message(), HasSubstr("int16"));
  EXPECT_THAT(status.message(), HasSubstr("SHOAL_NODE_REDUCE=off"));
  WithRanks(1, [&](Rank* rank, uint32_t /*number*/) {
    std::byte* const tensor = rank->Allocate(200);
    EXPECT_EQ(rank->comm().Reduce(rank->stream(), tensor, 100, DataType::kInt16, ReduceOp::kSum, 1), status);
    EXPECT_EQ(rank->comm().Gather(rank->stream(), tensor, 100, DataType::kInt16), status);
  });
}

TEST_F(DeviceCommTest, SaysWhatIsMissing) {
  const auto no_library = nccl::Api::Load("libno-such-nccl.so.2");
  EXPECT_TRUE(absl::IsNotFound(no_library.status()));
  EXPECT_THAT(no_library.status().message(), HasSubstr("libno-such-nccl.so.2"));
  EXPECT_THAT(no_library.status().message(), HasSubstr("SHOAL_NCCL_LIBRARY"));
  const auto another_library = nccl::Api::Load("libm.so.6");
  EXPECT_TRUE(absl::IsNotFound(another_library.status()));
  EXPECT_THAT(another_library.status().message(), HasSubstr("libm.so.6 has no function ncclGetVersion"));
}

// ---- processes ----

TEST_F(DeviceCommTest, RanksAreProcessesToo) {
  const nccl::UniqueId id = MakeId();
  std::string text;
  for (const char byte : id.bytes) text += std::to_string(static_cast<int>(byte)) + ' ';
  constexpr uint32_t kSize = 3;
  std::vector<std::unique_ptr<OtherProcess>> processes;
  setenv("DEVICE_COMM_TEST_ID", text.c_str(), 1);
  for (uint32_t number = 0; number < kSize; ++number) {
    setenv("DEVICE_COMM_TEST_RANK", std::to_string(number).c_str(), 1);
    processes.push_back(std::make_unique<OtherProcess>("OneOfThree"));
  }
  for (const auto& process : processes) EXPECT_TRUE(process->EndsWell());
}

// Run by the test above, in a process of its own.
TEST(DeviceCommProcess, DISABLED_OneOfThree) {
  LoadNccl();
  nccl::UniqueId id;
  const char* text = std::getenv("DEVICE_COMM_TEST_ID");
  ASSERT_NE(text, nullptr);
  for (char& byte : id.bytes) {
    char* end = nullptr;
    byte = static_cast<char>(std::strtol(text, &end, 10));
    text = end;
  }
  const auto number = static_cast<uint32_t>(std::strtoul(std::getenv("DEVICE_COMM_TEST_RANK"), nullptr, 10));
  Rank rank(id, number, 3);
  for (const uint64_t count : {192, 1000, 50'000}) {
    ReduceAndGather(&rank, number, 3, count, DataType::kFloat32, ReduceOp::kSum);
  }
}

}  // namespace
}  // namespace shoal
