#include "sim/fault_log.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {

namespace {

// "rank-1" is not named by "rank-12".
bool Names(std::string_view text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || text[end] < '0' || text[end] > '9') return true;
  }
  return false;
}

}  // namespace

std::string_view FaultPhaseName(FaultPhase phase) {
  switch (phase) {
    case FaultPhase::kUnnoticed:
      return "unnoticed";
    case FaultPhase::kNoticed:
      return "noticed";
    case FaultPhase::kSettling:
      return "settling";
    case FaultPhase::kGoingOn:
      return "going on";
    case FaultPhase::kHealing:
      return "healing";
  }
  return "unknown";
}

void FaultMeetings::Add(const FaultMeetings& other) {
  for (size_t pair = 0; pair < counts_.size(); ++pair) {
    for (size_t phase = 0; phase < kFaultPhaseCount; ++phase) counts_[pair][phase] += other.counts_[pair][phase];
  }
}

uint64_t FaultMeetings::Of(FaultKind first, FaultKind second) const {
  uint64_t sum = 0;
  for (const uint64_t count : counts_[Index(first, second)]) sum += count;
  return sum;
}

std::map<std::string, std::map<std::string, FaultMeetings::PhaseCounts>> FaultMeetings::Counts() const {
  std::map<std::string, std::map<std::string, PhaseCounts>> counts;
  for (size_t pair = 0; pair < counts_.size(); ++pair) {
    const auto name = [](size_t kind) { return std::string(FaultName(static_cast<FaultKind>(kind))); };
    counts[name(pair / kFaultKindCount)][name(pair % kFaultKindCount)] = counts_[pair];
  }
  return counts;
}

bool FaultLog::PhaseOf(const Begun& fault, uint64_t now_ns, FaultPhase* phase) const {
  const bool lasts = fault.end_ns > fault.begin_ns;
  if (lasts && now_ns >= fault.end_ns) {
    *phase = FaultPhase::kHealing;
    return now_ns < fault.end_ns + healing_ns_;
  }
  *phase = !fault.noticed   ? FaultPhase::kUnnoticed
           : !fault.moved   ? FaultPhase::kNoticed
           : !fault.settled ? FaultPhase::kSettling
                            : FaultPhase::kGoingOn;
  // What is done at once is over when it has had its consequences, or has none.
  return lasts || (!fault.settled && now_ns < fault.end_ns + healing_ns_);
}

void FaultLog::Begin(FaultKind kind, std::vector<std::string> victims, uint64_t now_ns, uint64_t end_ns) {
  for (const Begun& first : faults_) {
    FaultPhase phase{};
    if (PhaseOf(first, now_ns, &phase)) meetings_.Count(first.kind, kind, phase);
  }
  if (now_ns > well_again_ns_) first_since_well_ = faults_.size();
  well_again_ns_ = std::max(well_again_ns_, end_ns + healing_ns_);
  faults_.push_back({.kind = kind, .victims = std::move(victims), .begin_ns = now_ns, .end_ns = end_ns});
  last_end_ns_ = std::max(last_end_ns_, end_ns);
  mislead_schedulers_ = mislead_schedulers_ || MakesForgetful(kind) ||
                        kind == FaultKind::kFollowerStop;  // a server's heartbeats may go there (F16)
}

uint64_t FaultLog::BegunSince(uint64_t begin_ns) const {
  return static_cast<uint64_t>(
      std::count_if(faults_.begin(), faults_.end(), [&](const Begun& fault) { return fault.begin_ns >= begin_ns; }));
}

void FaultLog::Noticed(std::string_view text) {
  for (Begun& fault : faults_) {
    fault.noticed = fault.noticed || std::any_of(fault.victims.begin(), fault.victims.end(),
                                                 [&](const std::string& victim) { return Names(text, victim); });
  }
}

void FaultLog::Moved(GroupId group) {
  for (Begun& fault : faults_) {
    if (!fault.noticed || fault.settled) continue;
    fault.moved = true;
    fault.moving.insert(group);
  }
}

void FaultLog::Worked(GroupId group) {
  for (Begun& fault : faults_) {
    if (!fault.moved || fault.settled || fault.moving.erase(group) == 0) continue;
    fault.settled = fault.moving.empty();
  }
}

uint64_t FaultLog::LastEndNs(absl::FunctionRef<bool(const std::string& victim)> is_foreign) const {
  uint64_t last_ns = goes_on_ns_;
  for (const Begun& fault : faults_) {
    if (fault.end_ns <= last_ns) continue;
    const bool is_elsewhere =
        !fault.victims.empty() && std::all_of(fault.victims.begin(), fault.victims.end(), is_foreign);
    if (!is_elsewhere) last_ns = fault.end_ns;
  }
  return last_ns;
}

bool FaultLog::Concerns(const std::set<std::string>& processes, uint64_t now_ns) const {
  const size_t first = now_ns > well_again_ns_ ? faults_.size() : first_since_well_;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Begun& fault = faults_[i];
    if (i < first && fault.end_ns > fault.begin_ns) continue;
    const auto is_one = [&](const std::string& victim) { return processes.contains(victim); };
    if (std::any_of(fault.victims.begin(), fault.victims.end(), is_one)) return true;
  }
  return false;
}

}  // namespace shoal::sim
