#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/fabric_model/layouts.h"
#include "core/bucket_plan.h"

namespace shoal::fabric_model {
namespace {

using NodeNumber = Fabric::NodeNumber;

// A run of one layout. Messages are chunks: `part` is the chunk's number in the bucket, or in the rank's part of it.
class ServerRun {
 public:
  ServerRun(Fabric* fabric, const Training& training, const ServerLayout& layout)
      : fabric_(*fabric), training_(training), layout_(layout) {
    const BucketPlan plan =
        *MakeBucketPlan(training.bucket_bytes / training.inside.ranks, WireCodec(DataType::kUint8), layout.chunk_bytes);
    for (uint32_t i = 0; i < plan.chunk_count; ++i) chunk_bytes_.push_back(plan.ElementCount(ChunkNumber(i)));
    AddNodes();
    DealAll();
  }

  double Run() {
    for (const Worker& worker : workers_) fabric_.SetProgram(worker.number, [this, &worker] { RunWorker(worker); });
    for (const NodeNumber server : servers_) fabric_.SetProgram(server, [this, server] { RunServer(server); });
    if (training_.inside.ranks == 1) return fabric_.Run(static_cast<uint32_t>(workers_.size()));
    for (const NodeNumber carrier : carriers_of_workers_) {
      fabric_.SetProgram(carrier, [this, carrier] { RunInsideNode(carrier); });
    }
    return fabric_.Run(static_cast<uint32_t>(carriers_of_workers_.size()));
  }

 private:
  struct Worker {
    NodeNumber number = 0;
    NodeNumber carrier = 0;  // the node that it is in; itself if it has no other ranks
    uint32_t rail = 0;
  };

  uint32_t chunk_count() const { return static_cast<uint32_t>(chunk_bytes_.size()); }

