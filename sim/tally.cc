#include "sim/tally.h"

#include "program/json_text.h"

namespace shoal::sim {

void Tally::Add(const Report& report) {
  ++seeds;
  events += report.events;
  virtual_ns += report.virtual_ns;
  ops_ok += report.ops_ok;
  ops_failed += report.ops_failed;
  refusals += report.refusals;
  loans += report.loans;
  changes_caught += report.changes_caught;
  chunks_chosen += report.chunks_chosen;
  device_copies += report.device_copies;
  server_waits_told += report.server_waits_told;
  terms += report.terms;
  hosted_schedulers_ended += report.hosted_schedulers_ended;
  refused_saves += report.refused_saves;
  saves_unheard += report.saves_unheard;
  hand_overs += report.hand_overs;
  preemptions += report.preemptions;
  hellos_to_ended_groups += report.hellos_to_ended_groups;
  reports_without_move += report.reports_without_move;
  deaths_while_gathering += report.deaths_while_gathering;
  large_jobs += report.large_jobs;
  uneven_memory += report.uneven_memory;
  ended_for_memory += report.ended_for_memory;
  arenas += report.arenas;
  drains_asked += report.drains_asked;
  for (size_t i = 0; i < kNodeStages; ++i) node_deaths[i] += report.node_deaths[i];
  for (size_t i = 0; i < faults.size(); ++i) faults[i] += report.faults[i];
  runs += report.runs;
  open_runs += report.open_runs;
  meetings_held += report.meetings_held;
  ops_with_fewer += report.ops_with_fewer;
  ops_with_mixed += report.ops_with_mixed;
  ops_without_nodes += report.ops_without_nodes;
  ops_left_alone += report.ops_left_alone;
  ops_written_down += report.ops_written_down;
  for (size_t i = 0; i < excuses.size(); ++i) excuses[i] += report.excuses[i];
  meetings.Add(report.meetings);
  if (!report.failures.empty()) violations.push_back({report.seed, report.failures.front()});
}

std::string Tally::ToJson(uint64_t first, double cpu_seconds) const {
  Json of_excuses = Json::object();
  for (size_t i = 0; i < excuses.size(); ++i) {
    of_excuses[std::string(ExcusableCheckName(static_cast<ExcusableCheck>(i)))] = excuses[i];
  }
  Json of_faults = Json::object();
  for (size_t i = 0; i < faults.size(); ++i) of_faults[std::string(FaultName(static_cast<FaultKind>(i)))] = faults[i];
  Json of_violations = Json::array();
  for (const Violation& each : violations) of_violations.push_back({{"seed", each.seed}, {"what", each.what}});
  return JsonText({{"first", first},
                   {"seeds", seeds},
                   {"cpu_seconds", cpu_seconds},
                   {"events", events},
                   {"virtual_seconds", static_cast<double>(virtual_ns) / 1e9},
                   {"ops_ok", ops_ok},
                   {"ops_failed", ops_failed},
                   {"refusals", refusals},
                   {"loans", loans},
                   {"changes_caught", changes_caught},
                   {"chunks_chosen", chunks_chosen},
                   {"device_copies", device_copies},
                   {"server_waits_told", server_waits_told},
                   {"terms", terms},
                   {"hosted_schedulers_ended", hosted_schedulers_ended},
                   {"refused_saves", refused_saves},
                   {"saves_unheard", saves_unheard},
                   {"hand_overs", hand_overs},
                   {"preemptions", preemptions},
                   {"hellos_to_ended_groups", hellos_to_ended_groups},
                   {"reports_without_move", reports_without_move},
                   {"deaths_while_gathering", deaths_while_gathering},
                   {"large_jobs", large_jobs},
                   {"uneven_memory", uneven_memory},
                   {"ended_for_memory", ended_for_memory},
                   {"arenas", arenas},
                   {"drains_asked", drains_asked},
                   {"runs", runs},
                   {"open_runs", open_runs},
                   {"meetings_held", meetings_held},
                   {"ops_with_fewer", ops_with_fewer},
                   {"ops_with_mixed", ops_with_mixed},
                   {"ops_without_nodes", ops_without_nodes},
                   {"ops_left_alone", ops_left_alone},
                   {"ops_written_down", ops_written_down},
                   {"excuses", of_excuses},
                   {"faults", of_faults},
                   {"meetings", meetings.Counts()},
                   {"violations", of_violations}}) +
         "\n";
}

}  // namespace shoal::sim
