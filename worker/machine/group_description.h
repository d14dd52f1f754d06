// A group in words, for lines about waits and for errors: its ops, what they lack, and who is waited for.
//
// A view: made where words are needed, from what outlives it. One thread.
#ifndef SHOAL_WORKER_MACHINE_GROUP_DESCRIPTION_H_
#define SHOAL_WORKER_MACHINE_GROUP_DESCRIPTION_H_

#include <string>

#include "absl/status/status.h"
#include "core/frame.h"
#include "core/now.h"
#include "worker/machine/chunk_flow.h"
#include "worker/machine/group_words.h"

namespace shoal {

class GroupDescription {
 public:
  GroupDescription(const ChunkFlow* flow, const Connections* connections) : flow_(*flow), connections_(*connections) {}

  const std::string& name() const { return flow_.info().name; }
  // "all-reduce 7 of group "world" (100 float32)"
  std::string Op(const WorkerOp& op) const { return OpOfGroup(flow_.info(), op); }
  // "2 of 5 chunks are back, chunk 1 is the first missing one"
  static std::string Progress(const WorkerOp& op);
  // Ranks as a server named them.
  std::string MissingRanks(const Waiting& missing) const;
  // Ranks or servers that an op waits for, or (null) the end of a closed group, where `missing` is the servers' newest
  // word on it.
  std::string WaitedFor(const WorkerOp* op, const Waiting& missing) const;
  // The ops whose results some rank may lack: "all-reduces 1 to 2".
  std::string Uncommitted() const;
  // The servers on which the group is not open, and why.
  std::string MissingServers() const;
  // What keeps an op whose deadline has come.
  std::string WhyNotDone(const WorkerOp& op, bool is_opening) const;
  // The error of such an op.
  absl::Status Timeout(const WorkerOp& op, bool is_opening, Now now) const;

 private:
  // All that the op still waits for is the device: chunks of its tensor are being copied, and none is elsewhere.
  bool WaitsForCopies(const WorkerOp& op) const;
  // Of a tensor on a device, which holds no contribution yet.
  static bool LacksTensor(const WorkerOp& op) { return op.on_device() && !op.HasAllElements(); }
  std::string WhyNotOpen(const ShardLink& link) const;
  // What an op still lacks, server by server.
  std::string Lacks(const WorkerOp& op) const;

  const ChunkFlow& flow_;
  const Connections& connections_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_GROUP_DESCRIPTION_H_
