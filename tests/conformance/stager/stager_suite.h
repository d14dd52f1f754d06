// The rules of worker/device/stager.h, for every implementation.
//
// An implementation gives a Harness:
//   Stager& stager(); StagingArena arena as shared_ptr arena();
//   std::byte* MakeTensor(const void* content, uint64_t bytes)   an address as copies take it
//   std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes)   as the device sees it when the op has ended
//   void StartOp(uint64_t ticket, std::byte* tensor, uint64_t bytes)   copies of its ticket may be started
//   static constexpr bool kFillsFailed   whether an op that fails fills its tensor
//   static constexpr bool kCopiesInStart   whether a copy is over when Start returns
#ifndef SHOAL_TESTS_CONFORMANCE_STAGER_STAGER_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_STAGER_STAGER_SUITE_H_

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "worker/device/stager.h"

namespace shoal {

// The part of a harness whose device is the host's memory.
class HostTensors {
 public:
  static constexpr bool kFillsFailed = false;

  std::byte* MakeTensor(const void* content, uint64_t bytes) {
    // Aligned for every type.
    tensors_.push_back(std::make_unique<std::vector<uint64_t>>(bytes / 8 + 1));
    std::memcpy(tensors_.back()->data(), content, bytes);
    return reinterpret_cast<std::byte*>(tensors_.back()->data());
  }
  std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes) { return {tensor, tensor + bytes}; }
  void StartOp(uint64_t /*ticket*/, std::byte* /*tensor*/, uint64_t /*bytes*/, uint16_t /*group*/ = 0) {}

 private:
  std::vector<std::unique_ptr<std::vector<uint64_t>>> tensors_;
};

template <typename Harness>
class StagerSuite : public ::testing::Test {
 protected:
  static constexpr uint32_t kPlaceBytes = 64 << 10;

  Harness harness_;

  std::shared_ptr<StagingMemory> Places(uint32_t count) {
    return StagingMemory::Allocate(count, kPlaceBytes, harness_.arena()).value();
  }

  static DeviceCopy Copy(uint64_t ticket, DeviceCopyKind kind, std::byte* tensor,
                         const std::shared_ptr<StagingMemory>& memory, uint32_t place, uint64_t elements) {
    return {.token = {.kind = kind, .cell = static_cast<uint16_t>(place), .op = OpNumber(ticket)},
            .ticket = ticket,
            .tensor = tensor,
            .staging = memory,
            .place = memory->Place(place),
            .elements = elements};
  }

  // The ends of `count` copies, by cell.
  std::map<uint16_t, absl::Status> Ends(size_t count) {
    std::map<uint16_t, absl::Status> ends;
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ends.size() < count && std::chrono::steady_clock::now() < give_up_at) {
      for (const DeviceCopyEnded& ended : harness_.stager().Poll()) {
        EXPECT_TRUE(ends.emplace(ended.token.cell, ended.status).second) << "S1: it ended twice";
      }
      EXPECT_TRUE(ends.size() >= count || harness_.stager().PollWithinNs() < kNsPerS) << "nobody would look again";
      std::this_thread::yield();
    }
    EXPECT_EQ(ends.size(), count);
    return ends;
  }

  static std::vector<std::byte> Random(uint64_t bytes, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> content(bytes);
    for (std::byte& byte : content) byte = static_cast<std::byte>(random());
    return content;
  }
};

TYPED_TEST_SUITE_P(StagerSuite);

