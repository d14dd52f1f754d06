#include "worker/machine/server_wait_book.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace shoal {

uint32_t ServerWaitBook::PlaceOf(ServerId id) {
  auto found = std::ranges::find(servers_, id, &Server::id);
  if (found == servers_.end()) {
    found = std::ranges::find(servers_, 0u, &Server::users);
    if (found == servers_.end()) found = servers_.emplace(servers_.end());
    *found = {.id = id};
  }
  return static_cast<uint32_t>(found - servers_.begin());
}

std::vector<uint32_t> ServerWaitBook::Join(const ShardMap& map) {
  std::vector<uint32_t> places;
  for (const Shard& shard : map.shards()) {
    places.push_back(PlaceOf(shard.server));
    ++servers_[places.back()].users;
  }
  for (const uint32_t place : places) servers_[place].weight = 0;
  for (size_t i = 0; i < places.size(); ++i) servers_[places[i]].weight += map.shards()[i].weight;
  return places;
}

void ServerWaitBook::Leave(const std::vector<uint32_t>& places, const std::vector<uint32_t>& chunks_under_way) {
  for (size_t i = 0; i < places.size(); ++i) {
    Server& server = servers_[places[i]];
    if (server.chunks_under_way > 0 && server.chunks_under_way == chunks_under_way[i]) {
      server.busy_ns += now_ns_ - server.busy_since_ns;
    }
    server.chunks_under_way -= chunks_under_way[i];
    if (--server.users == 0) server.id = ServerId();
  }
}

void ServerWaitBook::OnPushed(uint32_t place, uint64_t now_ns) {
  Server& server = servers_[place];
  now_ns_ = now_ns;
  if (server.chunks_under_way++ == 0) server.busy_since_ns = now_ns;
}

void ServerWaitBook::OnLanded(uint32_t place, uint64_t now_ns) {
  Server& server = servers_[place];
  now_ns_ = now_ns;
  if (--server.chunks_under_way == 0) server.busy_ns += now_ns - server.busy_since_ns;
}

bool ServerWaitBook::OnOpDone(const std::vector<uint32_t>& places, uint32_t chunk_count, bool counts, uint64_t now_ns) {
  ++ops_;
  now_ns_ = now_ns;
  uint64_t weights = 0;
  uint32_t least_weight = UINT32_MAX;
  parts_.clear();
  for (const uint32_t place : places) {
    Server& server = servers_[place];
    if (server.newest_op == ops_) continue;  // another shard of it was looked at
    server.newest_op = ops_;
    parts_.push_back({.weight = server.weight, .busy_ns = server.BusyNs(now_ns), .place = place});
    weights += server.weight;
    least_weight = std::min(least_weight, server.weight);
  }
  // Small ops between large ones are part of the time until the next large one is done.
  if (parts_.empty() || chunk_count * least_weight < kFewestChunks * weights) return false;
  for (Part& part : parts_) {
    Server& server = servers_[part.place];
    const uint64_t busy_ns = part.busy_ns;
    part.busy_ns -= server.marked_ns;
    server.marked_ns = busy_ns;
  }
  if (!counts) return true;
  if (window_start_ns_ == 0) window_start_ns_ = now_ns;
  ++window_ops_;
  std::ranges::sort(parts_, {}, [](const Part& part) { return std::tuple(part.weight, part.busy_ns); });
  for (auto begin = parts_.begin(); begin != parts_.end();) {
    const auto end = std::find_if(begin, parts_.end(), [&](const Part& part) { return part.weight != begin->weight; });
    Compare(&*begin, &*begin + (end - begin), uint64_t{chunk_count} * begin->weight / weights);
    begin = end;
  }
  CloseWindowIfOver(now_ns);
  return true;
}

void ServerWaitBook::Compare(const Part* begin, const Part* end, uint64_t chunks_of_each) {
  const uint64_t two_chunks_ns = 2 * (end - 1)->busy_ns / chunks_of_each;
  const uint64_t expected_ns = begin[(end - begin - 1) / 2].busy_ns + two_chunks_ns;
  for (const Part* part = begin; part != end; ++part) {
    if (part->busy_ns <= expected_ns) continue;
    Server& server = servers_[part->place];
    const uint64_t waited_ns = part->busy_ns - expected_ns;
    server.waited_ns += waited_ns;
    server.longest_op_ns = std::max(server.longest_op_ns, waited_ns);
    ++server.late_ops;
  }
}

void ServerWaitBook::CloseWindowIfOver(uint64_t now_ns) {
  const uint64_t length_ns = now_ns - window_start_ns_;
  if (window_ops_ < kFewestOps || length_ns < kShortestWindowNs) return;
  last_ = {.number = last_.number + 1, .end_ns = now_ns, .length_ns = length_ns, .ops = window_ops_};
  for (Server& server : servers_) {
    const auto without_longest_ns = static_cast<double>(server.waited_ns - server.longest_op_ns);
    if (server.users > 0 && without_longest_ns > 0 &&
        without_longest_ns >= kLeastShare * static_cast<double>(length_ns)) {
      last_.servers.push_back({server.id, std::min(server.waited_ns, length_ns), server.late_ops});
    }
    server.waited_ns = 0;
    server.longest_op_ns = 0;
    server.late_ops = 0;
  }
  std::ranges::sort(last_.servers, std::greater(), &ServerWait::waited_ns);
  last_.servers.resize(std::min(last_.servers.size(), kMostServersListed));
  window_start_ns_ = now_ns;
  window_ops_ = 0;
}

GroupServerWaits::GroupServerWaits(ServerWaitBook* book, const ShardMap& map)
    : book_(*book), places_(book->Join(map)), chunks_under_way_(places_.size()) {}

void GroupServerWaits::MoveTo(const ShardMap& map) {
  // (In this order, so that a server of both maps keeps its place.)
  std::vector<uint32_t> places = book_.Join(map);
  End();
  places_ = std::move(places);
  chunks_under_way_.assign(places_.size(), 0);
  first_op_ = true;
}

void GroupServerWaits::End() {
  book_.Leave(places_, chunks_under_way_);
  places_.clear();
}

void GroupServerWaits::OnPushed(uint32_t shard, Now now) {
  if (places_.empty()) return;
  ++chunks_under_way_[shard];
  book_.OnPushed(places_[shard], now.monotonic_ns);
}

void GroupServerWaits::OnLanded(uint32_t shard, Now now) {
  if (places_.empty()) return;
  --chunks_under_way_[shard];
  book_.OnLanded(places_[shard], now.monotonic_ns);
}

void GroupServerWaits::OnOpDone(uint32_t chunk_count, Now now) {
  if (places_.empty()) return;
  if (book_.OnOpDone(places_, chunk_count, /*counts=*/!first_op_, now.monotonic_ns)) first_op_ = false;
}

}  // namespace shoal
