// Placement on machines with several memory nodes, with a made-up sysfs: this machine may have one node.
#include "server/thread/memory_nodes.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/shm/shared_memory.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MemoryNodesTest : public ::testing::Test {
 protected:
  MemoryNodesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "shoal-sysfs-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    sysfs_ = name;
  }
  ~MemoryNodesTest() override { std::filesystem::remove_all(sysfs_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = sysfs_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void WriteTwoNodes() {
    Write("devices/system/node/online", "0-1");
    Write("devices/system/node/node0/cpulist", "0-1,4");
    Write("devices/system/node/node1/cpulist", "2-3,5");
  }
  MemoryNodes Read(const std::string& device, const std::vector<int>& allowed = {0, 1, 2, 3, 4, 5}) const {
    return MemoryNodes::Read(sysfs_.string(), device, allowed);
  }
  static std::vector<int> NodesOfThreads(const MemoryNodes& nodes) {
    std::vector<int> numbers;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      const std::optional<MemoryNode> place = nodes.PlaceOf(thread);
      numbers.push_back(place.has_value() ? place->number : -1);
    }
    return numbers;
  }

  std::filesystem::path sysfs_;
};

TEST_F(MemoryNodesTest, OnOneNodeNothingHappens) {
  Write("devices/system/node/online", "0");
  Write("devices/system/node/node0/cpulist", "0-5");
  const MemoryNodes nodes = Read("eth0");
  EXPECT_THAT(NodesOfThreads(nodes), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(nodes.description(), HasSubstr("one memory node"));
}

TEST_F(MemoryNodesTest, AKernelThatSaysNothingIsOneNode) {
  EXPECT_THAT(NodesOfThreads(Read("eth0")), ElementsAre(-1, -1, -1, -1));
  Write("devices/system/node/online", "x-1");
  EXPECT_THAT(NodesOfThreads(Read("eth0")), ElementsAre(-1, -1, -1, -1));
  Write("devices/system/node/online", "0-4000000000");
  EXPECT_THAT(NodesOfThreads(Read("eth0")), ElementsAre(-1, -1, -1, -1));
}

TEST_F(MemoryNodesTest, AllThreadsGoWhereTheNetworkDeviceIs) {
  WriteTwoNodes();
  Write("class/net/eth0/device/numa_node", "1");
  const MemoryNodes nodes = Read("eth0");
  EXPECT_THAT(NodesOfThreads(nodes), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(nodes.PlaceOf(0)->cpus, ElementsAre(2, 3, 5));
  EXPECT_THAT(nodes.description(), AllOf(HasSubstr("2 memory nodes"), HasSubstr("node 1, where eth0 is")));
}

TEST_F(MemoryNodesTest, AnRdmaDeviceIsFoundWithoutItsPort) {
  WriteTwoNodes();
  Write("class/infiniband/mlx5_0/device/numa_node", "1");
  EXPECT_THAT(NodesOfThreads(Read("mlx5_0:1")), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(NodesOfThreads(Read("mlx5_0:1,mlx5_1:1")), ElementsAre(1, 1, 1, 1));
}

TEST_F(MemoryNodesTest, ThreadsAreSpreadWhereTheDevicesNodeIsNotKnown) {
  WriteTwoNodes();
  Write("class/net/eth0/device/numa_node", "-1");
  for (const char* device : {"", "eth0", "eth7", "../eth0"}) {
    const MemoryNodes nodes = Read(device);
    EXPECT_THAT(NodesOfThreads(nodes), ElementsAre(0, 1, 0, 1)) << device;
    EXPECT_THAT(nodes.description(), HasSubstr("on memory nodes 0, 1 in turn"));
  }
}

TEST_F(MemoryNodesTest, ProcessorsThatTheProcessMayNotUseAreLeftOut) {
  WriteTwoNodes();
  EXPECT_THAT(Read("", {1, 2, 3}).PlaceOf(0)->cpus, ElementsAre(1));
  EXPECT_THAT(NodesOfThreads(Read("", {2, 3})), ElementsAre(-1, -1, -1, -1)) << "one node is left";
}

TEST_F(MemoryNodesTest, MemoryWithoutProcessorsIsNoPlace) {
  WriteTwoNodes();
  Write("devices/system/node/online", "0-2");
  Write("devices/system/node/node2/cpulist", "");
  EXPECT_THAT(NodesOfThreads(Read("")), ElementsAre(0, 1, 0, 1));
}

// With this machine's own numbers: the calls are made as the kernel wants them.
TEST(MemoryNodesOfThisMachine, ThreadAndMemoryGoToTheFirstNode) {
  const std::vector<int> allowed = AllowedCpus();
  ASSERT_FALSE(allowed.empty());
  const MemoryNode node{.number = 0, .cpus = {allowed.front()}};
  EXPECT_TRUE(MoveThisThread(node).ok());
  EXPECT_THAT(AllowedCpus(), ElementsAre(allowed.front()));
  EXPECT_TRUE(MoveThisThread({.number = 0, .cpus = allowed}).ok());
  EXPECT_EQ(AllowedCpus(), allowed);
  const absl::StatusOr<std::unique_ptr<OwnedMemory>> memory = OwnedMemory::Make("test", 1 << 20);
  ASSERT_TRUE(memory.ok());
  const absl::Status placed = PreferNode((*memory)->bytes(), node);
  // Containers may forbid it; then it must say so.
  EXPECT_TRUE(placed.ok() || absl::StrContains(placed.message(), "memory node 0: ")) << placed;
}

}  // namespace
}  // namespace shoal