TYPED_TEST_P(StagerSuite, S1EveryCopyEndsOnceAndS2HasMovedEveryByte) {
  constexpr uint32_t kChunks = 200;  // more than are under way at a time
  constexpr uint64_t kElements = 3001;
  const auto content = this->Random(kChunks * kElements * 4, 7);
  std::byte* const tensor = this->harness_.MakeTensor(content.data(), content.size());
  this->harness_.StartOp(1, tensor, content.size());
  const auto places = this->Places(kChunks);
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    this->harness_.stager().Start(
        this->Copy(1, DeviceCopyKind::kContribution, tensor + chunk * kElements * 4, places, chunk, kElements));
  }
  for (const auto& [cell, status] : this->Ends(kChunks)) EXPECT_TRUE(status.ok()) << status;
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    ASSERT_EQ(std::memcmp(places->Place(chunk), content.data() + chunk * kElements * 4, kElements * 4), 0) << chunk;
  }
  // And back, to other chunks.
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    const uint32_t target = kChunks - 1 - chunk;
    this->harness_.stager().Start(
        this->Copy(1, DeviceCopyKind::kResult, tensor + target * kElements * 4, places, chunk, kElements));
  }
  for (const auto& [cell, status] : this->Ends(kChunks)) EXPECT_TRUE(status.ok()) << status;
  this->harness_.stager().EndOp(1, /*well=*/true);
  const std::vector<std::byte> after = this->harness_.Read(tensor, content.size());
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    const uint32_t source = kChunks - 1 - chunk;
    ASSERT_EQ(std::memcmp(after.data() + chunk * kElements * 4, content.data() + source * kElements * 4, kElements * 4),
              0);
  }
  EXPECT_EQ(this->harness_.stager().PollWithinNs(), kNoDeadline);
}

TYPED_TEST_P(StagerSuite, S2ChunksLieWhereverTheirTypeAllows) {
  const auto content = this->Random(40'000, 3);
  std::byte* const tensor = this->harness_.MakeTensor(content.data(), content.size());
  this->harness_.StartOp(1, tensor, content.size());
  const auto places = this->Places(8);
  uint32_t place = 0;
  std::vector<std::pair<uint64_t, uint64_t>> pieces;  // offset, bytes
  for (const auto& [type, offset, elements] : {std::tuple{DataType::kInt8, uint64_t{1}, uint64_t{1}},
                                               {DataType::kInt8, 3, 4097},
                                               {DataType::kFloat16, 6, 2999},
                                               {DataType::kFloat32, 4, 777},
                                               {DataType::kFloat64, 8, 513},
                                               {DataType::kFloat32, 16, 1024},
                                               {DataType::kInt8, 16, 1027},
                                               {DataType::kInt64, 32, 4000}}) {
    DeviceCopy copy = this->Copy(1, DeviceCopyKind::kContribution, tensor + offset, places, place++, elements);
    copy.codec = WireCodec(type);
    pieces.emplace_back(offset, elements * DataTypeSize(type));
    this->harness_.stager().Start(std::move(copy));
  }
  for (const auto& [cell, status] : this->Ends(8)) EXPECT_TRUE(status.ok()) << status;
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::memcmp(places->Place(i), content.data() + pieces[i].first, pieces[i].second), 0) << i;
  }
  this->harness_.stager().EndOp(1, true);
}

