#include "server/thread/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

constexpr int kMaxCpus = 8192;
constexpr int kMaxNodes = 1024;

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The kernel's lists of numbers, such as "0-3,8"; empty for any other text.
std::vector<int> ParseList(const std::string& text, int limit) {
  std::vector<int> numbers;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ',', absl::SkipWhitespace()))) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) ||
        first < 0 || last < first || last >= limit) {
      return {};
    }
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::vector<MemoryNode> ReadNodes(const std::string& sysfs, const std::vector<int>& allowed_cpus) {
  std::vector<MemoryNode> nodes;
  const std::string folder = absl::StrCat(sysfs, "/devices/system/node");
  for (const int number : ParseList(ReadLine(absl::StrCat(folder, "/online")), kMaxNodes)) {
    MemoryNode node{.number = number, .cpus = {}};
    for (const int cpu : ParseList(ReadLine(absl::StrCat(folder, "/node", number, "/cpulist")), kMaxCpus)) {
      if (std::find(allowed_cpus.begin(), allowed_cpus.end(), cpu) != allowed_cpus.end()) node.cpus.push_back(cpu);
    }
    // Memory without processors (another kind of memory, or not ours) is no place for a thread.
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

// Negative: not known.
int NodeOfDevice(const std::string& sysfs, const std::string& device) {
  for (const char* kind : {"net", "infiniband"}) {
    int node = -1;
    const std::string line = ReadLine(absl::StrCat(sysfs, "/class/", kind, "/", device, "/device/numa_node"));
    if (absl::SimpleAtoi(line, &node)) return node;
  }
  return -1;
}

}  // namespace

MemoryNodes MemoryNodes::Read(const std::string& sysfs, const std::string& net_device,
                              const std::vector<int>& allowed_cpus) {
  MemoryNodes result;
  std::vector<MemoryNode> nodes = ReadNodes(sysfs, allowed_cpus);
  if (nodes.size() < 2) {
    result.description_ = "one memory node: threads and slots stay where the kernel puts them";
    return result;
  }
  const std::string count = absl::StrCat(nodes.size(), " memory nodes: ");
  const std::string device = net_device.substr(0, net_device.find_first_of(":,"));
  // A name with a slash could lead out of sysfs.
  const int of_device = device.empty() || device.find('/') != std::string::npos ? -1 : NodeOfDevice(sysfs, device);
  for (const MemoryNode& node : nodes) {
    if (node.number != of_device) continue;
    result.nodes_ = {node};
    result.description_ =
        absl::StrCat(count, "threads and slots are on memory node ", node.number, ", where ", device, " is");
    return result;
  }
  result.nodes_ = std::move(nodes);
  const std::string numbers = absl::StrJoin(
      result.nodes_, ", ", [](std::string* out, const MemoryNode& node) { absl::StrAppend(out, node.number); });
  result.description_ = absl::StrCat(count, "threads, each with its slots, are on memory nodes ", numbers,
                                     " in turn (the memory node of the network device ", device,
                                     device.empty() ? "" : " ", "is unknown, or not usable by this process)");
  return result;
}

std::optional<MemoryNode> MemoryNodes::PlaceOf(uint32_t thread_index) const {
  if (nodes_.empty()) return std::nullopt;
  return nodes_[thread_index % nodes_.size()];
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  if (set != nullptr && sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

absl::Status MoveThisThread(const MemoryNode& node) {
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  if (set == nullptr) return absl::InternalError("no memory for a set of processors");
  CPU_ZERO_S(bytes, set);
  for (const int cpu : node.cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  const int error = sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("can't move a thread to memory node ", node.number, ": ", strerror(error)));
}

absl::Status PreferNode(std::span<std::byte> memory, const MemoryNode& node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> mask{};
  mask[static_cast<size_t>(node.number / kBits)] |= 1ul << (node.number % kBits);
  // The kernel takes the number of bits plus one.
  if (syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, mask.data(), kMaxNodes + 1, 0) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("can't place slot memory on memory node ", node.number, ": ", strerror(errno)));
}

}  // namespace shoal
