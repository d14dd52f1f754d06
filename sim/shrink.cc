#include "sim/shrink.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/simulation.h"

namespace shoal::sim {
namespace {

// All but the faults [first, first + count).
Profile WithoutFaults(const Profile& profile, size_t first, size_t count) {
  Profile smaller = profile;
  const auto begin = smaller.faults.begin() + static_cast<int64_t>(first);
  smaller.faults.erase(begin, begin + static_cast<int64_t>(count));
  return smaller;
}

void AddWithFewerFaults(const Profile& profile, std::vector<Profile>* smaller) {
  const size_t faults = profile.faults.size();
  for (size_t part = faults; part >= 1; part /= 2) {
    for (size_t first = 0; first < faults; first += part) {
      smaller->push_back(WithoutFaults(profile, first, std::min(part, faults - first)));
    }
  }
}

// Sets a field to a smaller value, if it is not there yet.
template <typename Part, typename Value>
void AddWith(const Profile& profile, Part* (*part_of)(Profile*, size_t), size_t index, Value Part::*field, Value value,
             std::vector<Profile>* smaller) {
  Profile changed = profile;
  Part* const part = part_of(&changed, index);
  if (part->*field == value) return;
  part->*field = value;
  smaller->push_back(std::move(changed));
}

JobProfile* JobOf(Profile* profile, size_t index) { return &profile->jobs[index]; }
NodeLayout* NodesOf(Profile* profile, size_t index) { return &profile->jobs[index].nodes; }
NetworkProfile* NetworkOf(Profile* profile, size_t) { return &profile->network; }
Profile* Itself(Profile* profile, size_t) { return profile; }

void AddWithSmallerJobs(const Profile& profile, std::vector<Profile>* smaller) {
  for (size_t job = 0; job < profile.jobs.size(); ++job) {
    if (profile.jobs.size() > 1) {
      Profile fewer = profile;
      fewer.jobs.erase(fewer.jobs.begin() + static_cast<int64_t>(job));
      smaller->push_back(std::move(fewer));
    }
    const JobProfile& shape = profile.jobs[job];
    // While there are many ops, fewer ranks fail as well.
    AddWith(profile, JobOf, job, &JobProfile::ranks, std::max(shape.ranks / 2, 1u), smaller);
    AddWith(profile, JobOf, job, &JobProfile::ranks, std::max(shape.ranks - 1, 1u), smaller);
    AddWith(profile, JobOf, job, &JobProfile::ops, std::max(shape.ops / 2, 1u), smaller);
    AddWith(profile, JobOf, job, &JobProfile::ops, std::max(shape.ops - 1, 1u), smaller);
    AddWith(profile, JobOf, job, &JobProfile::in_flight, 1u, smaller);
    AddWith(profile, JobOf, job, &JobProfile::subgroup, false, smaller);
    AddWith(profile, JobOf, job, &JobProfile::short_groups, shape.short_groups / 2, smaller);
    AddWith(profile, JobOf, job, &JobProfile::has_colocated_servers, false, smaller);
    AddWith(profile, JobOf, job, &JobProfile::colocates_without_servers, false, smaller);
    AddWith(profile, JobOf, job, &JobProfile::wire, WireFormat::kAsIs, smaller);
    AddWith(profile, JobOf, job, &JobProfile::checksums, false, smaller);
    AddWith(profile, JobOf, job, &JobProfile::has_devices, false, smaller);
    AddWith(profile, JobOf, job, &JobProfile::start_ns, uint64_t{0}, smaller);
    if (shape.is_open()) AddWith(profile, JobOf, job, &JobProfile::meetings, std::max(shape.meetings / 2, 1u), smaller);
    AddWith(profile, JobOf, job, &JobProfile::newcomers, shape.newcomers / 2, smaller);
    AddWith(profile, JobOf, job, &JobProfile::leaves_per_million, 0u, smaller);
    AddWith(profile, JobOf, job, &JobProfile::scales_sums, false, smaller);
    AddWith(profile, NodesOf, job, &NodeLayout::ranks_per_node, 0u, smaller);
    AddWith(profile, NodesOf, job, &NodeLayout::dealt, false, smaller);
  }
}

void AddWithSmallerCluster(const Profile& profile, std::vector<Profile>* smaller) {
  const uint32_t servers = std::max({profile.servers - 1, profile.min_servers, 1u});
  AddWith(profile, Itself, 0, &Profile::servers, servers, smaller);
  AddWith(profile, Itself, 0, &Profile::schedulers, 1u, smaller);
  AddWith(profile, Itself, 0, &Profile::leader_lease_ms, uint64_t{0}, smaller);
  AddWith(profile, Itself, 0, &Profile::io_threads, 1u, smaller);
  AddWith(profile, Itself, 0, &Profile::plans_flow, false, smaller);
  AddWith(profile, Itself, 0, &Profile::port_buffer_bytes, uint64_t{0}, smaller);
  AddWith(profile, Itself, 0, &Profile::clock_drift_per_million, 0u, smaller);
  AddWith(profile, NetworkOf, 0, &NetworkProfile::duplicate_per_million, 0u, smaller);
  AddWith(profile, NetworkOf, 0, &NetworkProfile::lend_per_million, 0u, smaller);
  AddWith(profile, NetworkOf, 0, &NetworkProfile::jitter_ns, uint64_t{0}, smaller);
}

}  // namespace

Shrunk Shrink(const Profile& failing, uint32_t most_runs) {
  Shrunk shrunk{.profile = failing};
  bool smaller_one_fails = true;
  while (smaller_one_fails && shrunk.runs < most_runs) {
    std::vector<Profile> smaller;
    AddWithFewerFaults(shrunk.profile, &smaller);
    AddWithSmallerJobs(shrunk.profile, &smaller);
    AddWithSmallerCluster(shrunk.profile, &smaller);
    smaller_one_fails = false;
    for (Profile& candidate : smaller) {
      if (shrunk.runs == most_runs) break;
      ++shrunk.runs;
      if (Simulate(candidate, 0).failures.empty()) continue;
      shrunk.profile = std::move(candidate);
      smaller_one_fails = true;
      break;
    }
  }
  return shrunk;
}

}  // namespace shoal::sim
