#include "scheduler/insight/job_pages.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/insight/page_room.h"

namespace shoal::scheduler {
namespace {

// The lists of a job, in the order in which pages have them. A slow rank comes with the rank.
enum class Section : uint8_t { kRanks, kSlowServers, kGroups, kWaitingGroups };
constexpr std::array<const char*, 4> kSectionNames = {"rank", "slow-server", "group", "waiting-group"};

// What comes next.
struct Place {
  JobId job;
  Section section = Section::kRanks;
  uint64_t number = 0;    // of the rank, server or group; all before it has been told
  std::string name = {};  // of the group that waits, likewise
};

// "17", "17/rank/40", "17/waiting-group/world".
std::string TokenOf(const Place& place) {
  const bool is_start = place.section == Section::kRanks && place.number == 0;
  if (is_start) return absl::StrCat(place.job.value());
  const std::string begin =
      absl::StrCat(place.job.value(), "/", kSectionNames[static_cast<size_t>(place.section)], "/");
  return place.section == Section::kWaitingGroups ? begin + place.name : absl::StrCat(begin, place.number);
}

absl::StatusOr<Place> PlaceOf(const std::string& token) {
  if (token.empty()) return Place();
  const std::vector<std::string> parts = absl::StrSplit(token, absl::MaxSplits('/', 2));
  const absl::StatusOr<uint64_t> job = NumberInToken(parts[0], token);
  if (!job.ok()) return job.status();
  Place place = {.job = JobId(*job)};
  if (parts.size() == 1) return place;
  const auto section = std::ranges::find(kSectionNames, parts[1]);
  if (section == kSectionNames.end() || parts.size() != 3) return BadPageToken(token);
  place.section = static_cast<Section>(section - kSectionNames.begin());
  if (place.section == Section::kWaitingGroups) {
    place.name = parts[2];
    return place;
  }
  const absl::StatusOr<uint64_t> number = NumberInToken(parts[2], token);
  if (!number.ok()) return number.status();
  const bool is_rank = place.section == Section::kRanks;
  if (is_rank && *number > std::numeric_limits<uint32_t>::max()) return BadPageToken(token);
  place.number = *number;
  return place;
}

// Puts a job, or what is left of it, on a page as far as there is room. Each function appends one section from `number`
// or `name` on, and returns the place of what has no room; nullopt: all of it had.
class JobPart {
 public:
  // `slot_memory`: by job.
  JobPart(const Job& job, const JobInsight& insight, const ServerRegistry& servers,
          const std::map<JobId, uint64_t>& slot_memory, Now now, PageRoom* room, JobView* view)
      : job_(job),
        insight_(insight),
        servers_(servers),
        slot_memory_(slot_memory),
        now_(now),
        room_(*room),
        view_(*view) {}

  std::optional<Place> AddAll(const Place& from, const GroupRounds* rounds) {
    if (!AddJobAlone()) return from;
    std::optional<Place> next;
    // Of the section where the part begins, what has been told is left out; later ones come from their beginnings.
    const auto number = [&](Section section) { return from.section == section ? from.number : 0; };
    if (from.section <= Section::kRanks) next = AddRanks(number(Section::kRanks));
    if (!next && from.section <= Section::kSlowServers) next = AddSlowServers(number(Section::kSlowServers));
    if (rounds == nullptr) return next;
    if (!next && from.section <= Section::kGroups) next = AddGroups(number(Section::kGroups));
    if (!next) next = AddWaitingGroups(from.name, *rounds);
    return next;
  }

 private:
  bool AddJobAlone() {
    view_.job = job_.id;
    view_.name = job_.name;
    view_.world_size = job_.size();
    view_.min_ranks = job_.min_ranks;
    view_.phase = job_.phase;
    view_.failure = job_.failure;
    view_.load_is_whole = insight_.load.IsWhole(job_);
    view_.started_at_unix_ms = job_.started_at_unix_ms;
    view_.load = insight_.load.sum();
    if (view_.load_is_whole) view_.rates = insight_.load.Rates();
    if (job_.open()) view_.missing_servers = Missing(job_.AwaitedServers());
    view_.load.retained_results = insight_.load.RetainedResults(job_);
    if (const auto memory = slot_memory_.find(job_.id); memory != slot_memory_.end()) {
      view_.slot_memory_bytes = memory->second;
    }
    return room_.Take(MostBytesOfJobAlone(view_));
  }

