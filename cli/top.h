// `shoalctl top`: servers and jobs with their rates, again and again.
#ifndef SHOAL_CLI_TOP_H_
#define SHOAL_CLI_TOP_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cluster_client.h"
#include "shoal/v1/status.pb.h"

namespace shoal::cli {

// What a scheduler said at one moment.
struct ClusterSample {
  v1::Cluster cluster;
  v1::ListServersResponse servers;
  v1::ListJobsResponse jobs;
  std::chrono::steady_clock::time_point at;
};

// `with_groups`: of the jobs. Errors: those of the calls.
absl::StatusOr<ClusterSample> TakeSample(bool with_groups, ClusterClient* client);

// Counters that come with heartbeats, and their growth per second from one heartbeat to another: the time between two
// looks is another one.
template <size_t kCount>
class GrowthBook {
 public:
  using Key = std::pair<uint64_t, uint64_t>;  // an id and a life
  using Counters = std::array<uint64_t, kCount>;
  using Growth = std::optional<std::array<double, kCount>>;

  // What the counters were at `at_s`, a time that does not go back by more than heartbeats jitter. The growth since the
  // time before, or the last one that is known while they have not come anew; nullopt: not known.
  Growth Note(Key key, double at_s, const Counters& counters) {
    auto [found, is_new] = entries_.try_emplace(key, Entry{at_s, counters, std::nullopt});
    Entry& entry = found->second;
    entry.is_seen = true;
    if (is_new || at_s < entry.at_s + kShortestS) return entry.growth;
    std::array<double, kCount> growth{};
    for (size_t i = 0; i < kCount; ++i) {
      if (counters[i] < entry.counters[i]) {  // counted from zero again
        entry = {at_s, counters, std::nullopt};
        return std::nullopt;
      }
      growth[i] = static_cast<double>(counters[i] - entry.counters[i]) / (at_s - entry.at_s);
    }
    entry = {at_s, counters, growth};
    return growth;
  }
  // The counters are not known, as after a scheduler's restart: what follows begins anew.
  void Forget(Key key) { entries_.erase(key); }
  // Forgets those that were not noted since the last call.
  void DropUnseen() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      entry = std::exchange(entry->second.is_seen, false) ? std::next(entry) : entries_.erase(entry);
    }
  }

 private:
  static constexpr double kShortestS = 0.05;

  struct Entry {
    double at_s;
    Counters counters;
    Growth growth;
    bool is_seen = true;
  };
  std::map<Key, Entry> entries_;
};

// Servers and jobs, with their rates where they are known and "-" elsewhere: of what was not there before, was started
// anew, or has not been heard since the scheduler started. What is gone is left out.
class TopTables {
 public:
  std::string Text(const ClusterSample& sample);

 private:
  std::string Servers(const ClusterSample& sample);
  std::string Jobs(const ClusterSample& sample);

  GrowthBook<3> servers_;
  GrowthBook<4> jobs_;
};

struct TopOptions {
  std::chrono::milliseconds interval{2000};
  uint64_t rounds = 0;               // 0: until `out` fails
  std::ostream* terminal = nullptr;  // that is cleared each time; null: `out` is none
};

// Writes the tables every `interval`, first when two looks have given rates. When the scheduler does not answer it says
// so and goes on. Errors: those of the first calls, and of the last ones if it ends with `rounds`.
absl::Status Top(const TopOptions& options, ClusterClient* client, std::ostream& out);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TOP_H_
