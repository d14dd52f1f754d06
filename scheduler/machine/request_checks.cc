#include "scheduler/machine/request_checks.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/bucket_plan.h"
#include "core/colocation.h"
#include "core/name.h"
#include "core/node_reduce.h"
#include "core/shard_map.h"
#include "core/utf8.h"
#include "core/version.h"
#include "core/wire_format.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kMostShown = 8;

template <typename Value>
std::string List(const std::vector<Value>& values) {
  std::string text;
  const size_t shown = std::min(values.size(), kMostShown);
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", values[i]);
  if (shown < values.size()) absl::StrAppend(&text, " and ", values.size() - shown, " more");
  return text;
}

// Of the node, which a process need not name.
absl::Status CheckNode(const std::string& node) {
  return node.empty() ? absl::OkStatus() : CheckName("node name", node);
}

absl::Status CheckIncarnation(Incarnation incarnation) {
  if (incarnation.value() != 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the incarnation is 0; a process draws a random one when it starts");
}

absl::Status CheckNodeReduce(const std::string& who, const std::optional<NodeReduceRequest>& request) {
  if (!request.has_value()) return absl::OkStatus();
  if (!NodeReduceChoiceFromNumber(request->choice).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, " asks for node_reduce ", request->choice, "; give ", static_cast<int>(NodeReduceChoice::kAuto),
        " (auto), ", static_cast<int>(NodeReduceChoice::kOff), " (off), ", static_cast<int>(NodeReduceChoice::kHost),
        " (host) or ", static_cast<int>(NodeReduceChoice::kNccl), " (nccl)"));
  }
  const std::string& identity = request->node_identity;
  if (identity.size() <= kMaxNameBytes && IsPrintable(identity)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(who, " gave the node identity \"", CleanText(identity), "\" of ",
                                                 identity.size(), " bytes; give at most ", kMaxNameBytes,
                                                 " bytes of UTF-8 without control characters"));
}

absl::Status CheckGroupCount(JobRank rank, size_t count) {
  if (count <= kMaxGroupsClosedAtOnce) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", rank.value(), " closes ", count,
                                                 " groups with one call; close at most ", kMaxGroupsClosedAtOnce));
}

bool IsAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || address.size() > kMaxNameBytes) return false;
  const std::string port_text = address.substr(colon + 1);
  uint32_t port = 0;
  const bool digits =
      std::all_of(port_text.begin(), port_text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits && absl::SimpleAtoi(port_text, &port) && port >= 1 && port <= 65535 &&
         std::all_of(address.begin(), address.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

absl::Status CheckControlVersion(uint32_t peer_version, uint32_t peer_oldest, const std::string& peer_software,
                                 const std::string& who) {
  if (CanSpeakWith(peer_version, peer_oldest)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      who, " speaks control version ", peer_version, " (Shoal ", peer_software.empty() ? "?" : CleanText(peer_software),
      "), this scheduler speaks ", kOldestControlVersion, " to ", kControlVersion, " (Shoal ", kSoftwareVersion,
      "); update ", peer_version < kControlVersion ? who : "the scheduler"));
}

absl::Status CheckRequest(const RegisterServer& request) {
  if (absl::Status status = CheckName("server name", request.name); !status.ok()) return status;
  if (absl::Status status = CheckNode(request.node); !status.ok()) return status;
  if (absl::Status status = CheckIncarnation(request.incarnation); !status.ok()) return status;
  if (request.addresses.empty() || request.addresses.size() > kMaxIoThreads) {
    return absl::InvalidArgumentError(absl::StrCat("server ", request.name, " gave ", request.addresses.size(),
                                                   " addresses; give 1 to ", kMaxIoThreads, ", one per I/O thread"));
  }
  for (const std::string& address : request.addresses) {
    if (!IsAddress(address)) {
      return absl::InvalidArgumentError(absl::StrCat("server ", request.name, " gave the address \"",
                                                     CleanText(address),
                                                     "\"; give ip:port with a port from 1 to 65535"));
    }
  }
  if (std::set<std::string>(request.addresses.begin(), request.addresses.end()).size() != request.addresses.size()) {
    return absl::InvalidArgumentError(absl::StrCat("server ", request.name, " gave the same address twice (",
                                                   absl::StrJoin(request.addresses, ", "),
                                                   "); give each I/O thread its own"));
  }
  if (request.weight > kMaxShardWeight) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", request.name, " has weight ", request.weight, "; give 1 to ", kMaxShardWeight));
  }
  return absl::OkStatus();
}

std::string WhoJoins(const JoinJob& request) {
  if (!request.open.has_value()) {
    return absl::StrCat("rank ", request.rank.value(), " of job \"", request.job_name, "\"");
  }
  return absl::StrCat("process ", request.pid, " on node ", CleanText(request.node), ", of open job \"",
                      CleanText(request.job_name), "\",");
}

