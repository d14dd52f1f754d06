// The kernel's text, compiled for the host: where chunks lie and how long they are, and how its blocks end.
#include "worker/device/copy_kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "reduce/convert.h"

namespace shoal {
namespace {

// Where a block comes to host memory, for a test that holds it there.
struct Gate {
  std::latch reached{1};
  std::latch open{1};
};
Gate* gate = nullptr;

}  // namespace

namespace device {

void Pause() { std::this_thread::yield(); }
void* DeviceMemory(Uint64 address) { return reinterpret_cast<void*>(address); }
void* RegisteredMemory(Uint64 address) {
  if (gate != nullptr) {
    gate->reached.count_down();
    gate->open.wait();
  }
  return reinterpret_cast<void*>(address);
}

}  // namespace device

namespace {

constexpr std::byte kUntouched{0xa5};

device::Uint64 AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

void RunBlock(uint32_t block, device::OpControl* control, std::byte* tensor, uint64_t bytes) {
  device::block_of_this_thread = block;
  device::BlockState state = {};
  device::RunBlock(control, &state, AddressOf(tensor), bytes);
}

// Memory with room around what is copied, which is 16-byte aligned but for an offset.
class Memory {
 public:
  Memory(uint64_t offset, uint64_t bytes)
      : content_((kRoom + offset + bytes + kRoom) / 16 + 1), offset_(offset), bytes_(bytes) {
    std::fill_n(begin(), 16 * content_.size(), kUntouched);
  }
  std::byte* data() { return begin() + kRoom + offset_; }
  bool IsUntouchedAround() {
    const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(begin(), data(), is_untouched) &&
           std::all_of(data() + bytes_, begin() + 16 * content_.size(), is_untouched);
  }

 private:
  static constexpr uint64_t kRoom = 64;
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };

  std::byte* begin() { return reinterpret_cast<std::byte*>(content_.data()); }

  std::vector<Sixteen> content_;
  const uint64_t offset_;
  const uint64_t bytes_;
};

TEST(CopyKernelTest, BytesAreCopiedFromAndToAnyAddress) {
  std::mt19937 random(3);
  for (uint64_t tensor_offset = 0; tensor_offset < 16; ++tensor_offset) {
    for (uint64_t host_offset = 0; host_offset < 16; ++host_offset) {
      for (const uint64_t bytes : {0, 1, 2, 3, 4, 7, 15, 16, 17, 63, 64, 65, 66, 68, 79, 80, 111, 128, 254, 256}) {
        for (const bool to_device : {false, true}) {
          Memory tensor(tensor_offset, bytes);
          Memory host(host_offset, bytes);
          Memory& source = to_device ? host : tensor;
          std::generate_n(source.data(), bytes, [&] { return static_cast<std::byte>(random()); });
          device::CarryOut({.tensor = AddressOf(tensor.data()),
                            .host = AddressOf(host.data()),
                            .count = bytes,
                            .to_device = to_device ? 1u : 0u});
          ASSERT_EQ(std::memcmp(tensor.data(), host.data(), bytes), 0)
              << bytes << " bytes, offsets " << tensor_offset << " and " << host_offset << (to_device ? ", back" : "");
          ASSERT_TRUE(tensor.IsUntouchedAround() && host.IsUntouchedAround()) << bytes;
        }
      }
    }
  }
}

TEST(CopyKernelTest, NumbersOf16BitsHaveTheHostsBitsAtAnyAddressAndOfAnyCount) {
  std::mt19937 random(5);
  for (const WireFormat wire : {WireFormat::kBfloat16, WireFormat::kFloat16}) {
    const WireCodec codec(DataType::kFloat32, wire);
    for (uint64_t tensor_offset = 0; tensor_offset < 16; tensor_offset += 4) {
      for (uint64_t host_offset = 0; host_offset < 16; host_offset += 2) {
        for (uint64_t count = 0; count < 70; ++count) {
          Memory tensor(tensor_offset, 4 * count);
          Memory host(host_offset, 2 * count);
          device::CopyCommand command{
              .tensor = AddressOf(tensor.data()),
              .host = AddressOf(host.data()),
              .count = count,
              .type = wire == WireFormat::kBfloat16 ? device::CopyType::kBfloat16 : device::CopyType::kFloat16};
          std::generate_n(tensor.data(), 4 * count, [&] { return static_cast<std::byte>(random()); });
          std::vector<std::byte> expected(4 * count);
          Encode(codec, tensor.data(), expected.data(), count);
          device::CarryOut(command);
          ASSERT_EQ(std::memcmp(host.data(), expected.data(), 2 * count), 0)
              << count << " numbers, offsets " << tensor_offset << " and " << host_offset;

          std::generate_n(host.data(), 2 * count, [&] { return static_cast<std::byte>(random()); });
          Decode(codec, host.data(), expected.data(), count);
          command.to_device = 1;
          device::CarryOut(command);
          ASSERT_EQ(std::memcmp(tensor.data(), expected.data(), 4 * count), 0)
              << count << " numbers back, offsets " << tensor_offset << " and " << host_offset;
          ASSERT_TRUE(tensor.IsUntouchedAround() && host.IsUntouchedAround()) << count;
        }
      }
    }
  }
}

TEST(CopyKernelTest, ATensorIsFilledAsAWholeAlsoIfABlockWasCopyingWhenItsOpFailed) {
  std::vector<std::byte> tensor(10'000, std::byte{1});
  const std::vector<std::byte> result(tensor.size(), std::byte{2});
  device::OpControl control = {};
  control.commands[0] = {
      .tensor = AddressOf(tensor.data()), .host = AddressOf(result.data()), .count = result.size(), .to_device = 1};
  control.published = 1;
  Gate in_the_copy;
  gate = &in_the_copy;
  std::vector<std::thread> blocks;
  for (uint32_t block = 0; block < device::kBlocks; ++block) {
    blocks.emplace_back([&, block] { RunBlock(block, &control, tensor.data(), tensor.size()); });
  }
  in_the_copy.reached.wait();
  device::StoreRelease(&control.end, static_cast<device::Uint64>(device::OpEnd::kFailed));
  // The other blocks come to their end meanwhile.
  for (uint32_t block = 1; block < device::kBlocks; ++block) blocks[block].join();
  in_the_copy.open.count_down();
  blocks[0].join();
  gate = nullptr;
  EXPECT_EQ(std::ranges::count(tensor, std::byte{0xff}), std::ssize(tensor));
}

// A device may have room for the next block only when one has ended.
TEST(CopyKernelTest, NoBlockOfAFailedOpWaitsForAnother) {
  for (const uint64_t offset : {0, 4}) {
    Memory tensor(offset, 10'001);
    device::OpControl control = {.end = static_cast<device::Uint64>(device::OpEnd::kFailed)};
    for (uint32_t block = 0; block < device::kBlocks; ++block) RunBlock(block, &control, tensor.data(), 10'001);
    EXPECT_EQ(std::count(tensor.data(), tensor.data() + 10'001, std::byte{0xff}), 10'001);
    EXPECT_TRUE(tensor.IsUntouchedAround());
    for (const device::Uint64& exited : control.exited) EXPECT_EQ(exited, 1u);
  }
}

}  // namespace
}  // namespace shoal
