#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "bench/fabric_model/layouts.h"
#include "core/bucket_plan.h"

namespace shoal::fabric_model {
namespace {

using NodeNumber = Fabric::NodeNumber;

// A run of one layout. Messages are chunks: `part` is the chunk's number in its bucket.
class ServerRun {
 public:
  ServerRun(Fabric* fabric, const Training& training, const ServerLayout& layout)
      : fabric_(*fabric), training_(training), layout_(layout) {
    const BucketPlan plan = *MakeBucketPlan(training.bucket_bytes, DataType::kUint8, layout.chunk_bytes);
    for (uint32_t i = 0; i < plan.chunk_count; ++i) chunk_bytes_.push_back(plan.ElementCount(ChunkNumber(i)));
    AddNodes();
    DealAll();
  }

  double Run() {
    for (const NodeNumber worker : workers_) fabric_.SetProgram(worker, [this, worker] { RunWorker(worker); });
    for (const NodeNumber server : servers_) fabric_.SetProgram(server, [this, server] { RunServer(server); });
    return fabric_.Run(static_cast<uint32_t>(workers_.size()));
  }

 private:
  uint32_t chunk_count() const { return static_cast<uint32_t>(chunk_bytes_.size()); }

  void AddNodes() {
    const uint32_t copies = training_.workers / training_.groups;
    for (uint32_t i = 0; i < training_.groups; ++i) {
      workers_.push_back(fabric_.AddNode(training_.link_bytes_per_s, copies));
    }
    const auto add_server = [this](NodeNumber server, NodeNumber carrier, double share) {
      servers_.push_back(server);
      carriers_.push_back(carrier);
      shares_.push_back(share);
    };
    for (uint32_t i = 0; i < layout_.dedicated; ++i) {
      add_server(fabric_.AddNode(layout_.server_bytes_per_s, 1), kNoCarrier,
                 layout_.dedicated_share / layout_.dedicated);
    }
    if (layout_.dedicated_share >= 1) return;
    for (uint32_t i = 0; i < training_.workers; ++i) {
      const NodeNumber carrier = workers_[i / copies];
      add_server(fabric_.AddNodeInside(carrier, training_.link_bytes_per_s), carrier,
                 (1 - layout_.dedicated_share) / training_.workers);
    }
  }

  // Smooth weighted round robin, as core/shard_map.cc deals, going on from bucket to bucket.
  void DealAll() {
    std::vector<double> balance(servers_.size(), 0);
    for (uint32_t bucket = 0; bucket < training_.buckets; ++bucket) {
      std::vector<uint32_t>& owners = owners_.emplace_back();
      for (uint32_t chunk = 0; chunk < chunk_count(); ++chunk) {
        size_t richest = 0;
        for (size_t i = 0; i < balance.size(); ++i) balance[i] += shares_[i];
        for (size_t i = 0; i < balance.size(); ++i) {
          if (balance[i] > balance[richest] + kRounding) richest = i;
        }
        balance[richest] -= 1;
        owners.push_back(static_cast<uint32_t>(richest));
      }
    }
  }

  // Of the copies' contributions to a chunk (and of its results), what leaves their nodes: a server inside one of them
  // has that one's by itself.
  double BytesOf(NodeNumber worker, uint32_t server, uint32_t chunk) const {
    const uint32_t copies = fabric_.copies(worker);
    return static_cast<double>(chunk_bytes_[chunk]) * (carriers_[server] == worker ? copies - 1 : copies);
  }