  void AddNodes() {
    const uint32_t copies = training_.nodes / training_.groups;
    const InsideNode& inside = training_.inside;
    for (uint32_t i = 0; i < training_.groups; ++i) {
      const NodeNumber carrier = fabric_.AddNode(training_.link_bytes_per_s, copies);
      carriers_of_workers_.push_back(carrier);
      for (uint32_t rail = 0; rail < inside.ranks; ++rail) {
        const NodeNumber number =
            inside.ranks == 1 ? carrier : fabric_.AddNodeInside(carrier, inside.bytes_per_s, copies);
        workers_.push_back({number, carrier, rail});
      }
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
    for (uint32_t i = 0; i < training_.nodes; ++i) {
      const NodeNumber carrier = carriers_of_workers_[i / copies];
      const double rate = inside.ranks == 1 ? training_.link_bytes_per_s : inside.bytes_per_s;
      add_server(fabric_.AddNodeInside(carrier, rate, 1), carrier, (1 - layout_.dedicated_share) / training_.nodes);
    }
  }

  // Smooth weighted round robin, as core/shard_map.cc deals, going on from rail to rail and from bucket to bucket.
  void DealAll() {
    std::vector<double> balance(servers_.size(), 0);
    owners_.resize(size_t{training_.buckets} * training_.inside.ranks);
    for (std::vector<uint32_t>& owners : owners_) {
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

  uint32_t OwnerOf(uint32_t rail, uint32_t bucket, uint32_t chunk) const {
    return owners_[size_t{bucket} * training_.inside.ranks + rail][chunk];
  }

  // Of the copies' contributions to a chunk (and of its results), what leaves their nodes: a server inside one of them
  // has that one's by itself.
  double BytesOf(const Worker& worker, uint32_t server, uint32_t chunk) const {
    const uint32_t copies = fabric_.copies(worker.number);
    return static_cast<double>(chunk_bytes_[chunk]) * (carriers_[server] == worker.carrier ? copies - 1 : copies);
  }

  void RunWorker(const Worker& worker) {
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
    const auto make_ready = [&](uint32_t bucket, uint32_t chunk) {
      const uint32_t server = OwnerOf(worker.rail, bucket, chunk);
      waiting[server].push_back({bucket, chunk});
      offer(server);
    };
    const bool is_alone = worker.carrier == worker.number;
    uint32_t opened = 0;
    const auto open_bucket = [&] {
      if (opened == training_.buckets) return;
      for (uint32_t chunk = 0; chunk < chunk_count(); ++chunk) make_ready(opened, chunk);
      ++opened;
    };
    if (is_alone) {
      for (uint32_t i = 0; i < training_.in_flight; ++i) open_bucket();
    }
    uint32_t done = 0;
    while (done < training_.buckets) {
      if (may_push() && !fabric_.HasMessage(worker.number)) {
        const auto [place, server] = *next.begin();
        next.erase(next.begin());
        waiting[server].pop_front();
        --credit[server];
        offer(server);
        fabric_.SpendMessages(1);
        fabric_.Send(worker.number, servers_[server], BytesOf(worker, server, place.second),
                     fabric_.copies(worker.number), {.bucket = place.first, .part = place.second});
        continue;
      }
      const Message message = fabric_.Receive(worker.number);
      if (!is_alone && message.from == worker.carrier) {
        make_ready(message.bucket, message.part);
        continue;
      }
      fabric_.SpendMessages(1);
      const uint32_t server = OwnerOf(worker.rail, message.bucket, message.part);
      ++credit[server];
      offer(server);
      is_back[position(message.bucket, message.part)] = true;
      while (oldest < is_back.size() && is_back[oldest]) ++oldest;
      if (!is_alone) fabric_.Notify(worker.number, worker.carrier, 0, message);
      if (--missing[message.bucket] == 0) {
        ++done;
        if (is_alone) open_bucket();
      }
    }
    if (is_alone) fabric_.Finish();
  }

  // What connects the ranks of a node: it reduces and scatters each chunk of all rails, and gathers it when it is back
  // on all of them. One after the other; the oldest that is back goes first, since ranks wait for it.
  void RunInsideNode(NodeNumber carrier) {
    const InsideNode& inside = training_.inside;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> back;  // by bucket and chunk: rails
    std::set<std::pair<uint32_t, uint32_t>> to_gather;
    std::deque<std::pair<uint32_t, uint32_t>> to_reduce;
    std::vector<uint32_t> missing(training_.buckets, chunk_count());
    uint32_t opened = 0;
    const auto open_bucket = [&] {
      if (opened == training_.buckets) return;
      for (uint32_t chunk = 0; chunk < chunk_count(); ++chunk) to_reduce.emplace_back(opened, chunk);
      ++opened;
    };
    const auto spend = [&](uint32_t chunk) {  // each rank sends its part to all others, or parts of theirs
      const double bytes = static_cast<double>(chunk_bytes_[chunk]) * (inside.ranks - 1);
      simgrid::s4u::this_actor::sleep_for(bytes / inside.bytes_per_s);
    };
    const auto hear = [&](const Message& message, uint32_t* done) {
      const std::pair<uint32_t, uint32_t> chunk(message.bucket, message.part);
      if (message.from != carrier) {
        if (++back[chunk] < inside.ranks) return;
        back.erase(chunk);
        to_gather.insert(chunk);
      } else if (--missing[message.bucket] == 0) {
        ++*done;
        open_bucket();
      }
    };
    for (uint32_t i = 0; i < training_.in_flight; ++i) open_bucket();
    for (uint32_t done = 0; done < training_.buckets;) {
      while (fabric_.HasMessage(carrier)) hear(fabric_.Receive(carrier), &done);
      if (!to_gather.empty()) {
        const auto [bucket, chunk] = *to_gather.begin();
        to_gather.erase(to_gather.begin());
        spend(chunk);
        fabric_.Notify(carrier, carrier, inside.latency_s, {.bucket = bucket, .part = chunk});
      } else if (!to_reduce.empty()) {
        const auto [bucket, chunk] = to_reduce.front();
        to_reduce.pop_front();
        spend(chunk);
        for (const Worker& worker : workers_) {
          if (worker.carrier != carrier) continue;
          fabric_.Notify(carrier, worker.number, inside.latency_s, {.bucket = bucket, .part = chunk});
        }
      } else if (done < training_.buckets) {
        hear(fabric_.Receive(carrier), &done);
      }
    }
    fabric_.Finish();
  }

  void RunServer(NodeNumber server) {
    std::map<NodeNumber, const Worker*> worker_of;
    for (const Worker& worker : workers_) worker_of[worker.number] = &worker;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> arrived;  // by rail, bucket and chunk
    while (true) {
      const Message push = fabric_.Receive(server);
      const uint32_t rail = worker_of.at(push.from)->rail;
      fabric_.SpendMessages(fabric_.copies(push.from));
      const auto entry = arrived.try_emplace({rail, push.bucket, push.part}, 0).first;
      if (++entry->second < training_.groups) continue;
      arrived.erase(entry);
      const double inputs_bytes = static_cast<double>(chunk_bytes_[push.part]) * training_.nodes;
      simgrid::s4u::this_actor::sleep_for(inputs_bytes / layout_.reduce_bytes_per_s);
      for (uint32_t i = 0; i < training_.groups; ++i) {
        const uint32_t group = (push.part + i) % training_.groups;
        const Worker& worker = workers_[size_t{group} * training_.inside.ranks + rail];
        fabric_.SpendMessages(fabric_.copies(worker.number));
        fabric_.Send(server, worker.number, BytesOf(worker, OwnerOf(rail, push.bucket, push.part), push.part),
                     fabric_.copies(worker.number), {.bucket = push.bucket, .part = push.part});
      }
    }
  }

  static constexpr NodeNumber kNoCarrier = UINT32_MAX;
  static constexpr double kRounding = 1e-9;

  Fabric& fabric_;
  const Training training_;
  const ServerLayout layout_;
  std::vector<uint32_t> chunk_bytes_;
  std::vector<NodeNumber> carriers_of_workers_;  // a node each, or the worker itself if it is alone
  std::vector<Worker> workers_;                  // node by node, in the order of rails
  std::vector<NodeNumber> servers_;
  std::vector<NodeNumber> carriers_;           // of each server: the node that it is inside
  std::vector<double> shares_;                 // of each server
  std::vector<std::vector<uint32_t>> owners_;  // by bucket and rail, of each chunk: index into servers_
};

}  // namespace

double RunServers(Fabric* fabric, const Training& training, const ServerLayout& layout) {
  return ServerRun(fabric, training, layout).Run();
}

}  // namespace shoal::fabric_model