  std::optional<Place> AddRanks(uint64_t number) {
    const std::vector<SlowRank> slow_ranks = insight_.stragglers.slow_ranks();
    const JobRank first(static_cast<uint32_t>(number));
    auto slow = std::ranges::lower_bound(slow_ranks, first, {}, &SlowRank::rank);
    for (auto it = job_.workers.lower_bound(first); it != job_.workers.end(); ++it) {
      const auto& [rank, worker] = *it;
      RankView view = {.rank = rank,
                       .state = worker.state,
                       .last_heartbeat_age_ms = (now_.monotonic_ns - worker.last_heartbeat_ns) / kNsPerMs,
                       .load = {}};
      if (const RankLoad* const known = insight_.load.Find(rank, worker.state); known != nullptr) {
        view.load = known->load;
        if (worker.state.phase == MemberPhase::kLive) view.rates = known->growth.Rates();
      }
      const bool is_slow = slow != slow_ranks.end() && slow->rank == rank;
      if (!room_.Take(MostBytes(view) + (is_slow ? MostBytes(*slow) : 0))) return Next(Section::kRanks, rank.value());
      view_.ranks.push_back(std::move(view));
      if (is_slow) view_.slow_ranks.push_back(*slow++);
    }
    return std::nullopt;
  }

  std::optional<Place> AddSlowServers(uint64_t number) {
    for (const SlowServer& slow : insight_.stragglers.slow_servers()) {
      if (slow.server < ServerId(number)) continue;
      if (!room_.Take(MostBytes(slow))) return Next(Section::kSlowServers, slow.server.value());
      view_.slow_servers.push_back(slow);
    }
    return std::nullopt;
  }

  std::optional<Place> AddGroups(uint64_t number) {
    const auto& groups = job_.groups.all();
    for (auto it = groups.lower_bound(GroupId(number)); it != groups.end(); ++it) {
      GroupView view = {.state = it->second.state(), .open = true, .missing_ranks = {}};
      if (!room_.Take(MostBytes(view))) return Next(Section::kGroups, it->first.value());
      view_.groups.push_back(std::move(view));
    }
    return std::nullopt;
  }

  std::optional<Place> AddWaitingGroups(const std::string& name, const GroupRounds& rounds) {
    const auto& all = rounds.rounds();
    for (auto it = all.lower_bound({job_.id, name}); it != all.end() && it->first.first == job_.id; ++it) {
      const GroupRound& round = it->second;
      GroupView view = {.state = {}, .open = false, .missing_ranks = round.MissingRanks()};
      view.state.name = round.name;
      view.state.ranks = round.ranks;
      view.state.max_chunk_bytes = round.max_chunk_bytes;
      view.state.wire = round.wire;
      if (view.missing_ranks.empty()) view.missing_servers = Missing(round.MinServers());
      if (!room_.Take(MostBytes(view))) {
        return Place{.job = job_.id, .section = Section::kWaitingGroups, .name = round.name};
      }
      view_.groups.push_back(std::move(view));
    }
    return std::nullopt;
  }

  // nullopt: so many servers are there for the job.
  std::optional<MissingServers> Missing(uint32_t wanted) {
    if (wanted == 0) return std::nullopt;
    if (!registered_.has_value()) registered_ = static_cast<uint32_t>(servers_.ServersOf(job_.id).size());
    if (*registered_ >= wanted) return std::nullopt;
    return MissingServers{.registered = *registered_, .wanted = wanted};
  }

  Place Next(Section section, uint64_t number) const { return {.job = job_.id, .section = section, .number = number}; }

  const Job& job_;
  const JobInsight& insight_;
  const ServerRegistry& servers_;
  const std::map<JobId, uint64_t>& slot_memory_;
  const Now now_;
  PageRoom& room_;
  JobView& view_;
  // Servers that serve the job; nullopt: not counted, as nobody asked for that yet.
  std::optional<uint32_t> registered_;
};

}  // namespace

absl::StatusOr<JobsPage> PageOfJobs(const ListJobs& request, const SchedulerMachine& membership,
                                    const JobInsights& insights, const ServerLoads& loads, Now now) {
  const JobRegistry& jobs = membership.jobs();
  const ServerRegistry& servers = membership.servers();
  if (!request.name.empty() && jobs.FindByName(request.name) == nullptr) return jobs.NoneNamed(request.name);
  const absl::StatusOr<Place> from = PlaceOf(request.page_token);
  if (!from.ok()) return from.status();
  const std::map<JobId, uint64_t> slot_memory = loads.SlotMemoryByJob(servers);
  JobsPage page;
  PageRoom room;
  for (auto it = jobs.jobs().lower_bound(from->job); it != jobs.jobs().end(); ++it) {
    const auto& [id, job] = *it;
    if (!request.name.empty() && job.name != request.name) continue;
    const Place start = id == from->job ? *from : Place{.job = id};
    const bool is_full = request.page_size != 0 && page.jobs.size() == request.page_size;
    std::optional<Place> next = start;
    if (!is_full) {
      JobView view;
      next = JobPart(job, insights.Of(id), servers, slot_memory, now, &room, &view)
                 .AddAll(start, request.without_groups ? nullptr : &membership.rounds());
      if (!next.has_value() || page.jobs.empty()) {
        page.jobs.push_back(std::move(view));
      } else {
        next = start;  // perhaps the next page has room for all of it
      }
    }
    if (next.has_value()) {
      page.next_page_token = TokenOf(*next);
      break;
    }
  }
  return page;
}

}  // namespace shoal::scheduler