TYPED_TEST_P(StagerSuite, S2NumbersOf16BitsHaveTheBitsOfTheHostsKernels) {
  // Every 16-bit number, and float32 numbers around every place where rounding changes.
  constexpr uint64_t kNumbers = 1 << 16;
  constexpr uint64_t kChunk = 1 << 14;
  for (const WireFormat wire : {WireFormat::kBfloat16, WireFormat::kFloat16}) {
    const WireCodec codec(DataType::kFloat32, wire);
    std::vector<uint32_t> numbers(kNumbers);
    std::mt19937 random(11);
    for (uint32_t i = 0; i < kNumbers; ++i) {
      const uint32_t high = i << 16;
      const uint32_t low[] = {
          0, 1, 0x7fff, 0x8000, 0x8001, 0x1000, 0x0fff, 0x3001, static_cast<uint32_t>(random() & 0xffff)};
      numbers[i] = high | low[random() % std::size(low)];
    }
    std::vector<uint16_t> encoded(kNumbers);
    Encode(codec, reinterpret_cast<const std::byte*>(numbers.data()), reinterpret_cast<std::byte*>(encoded.data()),
           kNumbers);
    std::vector<uint16_t> all(kNumbers);
    for (uint32_t i = 0; i < kNumbers; ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<uint32_t> decoded(kNumbers);
    Decode(codec, reinterpret_cast<const std::byte*>(all.data()), reinterpret_cast<std::byte*>(decoded.data()),
           kNumbers);

    const uint64_t ticket = static_cast<uint64_t>(wire);
    std::byte* const tensor = this->harness_.MakeTensor(numbers.data(), 4 * kNumbers);
    this->harness_.StartOp(ticket, tensor, 4 * kNumbers);
    const auto places = this->Places(4);
    const auto copy_all = [&](DeviceCopyKind kind) {
      for (uint32_t chunk = 0; chunk < 4; ++chunk) {
        DeviceCopy copy = this->Copy(ticket, kind, tensor + 4 * chunk * kChunk, places, chunk, kChunk);
        copy.codec = codec;
        this->harness_.stager().Start(std::move(copy));
      }
      for (const auto& [cell, status] : this->Ends(4)) EXPECT_TRUE(status.ok()) << status;
    };
    copy_all(DeviceCopyKind::kContribution);
    for (uint32_t chunk = 0; chunk < 4; ++chunk) {
      EXPECT_EQ(std::memcmp(places->Place(chunk), encoded.data() + chunk * kChunk, 2 * kChunk), 0);
      std::memcpy(places->Place(chunk), all.data() + chunk * kChunk, 2 * kChunk);
    }
    copy_all(DeviceCopyKind::kResult);
    this->harness_.stager().EndOp(ticket, true);
    const std::vector<std::byte> after = this->harness_.Read(tensor, 4 * kNumbers);
    EXPECT_EQ(std::memcmp(after.data(), decoded.data(), 4 * kNumbers), 0);
  }
}

TYPED_TEST_P(StagerSuite, OpsDoNotWaitForEachOther) {
  const auto content = this->Random(4096, 5);
  const auto places = this->Places(3);
  std::byte* tensors[3];
  for (uint64_t op = 0; op < 3; ++op) {
    tensors[op] = this->harness_.MakeTensor(content.data(), content.size());
    // Of three groups: of one group the third op's turn comes when the first has ended.
    this->harness_.StartOp(op + 1, tensors[op], content.size(), static_cast<uint16_t>(op));
  }
  for (const uint64_t op : {2, 0, 1}) {
    this->harness_.stager().Start(
        this->Copy(op + 1, DeviceCopyKind::kContribution, tensors[op], places, static_cast<uint32_t>(op), 1024));
    EXPECT_TRUE(this->Ends(1).begin()->second.ok());
  }
  for (const uint64_t op : {1, 2, 0}) this->harness_.stager().EndOp(op + 1, true);
}

TYPED_TEST_P(StagerSuite, S4APlaceIsKeptWhileItsCopyIsUnderWay) {
  const auto content = this->Random(4096, 5);
  std::byte* const tensor = this->harness_.MakeTensor(content.data(), content.size());
  this->harness_.StartOp(1, tensor, content.size());
  auto places = this->Places(1);
  const std::weak_ptr<StagingMemory> watched = places;
  this->harness_.stager().Start(this->Copy(1, DeviceCopyKind::kContribution, tensor, places, 0, 1024));
  places.reset();
  EXPECT_EQ(watched.expired(), TypeParam::kCopiesInStart);
  this->Ends(1);
  EXPECT_TRUE(watched.expired());
  this->harness_.stager().EndOp(1, true);
}

TYPED_TEST_P(StagerSuite, AnOpThatFailsLeavesOnesInItsTensor) {
  if constexpr (TypeParam::kFillsFailed) {
    const auto content = this->Random(10'001, 5);
    std::byte* const tensor = this->harness_.MakeTensor(content.data(), content.size());
    this->harness_.StartOp(1, tensor, content.size());
    this->harness_.stager().EndOp(1, /*well=*/false);
    const std::vector<std::byte> after = this->harness_.Read(tensor, content.size());
    EXPECT_EQ(after, std::vector<std::byte>(content.size(), std::byte{0xff}));
  }
}

REGISTER_TYPED_TEST_SUITE_P(StagerSuite, S1EveryCopyEndsOnceAndS2HasMovedEveryByte, S2ChunksLieWhereverTheirTypeAllows,
                            S2NumbersOf16BitsHaveTheBitsOfTheHostsKernels, OpsDoNotWaitForEachOther,
                            S4APlaceIsKeptWhileItsCopyIsUnderWay, AnOpThatFailsLeavesOnesInItsTensor);

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_STAGER_STAGER_SUITE_H_
