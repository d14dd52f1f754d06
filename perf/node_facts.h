// The node that measures: a result without it means nothing.
#ifndef SHOAL_PERF_NODE_FACTS_H_
#define SHOAL_PERF_NODE_FACTS_H_

#include <cstdint>
#include <string>

namespace shoal {

struct NodeFacts {
  std::string node_name;
  std::string cpu_model;
  uint32_t cpu_count = 0;  // that this process may use
  std::string kernel;
  std::string architecture;
  uint64_t memory_bytes = 0;
  double load_average_1min = 0;
};

// Fields that can't be found out stay empty or 0. Any thread.
NodeFacts GatherNodeFacts();

// The time now in UTC, as in 2026-01-31T12:00:00Z.
std::string TimeNowText();

}  // namespace shoal

#endif  // SHOAL_PERF_NODE_FACTS_H_
