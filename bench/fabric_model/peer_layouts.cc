#include <algorithm>
#include <bit>
#include <vector>

#include "bench/fabric_model/layouts.h"

namespace shoal::fabric_model {
namespace {

using NodeNumber = Fabric::NodeNumber;

// A node's place in a binary tree over 1 .. count in which inner nodes lie between those below them.
struct TreeNode {
  uint32_t parent = 0;  // 0: the root
  std::vector<uint32_t> children;
};

std::vector<TreeNode> MakeTree(uint32_t count) {
  std::vector<TreeNode> nodes(count + 1);
  for (uint32_t i = 1; i <= count; ++i) {
    // The lowest bit of a number is its height; the parent's bit is the next one.
    const uint32_t bit = i & (~i + 1);
    uint32_t parent = (i ^ bit) | (bit << 1);
    if (parent > count) parent = i ^ bit;
    nodes[i].parent = parent;
    if (parent != 0) nodes[parent].children.push_back(i);
  }
  return nodes;
}

// Messages: `part` is 2 * segment, plus 1 on the way down. A segment belongs to tree `segment % 2`.
class TreeRun {
 public:
  TreeRun(Fabric* fabric, const Training& training, uint32_t segment_bytes)
      : fabric_(*fabric), training_(training), tree_(MakeTree(training.nodes)) {
    const uint64_t half = training.bucket_bytes / 2;
    segments_ = 2 * static_cast<uint32_t>(std::max<uint64_t>(1, half / segment_bytes));
    segment_bytes_ = static_cast<double>(training.bucket_bytes) / segments_;
    for (uint32_t i = 0; i < training.nodes; ++i) nodes_.push_back(fabric_.AddNode(training.link_bytes_per_s, 1));
    if (training.inside.ranks > 1) hop_s_ = training.inside.latency_s + segment_bytes_ / training.inside.bytes_per_s;
  }

  double Run() {
    for (const NodeNumber node : nodes_) fabric_.SetProgram(node, [this, node] { RunNode(node); });
    return fabric_.Run(training_.nodes);
  }

 private:
  // In the second tree everybody has moved up by one, which makes its leaves inner nodes (the numbers of leaves are
  // odd).
  uint32_t PlaceOf(NodeNumber node, uint32_t segment) const { return (node + segment % 2) % training_.nodes + 1; }
  NodeNumber NodeAt(uint32_t place, uint32_t segment) const {
    return (place - 1 + training_.nodes - segment % 2) % training_.nodes;
  }

  void Send(NodeNumber node, uint32_t place, uint32_t bucket, uint32_t segment, bool down) {
    fabric_.SpendMessages(1);
    fabric_.Send(node, NodeAt(place, segment), segment_bytes_, 1,
                 {.bucket = bucket, .part = 2 * segment + (down ? 1 : 0)}, fabric_.latency_s() + hop_s_);
  }

  // Later segments go through the chain of ranks while earlier ones are on the links.
  void PassChain() const { simgrid::s4u::this_actor::sleep_for((training_.inside.ranks - 1) * hop_s_); }

  void RunNode(NodeNumber node) {
    std::vector<std::vector<uint32_t>> gathered(training_.buckets, std::vector<uint32_t>(segments_, 0));
    std::vector<uint32_t> missing(training_.buckets, segments_);
    uint32_t opened = 0;
    uint32_t done = 0;
    // What the node has of a segment goes up when all below it have come, and down from the root.
    const auto advance = [&](uint32_t bucket, uint32_t segment) {
      const TreeNode& place = tree_[PlaceOf(node, segment)];
      if (bucket >= opened || gathered[bucket][segment] < place.children.size()) return false;
      if (place.parent != 0) Send(node, place.parent, bucket, segment, false);
      return place.parent == 0;
    };
    const auto complete = [&](uint32_t bucket, uint32_t segment) {
      for (const uint32_t child : tree_[PlaceOf(node, segment)].children) Send(node, child, bucket, segment, true);
      if (--missing[bucket] == 0) ++done;
    };
    const auto open_buckets = [&] {
      while (opened < training_.buckets && opened < done + training_.in_flight) {
        const uint32_t bucket = opened++;
        for (uint32_t segment = 0; segment < segments_; ++segment) {
          if (advance(bucket, segment)) complete(bucket, segment);
        }
      }
    };
    PassChain();
    open_buckets();
    while (done < training_.buckets) {
      const Message message = fabric_.Receive(node);
      fabric_.SpendMessages(1);
      const uint32_t segment = message.part / 2;
      if (message.part % 2 == 1) {
        complete(message.bucket, segment);
      } else {
        ++gathered[message.bucket][segment];
        if (advance(message.bucket, segment)) complete(message.bucket, segment);
      }
      open_buckets();
    }
    PassChain();
    fabric_.Finish();
  }

