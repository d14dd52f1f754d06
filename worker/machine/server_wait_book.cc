#include "worker/machine/server_wait_book.h"

#include <algorithm>
#include <functional>

namespace shoal {

void ServerWaitBook::FindEnds(const ShardMap& map, const OpLandings& landings) {
  ends_.clear();
  for (size_t shard = 0; shard < landings.last_ns.size(); ++shard) {
    const uint64_t at_ns = landings.last_ns[shard];
    if (at_ns == 0) continue;
    const ServerId server = map.shards()[shard].server;
    const auto found = std::ranges::find(ends_, server, &End::server);
    if (found == ends_.end()) {
      ends_.push_back({server, at_ns});
    } else {
      found->at_ns = std::max(found->at_ns, at_ns);
    }
  }
  std::ranges::sort(ends_, {}, &End::at_ns);
}

ServerWaitBook::State& ServerWaitBook::StateOf(ServerId server) {
  const auto of_server = [server](const State& state) { return state.window.server == server; };
  const auto found = std::ranges::find_if(servers_, of_server);
  return found != servers_.end() ? *found : servers_.emplace_back(State{.window = {.server = server}});
}

void ServerWaitBook::OnOpDone(const ShardMap& map, uint32_t chunk_count, const OpLandings& landings) {
  const uint64_t shard_count = map.shards().size();
  if (landings.last_ns.size() != shard_count || chunk_count < kFewestChunks * shard_count) return;
  FindEnds(map, landings);
  if (ends_.size() < 2) return;
  if (window_start_ns_ == 0) window_start_ns_ = landings.first_ns;
  ++window_ops_;
  const uint64_t done_ns = ends_.back().at_ns;
  const uint64_t two_chunks_ns = 2 * (done_ns - landings.first_ns) * shard_count / chunk_count;
  const uint64_t expected_ns = ends_[(ends_.size() - 1) / 2].at_ns + two_chunks_ns;
  for (const End& end : ends_) {
    if (end.at_ns <= expected_ns) continue;
    State& state = StateOf(end.server);
    const uint64_t since_ns = std::max({expected_ns, state.waited_until_ns, window_start_ns_});
    if (end.at_ns <= since_ns) continue;
    const uint64_t waited_ns = end.at_ns - since_ns;
    state.waited_until_ns = end.at_ns;
    state.window.waited_ns += waited_ns;
    state.longest_op_ns = std::max(state.longest_op_ns, waited_ns);
    ++state.window.late_ops;
  }
  CloseWindowIfOver(done_ns);
}

void ServerWaitBook::CloseWindowIfOver(uint64_t now_ns) {
  // (Ops of several groups need not end in the order of their last results.)
  const uint64_t length_ns = now_ns - std::min(now_ns, window_start_ns_);
  if (window_ops_ < kFewestOps || length_ns < kShortestWindowNs) return;
  last_ = {.number = last_.number + 1, .end_ns = now_ns, .length_ns = length_ns, .ops = window_ops_};
  for (const State& state : servers_) {
    const auto waited_ns = static_cast<double>(state.WithoutLongestOpNs());
    if (waited_ns > 0 && waited_ns >= kLeastShare * static_cast<double>(length_ns)) {
      last_.servers.push_back(state.window);
    }
  }
  std::ranges::sort(last_.servers, std::greater(), &ServerWait::waited_ns);
  last_.servers.resize(std::min(last_.servers.size(), kMostServersListed));
  std::erase_if(servers_, [](const State& state) { return state.window.late_ops == 0; });
  for (State& state : servers_) {
    state = {.window = {.server = state.window.server}, .waited_until_ns = state.waited_until_ns};
  }
  window_start_ns_ = now_ns;
  window_ops_ = 0;
}

}  // namespace shoal
