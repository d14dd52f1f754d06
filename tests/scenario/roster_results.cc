#include "tests/scenario/roster_results.h"

#include <algorithm>
#include <cstring>

#include "core/partial_op.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

// By element, as a rank tells the scheduler.
std::vector<uint32_t> WrittenDown(const std::vector<PartialOp>& told, uint64_t op, uint32_t workers, size_t elements) {
  uint32_t of_all = workers;
  for (const PartialOp& each : told) {
    if (each.op.value() > op) break;
    if (each.op.value() < op) {
      of_all = each.ranges.size() == 1 ? each.ranges[0].contributors : 0;
      continue;
    }
    std::vector<uint32_t> by_element;
    for (const ContributedRange& range : each.ranges) {
      EXPECT_EQ(range.first, by_element.size());
      by_element.insert(by_element.end(), range.count, range.contributors);
    }
    return by_element;
  }
  return std::vector<uint32_t>(elements, of_all);
}

}  // namespace

void ExpectResultsOfRosters(const Cluster& cluster, uint64_t op, const std::vector<uint32_t>& workers,
                            const std::vector<Bytes>& results, const std::vector<RosterSum>& sums, size_t element_bytes,
                            const std::string& where, SeenRosters* seen) {
  const auto all = static_cast<uint32_t>(results.size());
  const Bytes& result = results[workers.front()];
  const size_t elements = result.size() / element_bytes;
  Contributors found{.least = all, .most = 0};
  std::vector<uint32_t> by_element;  // 0: the sums are the same
  for (size_t i = 0; i < elements; ++i) {
    // Those that differ tell whose contributions an element has.
    uint32_t fits = 0;
    uint32_t contributors = 0;
    for (const RosterSum& each : sums) {
      if (std::memcmp(&result[i * element_bytes], &each.sum[i * element_bytes], element_bytes) != 0) continue;
      ++fits;
      contributors = each.contributors;
    }
    ASSERT_GT(fits, 0u) << where << ", op " << op << ", element " << i << " is of no roster's contributions";
    by_element.push_back(fits > 1 ? 0 : contributors);
    if (fits > 1) continue;
    found.least = std::min(found.least, contributors);
    found.most = std::max(found.most, contributors);
  }
  ++(found.least == all ? seen->whole : found.least < found.most ? seen->mixed : seen->fewer);
  for (const uint32_t w : workers) {
    ASSERT_TRUE(cluster.Done(w, op)->status.ok()) << where << ", worker " << w << ": " << cluster.Done(w, op)->status;
    ASSERT_EQ(results[w], result) << where << ", op " << op << ": worker " << w << " has other bits";
    const Contributors told = cluster.Done(w, op)->contributors;
    ASSERT_EQ(told, found) << where << ", op " << op << ", worker " << w << ": " << told.least << " to " << told.most;
    const std::vector<uint32_t> written = WrittenDown(cluster.worker_counters(w).partial_ops, op + 1, all, elements);
    ASSERT_EQ(written.size(), elements) << where << ", op " << op << ", worker " << w;
    for (size_t i = 0; i < elements; ++i) {
      if (by_element[i] == 0) continue;
      ASSERT_EQ(written[i], by_element[i]) << where << ", op " << op << ", worker " << w << ", element " << i;
    }
  }
}

}  // namespace shoal