namespace {

absl::Status CheckPlace(const JoinJob& request) {
  if (request.world_size == 0 || request.world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat("world size ", request.world_size, " of job \"", request.job_name,
                                                   "\" is out of range; give 1 to ", kMaxWorldSize));
  }
  if (request.rank.value() >= request.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", request.rank.value(), " is out of range: job \"",
                                                   request.job_name, "\" has world size ", request.world_size,
                                                   ", so ranks 0 to ", request.world_size - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckOpenJob(const JoinJob& request) {
  const OpenJob& open = *request.open;
  if (open.min_ranks == 0 || open.min_ranks > kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat(WhoJoins(request), " says that the job needs ", open.min_ranks,
                                                   " ranks at least; give 1 to ", kMaxWorldSize));
  }
  if (request.world_size == 0 && request.rank == JobRank(0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(WhoJoins(request), " gives rank ", request.rank.value(),
                                                 " and world size ", request.world_size,
                                                 "; an open job has no size, and gives each process its rank"));
}

}  // namespace

absl::Status CheckRequest(const JoinJob& request) {
  if (absl::Status status = CheckName("job name", request.job_name); !status.ok()) return status;
  if (absl::Status status = CheckNode(request.node); !status.ok()) return status;
  if (absl::Status status = CheckIncarnation(request.incarnation); !status.ok()) return status;
  if (request.open.has_value()) {
    if (absl::Status status = CheckOpenJob(request); !status.ok()) return status;
  } else if (absl::Status status = CheckPlace(request); !status.ok()) {
    return status;
  }
  if (!ColocationFromNumber(request.colocation).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        WhoJoins(request), " asks for colocation ", request.colocation, "; give ", static_cast<int>(Colocation::kOff),
        " (off), ", static_cast<int>(Colocation::kAuto), " (auto) or ", static_cast<int>(Colocation::kOn), " (on)"));
  }
  return CheckNodeReduce(WhoJoins(request), request.node_reduce);
}

absl::Status CheckRequest(const JoinGroup& request, uint32_t world_size) {
  if (absl::Status status = CheckName("group name", request.group_name); !status.ok()) return status;
  const std::string who = absl::StrCat("group \"", request.group_name, "\" asked for by rank ", request.rank.value());
  if (request.ranks.empty() || request.ranks.size() > world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " lists ", request.ranks.size(), " ranks; list 1 to ", world_size, " (the world size)"));
  }
  std::vector<bool> listed(world_size, false);
  for (const JobRank rank : request.ranks) {
    if (rank.value() >= world_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, " lists rank ", rank.value(), ", but the job has world size ", world_size));
    }
    if (listed[rank.value()]) {
      return absl::InvalidArgumentError(absl::StrCat(who, " lists rank ", rank.value(), " twice"));
    }
    listed[rank.value()] = true;
  }
  if (!listed[request.rank.value()]) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " does not contain that rank (it lists ", RankList(request.ranks), ")"));
  }
  const uint32_t chunk_bytes = request.max_chunk_bytes;
  if (chunk_bytes != 0 && (chunk_bytes < kMinChunkBytes || chunk_bytes > kMaxChunkBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(who, " has a chunk size of ", chunk_bytes, " bytes; give ",
                                                   kMinChunkBytes, " to ", kMaxChunkBytes,
                                                   ", or 0 to let the scheduler choose"));
  }
  if (!WireFormatFromNumber(request.wire).has_value()) {
    std::vector<std::string> known;
    for (const WireFormat wire : kWireFormats) {
      known.push_back(absl::StrCat(static_cast<int>(wire), " (", std::string(WireFormatName(wire)), ")"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(who, " asks for wire ", request.wire, "; give one of ", absl::StrJoin(known, ", ")));
  }
  return CheckNodeReduce(who, request.node_reduce);
}

absl::Status CheckRequest(const CloseGroups& request) {
  const size_t told = request.groups.size() + request.given_up_requests.size() + request.failures.size();
  return CheckGroupCount(request.rank, std::max(told, request.committed_groups.size()));
}

absl::Status CheckRequest(const LeaveJob& request) {
  return CheckGroupCount(request.rank, std::max({request.failures.size(), request.given_up_requests.size(),
                                                 request.committed_groups.size()}));
}

std::string CleanText(const std::string& text) { return MakePrintable(text, kMaxTextBytes); }

std::string RankList(const std::vector<JobRank>& ranks) {
  std::vector<uint32_t> numbers;
  numbers.reserve(ranks.size());
  for (const JobRank rank : ranks) numbers.push_back(rank.value());
  return List(numbers);
}

std::string NameList(const std::vector<std::string>& names) { return List(names); }

}  // namespace shoal::scheduler
