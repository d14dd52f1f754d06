#include "sim/rendezvous.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {
namespace {

constexpr uint64_t kNewsTakeNs = 10'000;

}  // namespace

bool Rendezvous::AllWantOne() const {
  const auto wants = [](const auto& entry) { return entry.second.told != nullptr; };
  return std::ranges::any_of(processes_, wants) && std::ranges::all_of(processes_, wants);
}

void Rendezvous::Go(const std::string& process) {
  if (processes_.erase(process) > 0 && AllWantOne()) Meet();
}

void Rendezvous::Want(const std::string& process, JobId job, JobRank rank, uint32_t node, Told told) {
  processes_[process] = {.job = job, .rank = rank, .node = node, .told = std::move(told)};
  if (AllWantOne()) return Meet();
  if (std::exchange(waits_, true)) return;
  world_->After(patience_ns_, [this, alive = std::weak_ptr<bool>(alive_), wait = ++wait_] {
    if (!alive.expired() && waits_ && wait == wait_) Meet();
  });
}

void Rendezvous::Meet() {
  waits_ = false;
  over_ = over_ || held_ == meetings_ || (until_ns_ > 0 && world_->now_ns() >= until_ns_);
  JobId newest;
  for (const auto& [name, process] : processes_) {
    if (process.told != nullptr) newest = std::max(newest, process.job);
  }
  Meeting meeting{.number = ++held_, .members = {}, .nodes = {}};
  std::map<uint32_t, uint32_t> node_of;  // by rank of the job
  for (const auto& [name, process] : processes_) {
    if (over_ || process.told == nullptr || process.job != newest) continue;
    node_of[process.rank.value()] = process.node;
  }
  for (const auto& [rank, node] : node_of) {
    meeting.members.push_back(rank);
    meeting.nodes.push_back(node);
  }
  for (auto& [name, process] : processes_) {
    if (process.told == nullptr || (!over_ && process.job != newest)) continue;
    world_->After(
        kNewsTakeNs + world_->random().Below(kNewsTakeNs),
        [this, alive = std::weak_ptr<bool>(alive_), name, told = std::exchange(process.told, nullptr), meeting] {
          if (!alive.expired() && processes_.contains(name)) told(meeting);
        });
  }
}

}  // namespace shoal::sim