  Fabric& fabric_;
  const Training training_;
  const std::vector<TreeNode> tree_;
  uint32_t segments_ = 0;
  double segment_bytes_ = 0;
  double hop_s_ = 0;  // from rank to rank of a node
  std::vector<NodeNumber> nodes_;
};

// In lockstep a ring over a few nodes that takes all steps of a long one's keeps its time: each link carries the same.
// Messages: `part` is the step.
class RingRun {
 public:
  RingRun(Fabric* fabric, const Training& training) : fabric_(*fabric), training_(training) {
    for (uint32_t node = 0; node < training.groups; ++node) {
      const NodeNumber carrier = fabric_.AddNode(training.link_bytes_per_s, 1);
      for (uint32_t rank = 0; rank < training.inside.ranks; ++rank) AddRank(carrier);
    }
  }

  double Run() {
    for (uint32_t i = 0; i < ranks_.size(); ++i) {
      fabric_.SetProgram(ranks_[i].outside, [this, i] { RunRank(i); });
    }
    return fabric_.Run(static_cast<uint32_t>(ranks_.size()));
  }

 private:
  struct Rank {
    NodeNumber outside = 0;  // also its name
    NodeNumber inside = 0;   // to the ranks of its node
  };

  void AddRank(NodeNumber carrier) {
    const InsideNode& inside = training_.inside;
    if (inside.ranks == 1) {
      ranks_.push_back({carrier, carrier});
      return;
    }
    const NodeNumber outside = fabric_.AddNodeInside(carrier, inside.bytes_per_s, 1);
    ranks_.push_back({outside, fabric_.AddPort(outside, inside.bytes_per_s)});
  }

  void SendToNext(uint32_t rank, uint32_t bucket, uint32_t step) {
    const uint32_t next = (rank + 1) % static_cast<uint32_t>(ranks_.size());
    const double piece_bytes = static_cast<double>(training_.bucket_bytes) / (training_.nodes * training_.inside.ranks);
    const Message message{.bucket = bucket, .part = step};
    fabric_.SpendMessages(1);
    if (next % training_.inside.ranks == 0) {
      fabric_.Send(ranks_[rank].outside, ranks_[next].outside, piece_bytes, 1, message);
    } else {
      fabric_.Send(ranks_[rank].inside, ranks_[next].inside, piece_bytes, 1, message, training_.inside.latency_s);
    }
  }

  void RunRank(uint32_t rank) {
    const uint32_t steps = 2 * (training_.nodes * training_.inside.ranks - 1);
    uint32_t opened = 0;
    while (opened < std::min(training_.in_flight, training_.buckets)) SendToNext(rank, opened++, 0);
    for (uint32_t done = 0; done < training_.buckets;) {
      const Message message = fabric_.Receive(ranks_[rank].outside);
      fabric_.SpendMessages(1);
      if (message.part + 1 < steps) {
        SendToNext(rank, message.bucket, message.part + 1);
        continue;
      }
      ++done;
      if (opened < training_.buckets) SendToNext(rank, opened++, 0);
    }
    fabric_.Finish();
  }

  Fabric& fabric_;
  const Training training_;
  std::vector<Rank> ranks_;
};

}  // namespace

double RunRing(Fabric* fabric, const Training& training) { return RingRun(fabric, training).Run(); }

double RunDoubleTree(Fabric* fabric, const Training& training, uint32_t segment_bytes) {
  return TreeRun(fabric, training, segment_bytes).Run();
}

}  // namespace shoal::fabric_model