  void RunWorker(NodeNumber worker) {
    std::vector<uint32_t> credit(servers_.size(), layout_.credit_chunks);
    // Of each server: its chunks that are not pushed, in order. `next_`: the first of each that has credit.
    std::vector<std::deque<std::pair<uint32_t, uint32_t>>> waiting(servers_.size());
    std::set<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>> next;
    std::vector<uint32_t> missing(training_.buckets, chunk_count());
    const auto offer = [&](uint32_t server) {
      if (credit[server] > 0 && !waiting[server].empty()) next.insert({waiting[server].front(), server});
    };
    std::vector<bool> is_back(size_t{training_.buckets} * chunk_count(), false);
    size_t oldest = 0;  // not back; a chunk's position is its bucket's first one and its number
    const auto position = [this](uint32_t bucket, uint32_t chunk) { return size_t{bucket} * chunk_count() + chunk; };
    const auto may_push = [&] {
      if (next.empty()) return false;
      const auto [bucket, chunk] = next.begin()->first;
      return layout_.window_chunks == 0 || position(bucket, chunk) < oldest + layout_.window_chunks;
    };
    uint32_t opened = 0;
    const auto open_bucket = [&] {
      if (opened == training_.buckets) return;
      for (uint32_t chunk = 0; chunk < chunk_count(); ++chunk) {
        waiting[owners_[opened][chunk]].push_back({opened, chunk});
      }
      ++opened;
      for (uint32_t server = 0; server < servers_.size(); ++server) offer(server);
    };
    for (uint32_t i = 0; i < training_.in_flight; ++i) open_bucket();
    uint32_t done = 0;
    while (done < training_.buckets) {
      if (may_push() && !fabric_.HasMessage(worker)) {
        const auto [place, server] = *next.begin();
        next.erase(next.begin());
        waiting[server].pop_front();
        --credit[server];
        offer(server);
        fabric_.SpendMessages(1);
        fabric_.Send(worker, servers_[server], BytesOf(worker, server, place.second), fabric_.copies(worker),
                     {.bucket = place.first, .part = place.second});
        continue;
      }
      const Message result = fabric_.Receive(worker);
      fabric_.SpendMessages(1);
      const uint32_t server = owners_[result.bucket][result.part];
      ++credit[server];
      offer(server);
      is_back[position(result.bucket, result.part)] = true;
      while (oldest < is_back.size() && is_back[oldest]) ++oldest;
      if (--missing[result.bucket] == 0) {
        ++done;
        open_bucket();
      }
    }
    fabric_.Finish();
  }

  void RunServer(NodeNumber server) {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> arrived;  // by bucket and chunk
    while (true) {
      const Message push = fabric_.Receive(server);
      fabric_.SpendMessages(fabric_.copies(push.from));
      const auto entry = arrived.try_emplace({push.bucket, push.part}, 0).first;
      if (++entry->second < workers_.size()) continue;
      arrived.erase(entry);
      const double inputs_bytes = static_cast<double>(chunk_bytes_[push.part]) * training_.workers;
      simgrid::s4u::this_actor::sleep_for(inputs_bytes / layout_.reduce_bytes_per_s);
      for (size_t i = 0; i < workers_.size(); ++i) {
        const NodeNumber worker = workers_[(push.part + i) % workers_.size()];
        fabric_.SpendMessages(fabric_.copies(worker));
        fabric_.Send(server, worker, BytesOf(worker, owners_[push.bucket][push.part], push.part),
                     fabric_.copies(worker), {.bucket = push.bucket, .part = push.part});
      }
    }
  }

  static constexpr NodeNumber kNoCarrier = UINT32_MAX;
  static constexpr double kRounding = 1e-9;

  Fabric& fabric_;
  const Training training_;
  const ServerLayout layout_;
  std::vector<uint32_t> chunk_bytes_;
  std::vector<NodeNumber> workers_;
  std::vector<NodeNumber> servers_;
  std::vector<NodeNumber> carriers_;           // of each server: the worker that it is inside
  std::vector<double> shares_;                 // of each server
  std::vector<std::vector<uint32_t>> owners_;  // by bucket and chunk: index into servers_
};

}  // namespace

double RunServers(Fabric* fabric, const Training& training, const ServerLayout& layout) {
  return ServerRun(fabric, training, layout).Run();
}

}  // namespace shoal::fabric_model
