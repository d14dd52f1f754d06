#include "scheduler/machine/refused_servers.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kMostReasonBytes = 1000;  // names and addresses of several servers

}  // namespace

std::vector<RefusedServers::Refused>::iterator RefusedServers::Find(const RegisterServer& request) {
  const std::string name = CleanText(request.name);
  const std::string node = CleanText(request.node);
  return std::ranges::find_if(refused_, [&](const Refused& each) { return each.name == name && each.node == node; });
}

bool RefusedServers::Note(const RegisterServer& request, const std::string& reason, Now now) {
  Refused refused{.name = CleanText(request.name),
                  .node = CleanText(request.node),
                  .reason = MakePrintable(reason, kMostReasonBytes),
                  .last_ns = now.monotonic_ns,
                  .told_ns = now.monotonic_ns};
  bool is_told = false;
  if (const auto found = Find(request); found != refused_.end()) {
    is_told = found->reason == refused.reason && now.monotonic_ns - found->told_ns < kRefusedToldAgainNs;
    if (is_told) refused.told_ns = found->told_ns;
    refused_.erase(found);
  }
  if (refused_.size() == kMostRefusedServers) refused_.erase(refused_.begin());
  refused_.push_back(std::move(refused));
  while (!told_ns_.empty() && now.monotonic_ns - told_ns_.front() >= kRefusedToldAgainNs) told_ns_.pop_front();
  if (is_told || told_ns_.size() == kMostRefusedServers) return false;
  told_ns_.push_back(now.monotonic_ns);
  return true;
}

void RefusedServers::Forget(const RegisterServer& request) {
  if (const auto found = Find(request); found != refused_.end()) refused_.erase(found);
}

std::vector<RefusedServerView> RefusedServers::List(Now now) const {
  std::vector<RefusedServerView> views;
  for (const Refused& each : refused_) {
    const uint64_t age_ns = now.monotonic_ns - each.last_ns;
    if (age_ns > kRefusedShownNs) continue;
    views.push_back({.name = each.name, .node = each.node, .reason = each.reason, .newest_age_ms = age_ns / kNsPerMs});
  }
  return views;
}

}  // namespace shoal::scheduler
