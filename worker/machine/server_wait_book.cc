#include "worker/machine/server_wait_book.h"

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

namespace shoal {

std::vector<ServerWaitWindow> ServerWaitBook::Newest() const {
  std::vector<ServerWaitWindow> windows;
  windows.reserve(windows_.size());
  for (const auto& [group, window] : windows_) windows.push_back(window);
  std::ranges::sort(windows, std::greater(), &ServerWaitWindow::end_ns);
  windows.resize(std::min(windows.size(), kMostServerWaitWindows));
  return windows;
}

GroupServerWaits::GroupServerWaits(ServerWaitBook* book, GroupId group, const ShardMap& map) : book_(*book) {
  last_.group = group;
  MoveTo(map);
}

void GroupServerWaits::MoveTo(const ShardMap& map) {
  End();
  for (const Shard& shard : map.shards()) {
    const auto found = std::ranges::find(servers_, shard.server, &Server::id);
    server_of_.push_back(static_cast<uint32_t>(found - servers_.begin()));
    if (found == servers_.end()) servers_.push_back({.id = shard.server});
    servers_[server_of_.back()].weight += shard.weight;
    weights_ += shard.weight;
  }
  by_time_.reserve(servers_.size());
  last_ = {.group = last_.group, .epoch = map.epoch()};
}

void GroupServerWaits::End() {
  book_.Drop(last_.group);
  servers_.clear();
  server_of_.clear();
  weights_ = 0;
  chunks_under_way_ = 0;
  chunks_of_burst_ = 0;
  first_burst_ = true;
  idle_since_ns_ = 0;
}

void GroupServerWaits::OnPushed(uint32_t shard, Now now) {
  if (servers_.empty()) return;
  if (chunks_under_way_++ == 0 && idle_since_ns_ != 0) {
    longest_pause_ns_ = std::max(longest_pause_ns_, now.monotonic_ns - idle_since_ns_);
  }
  Server& server = servers_[server_of_[shard]];
  if (server.chunks_under_way++ == 0) server.busy_since_ns = now.monotonic_ns;
}

void GroupServerWaits::OnLanded(uint32_t shard, Now now) {
  if (servers_.empty()) return;
  if (--chunks_under_way_ == 0) idle_since_ns_ = now.monotonic_ns;
  Server& server = servers_[server_of_[shard]];
  if (--server.chunks_under_way == 0) server.busy_ns += now.monotonic_ns - server.busy_since_ns;
}

void GroupServerWaits::OnOpDone(uint32_t chunk_count, Now now) {
  if (servers_.empty()) return;
  chunks_of_burst_ += chunk_count;
  if (chunks_under_way_ == 0) EndBurst(now.monotonic_ns);
}

template <typename Visitor>
void GroupServerWaits::ForEachWeight(ServerTime time, const Visitor& visit) {
  by_time_.clear();
  for (Server& server : servers_) by_time_.push_back(&server);
  std::ranges::sort(by_time_, {}, [time](const Server* server) { return std::tuple(server->weight, server->*time); });
  for (size_t begin = 0, end = 0; begin < by_time_.size(); begin = end) {
    while (end < by_time_.size() && by_time_[end]->weight == by_time_[begin]->weight) ++end;
    visit(std::span<Server* const>(by_time_).subspan(begin, end - begin));
  }
}

void GroupServerWaits::EndBurst(uint64_t now_ns) {
  bool is_compared = false;
  if (!first_burst_) {
    ForEachWeight(&Server::busy_ns,
                  [&](std::span<Server* const> alike) { is_compared = AddToStretch(alike) || is_compared; });
  } else {
    BeginWindow(now_ns);
  }
  first_burst_ = false;
  chunks_of_burst_ = 0;
  for (Server& server : servers_) server.busy_ns = 0;
  if (!is_compared || now_ns - stretch_start_ns_ < kShortestStretchNs) return;
  EndStretch();
  stretch_start_ns_ = now_ns;
  CloseWindowIfOver(now_ns);
}

bool GroupServerWaits::AddToStretch(std::span<Server* const> alike) {
  const uint64_t chunks_of_each = chunks_of_burst_ * alike.front()->weight / weights_;
  if (alike.size() < 2 || chunks_of_each < kFewestChunks) return false;
  const uint64_t two_chunks_ns = 2 * alike.back()->busy_ns / chunks_of_each;
  for (Server* const server : alike) {
    server->stretch_busy_ns += server->busy_ns;
    server->stretch_spare_ns += two_chunks_ns;
  }
  return true;
}

void GroupServerWaits::EndStretch() {
  ++window_stretches_;
  ForEachWeight(&Server::stretch_busy_ns, [](std::span<Server* const> alike) {
    const Server& median = *alike[(alike.size() - 1) / 2];
    const uint64_t expected_ns = median.stretch_busy_ns + median.stretch_spare_ns;
    for (Server* const server : alike) {
      if (server->stretch_busy_ns <= expected_ns) continue;
      const uint64_t waited_ns = server->stretch_busy_ns - expected_ns;
      server->waited_ns += waited_ns;
      server->longest_stretch_ns = std::max(server->longest_stretch_ns, waited_ns);
      ++server->late_stretches;
    }
  });
  for (Server& server : servers_) {
    server.stretch_busy_ns = 0;
    server.stretch_spare_ns = 0;
  }
}

void GroupServerWaits::CloseWindowIfOver(uint64_t now_ns) {
  const uint64_t length_ns = now_ns - window_start_ns_ - longest_pause_ns_;
  if (window_stretches_ < kFewestStretches || length_ns < kShortestWindowNs) return;
  ++last_.number;
  last_.end_ns = now_ns;
  last_.length_ns = length_ns;
  last_.bursts = window_stretches_;
  last_.servers.clear();
  for (Server& server : servers_) {
    const auto without_longest_ns = static_cast<double>(server.waited_ns - server.longest_stretch_ns);
    if (without_longest_ns > 0 && without_longest_ns >= kLeastShare * static_cast<double>(length_ns)) {
      last_.servers.push_back({server.id, server.waited_ns, server.late_stretches});
    }
    server.waited_ns = 0;
    server.longest_stretch_ns = 0;
    server.late_stretches = 0;
  }
  std::ranges::sort(last_.servers, std::greater(), &ServerWait::waited_ns);
  last_.servers.resize(std::min(last_.servers.size(), kMostServerWaits));
  book_.Put(last_);
  BeginWindow(now_ns);
}

void GroupServerWaits::BeginWindow(uint64_t now_ns) {
  window_start_ns_ = now_ns;
  stretch_start_ns_ = now_ns;
  window_stretches_ = 0;
  longest_pause_ns_ = 0;
}

}  // namespace shoal
