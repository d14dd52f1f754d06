#include <algorithm>
#include <bit>
#include <vector>

#include "bench/fabric_model/layouts.h"

namespace shoal::fabric_model {
namespace {

using NodeNumber = Fabric::NodeNumber;

// A worker's place in a binary tree over 1 .. count in which inner nodes lie between those below them.
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
      : fabric_(*fabric), training_(training), tree_(MakeTree(training.workers)) {
    const uint64_t half = training.bucket_bytes / 2;
    segments_ = 2 * static_cast<uint32_t>(std::max<uint64_t>(1, half / segment_bytes));
    segment_bytes_ = static_cast<double>(training.bucket_bytes) / segments_;
    for (uint32_t i = 0; i < training.workers; ++i) workers_.push_back(fabric_.AddNode(training.link_bytes_per_s, 1));
  }

  double Run() {
    for (const NodeNumber worker : workers_) fabric_.SetProgram(worker, [this, worker] { RunWorker(worker); });
    return fabric_.Run(training_.workers);
  }

 private:
  // In the second tree everybody has moved up by one, which makes its leaves inner nodes (the numbers of leaves are
  // odd).
  uint32_t PlaceOf(NodeNumber worker, uint32_t segment) const { return (worker + segment % 2) % training_.workers + 1; }
  NodeNumber WorkerAt(uint32_t place, uint32_t segment) const {
    return (place - 1 + training_.workers - segment % 2) % training_.workers;
  }

  void Send(NodeNumber worker, uint32_t place, uint32_t bucket, uint32_t segment, bool down) {
    fabric_.SpendMessages(1);
    fabric_.Send(worker, WorkerAt(place, segment), segment_bytes_, 1,
                 {.bucket = bucket, .part = 2 * segment + (down ? 1 : 0)});
  }

  void RunWorker(NodeNumber worker) {
    std::vector<std::vector<uint32_t>> gathered(training_.buckets, std::vector<uint32_t>(segments_, 0));
    std::vector<uint32_t> missing(training_.buckets, segments_);
    uint32_t opened = 0;
    uint32_t done = 0;
    // What the worker has of a segment goes up when all below it have come, and down from the root.
    const auto advance = [&](uint32_t bucket, uint32_t segment) {
      const TreeNode& node = tree_[PlaceOf(worker, segment)];
      if (bucket >= opened || gathered[bucket][segment] < node.children.size()) return false;
      if (node.parent != 0) Send(worker, node.parent, bucket, segment, false);
      return node.parent == 0;
    };
    const auto complete = [&](uint32_t bucket, uint32_t segment) {
      for (const uint32_t child : tree_[PlaceOf(worker, segment)].children) Send(worker, child, bucket, segment, true);
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
    open_buckets();
    while (done < training_.buckets) {
      const Message message = fabric_.Receive(worker);
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
    fabric_.Finish();
  }

  Fabric& fabric_;
  const Training training_;
  const std::vector<TreeNode> tree_;
  uint32_t segments_ = 0;
  double segment_bytes_ = 0;
  std::vector<NodeNumber> workers_;
};

// In lockstep a ring of a few workers that take all steps of a long one's keeps its time: each link carries the same.
void RunRingWorker(Fabric* fabric, const Training& training, NodeNumber worker) {
  const NodeNumber next = (worker + 1) % training.groups;
  const uint32_t steps = 2 * (training.workers - 1);
  const double piece_bytes = static_cast<double>(training.bucket_bytes) / training.workers;
  const auto send = [&](uint32_t bucket, uint32_t step) {
    fabric->SpendMessages(1);
    fabric->Send(worker, next, piece_bytes, 1, {.bucket = bucket, .part = step});
  };
  uint32_t opened = 0;
  while (opened < std::min(training.in_flight, training.buckets)) send(opened++, 0);
  for (uint32_t done = 0; done < training.buckets;) {
    const Message message = fabric->Receive(worker);
    fabric->SpendMessages(1);
    if (message.part + 1 < steps) {
      send(message.bucket, message.part + 1);
      continue;
    }
    ++done;
    if (opened < training.buckets) send(opened++, 0);
  }
  fabric->Finish();
}

}  // namespace

double RunRing(Fabric* fabric, const Training& training) {
  std::vector<NodeNumber> workers;
  for (uint32_t i = 0; i < training.groups; ++i) workers.push_back(fabric->AddNode(training.link_bytes_per_s, 1));
  for (const NodeNumber worker : workers) {
    fabric->SetProgram(worker, [fabric, &training, worker] { RunRingWorker(fabric, training, worker); });
  }
  return fabric->Run(training.groups);
}

double RunDoubleTree(Fabric* fabric, const Training& training, uint32_t segment_bytes) {
  return TreeRun(fabric, training, segment_bytes).Run();
}

}  // namespace shoal::fabric_model
