#include "perf/node_facts.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

namespace shoal {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos || colon + 2 > line.size()) continue;
    return line.substr(colon + 2);
  }
  return "";
}

uint32_t UsableCpuCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

NodeFacts GatherNodeFacts() {
  NodeFacts facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts.node_name = names.nodename;
    facts.kernel = std::string(names.sysname) + " " + names.release;
    facts.architecture = names.machine;
  }
  facts.cpu_model = CpuModel();
  facts.cpu_count = UsableCpuCount();
  facts.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  double load = 0;
  if (getloadavg(&load, 1) == 1) facts.load_average_1min = load;
  return facts;
}

std::string TimeNowText() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, length);
}

}  // namespace shoal
