#include "scheduler/insight/page_room.h"

#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/node_reduce.h"
#include "core/wire_format.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// A field of protobuf has a number of one byte, and text, lists and messages have a length, here below 2^21.
constexpr size_t kNumberBytes = 1 + 10;
constexpr size_t kFractionBytes = 1 + 8;
constexpr size_t kFlagBytes = 1 + 1;
constexpr size_t kLengthBytes = 1 + 3;
constexpr size_t kListedRankBytes = 5;

constexpr size_t kMissingServersBytes = kLengthBytes + 2 * kNumberBytes;

size_t TextBytes(std::string_view text) { return kLengthBytes + text.size(); }

template <typename Ranks>
size_t RanksBytes(const Ranks& ranks) {
  return kLengthBytes + kListedRankBytes * ranks.size();
}

size_t LoadBytes(const ServerLoad& load) {
  constexpr size_t kNumbers = 17;
  constexpr size_t kMemoryOfJobBytes = kLengthBytes + 2 * kNumberBytes;
  size_t bytes = kLengthBytes + kNumbers * kNumberBytes + TextBytes(load.transports) +
                 load.memory_by_job.size() * kMemoryOfJobBytes;
  for (const auto& [reason, count] : load.refusals_by_reason) bytes += kLengthBytes + TextBytes(reason) + kNumberBytes;
  return bytes;
}

size_t LoadBytes(const WorkerLoad& load) {
  constexpr size_t kNumbers = 10;
  return kLengthBytes + kNumbers * kNumberBytes + TextBytes(load.transports);
}

size_t BytesOfAllRanks(const WorkerLoad& load) {
  return LoadBytes(load) + kLengthBytes + load.op_times.counts.size() * kNumberBytes;
}

}  // namespace

bool PageRoom::Take(size_t bytes) {
  if (bytes > left_bytes_) return false;
  left_bytes_ -= bytes;
  return true;
}

size_t MostBytes(const ServerView& server) {
  constexpr size_t kNumbers = 8;
  const ServerState& state = server.state;
  constexpr size_t kRatesBytes = kLengthBytes + 6 * kFractionBytes;
  size_t bytes = kLengthBytes + kNumbers * kNumberBytes + kFlagBytes + TextBytes(state.name) + TextBytes(state.node) +
                 TextBytes(ServerStateName(state)) + TextBytes(state.reason) + TextBytes(state.software_version) +
                 TextBytes(state.transports) + LoadBytes(server.load) + kRatesBytes;
  for (const std::string& address : state.addresses) bytes += TextBytes(address);
  return bytes;
}

size_t MostBytes(const RankView& rank) {
  constexpr size_t kNumbers = 4;
  constexpr size_t kRatesBytes = kLengthBytes + 3 * kFractionBytes;
  const RankState& state = rank.state;
  return kLengthBytes + kNumbers * kNumberBytes + TextBytes(state.node) + TextBytes(MemberPhaseName(state.phase)) +
         TextBytes(state.reason) + TextBytes(state.identity) + LoadBytes(rank.load) +
         (rank.rates.has_value() ? kRatesBytes : 0);
}

size_t MostBytes(const GroupView& group) {
  constexpr size_t kNumbers = 6;
  constexpr size_t kLinkBytes = kLengthBytes + 3 * kNumberBytes + kFlagBytes;
  constexpr std::string_view kLongestState = "waiting";
  const GroupState& state = group.state;
  return kLengthBytes + kNumbers * kNumberBytes + kLinkBytes + TextBytes(state.name) + RanksBytes(state.ranks) +
         RanksBytes(group.missing_ranks) + RanksBytes(state.lost) + TextBytes(kLongestState) +
         TextBytes(WireFormatName(state.wire)) + TextBytes(NodeReduceModeName(state.node_reduce)) +
         (group.missing_servers.has_value() ? kMissingServersBytes : 0);
}

size_t MostBytes(const SlowRank& rank) {
  constexpr size_t kNumbers = 3;
  return kLengthBytes + kNumbers * kNumberBytes + kFractionBytes + TextBytes(SlowCauseName(rank.cause)) +
         TextBytes(SlowCauseText(rank.cause));
}

size_t MostBytes(const SlowServer& server) {
  constexpr size_t kNumbers = 3;
  return kLengthBytes + kNumbers * kNumberBytes + kFractionBytes + TextBytes(server.name) + TextBytes(server.node) +
         TextBytes(server.CauseName()) + TextBytes(server.Advice());
}

size_t MostBytesOfJobAlone(const JobView& job) {
  constexpr size_t kNumbers = 5;
  constexpr size_t kRatesBytes = kLengthBytes + 4 * kFractionBytes + 3 * kNumberBytes;
  return kLengthBytes + kNumbers * kNumberBytes + kFlagBytes + TextBytes(job.name) +
         TextBytes(JobPhaseName(job.phase)) + TextBytes(job.failure) + BytesOfAllRanks(job.load) + kRatesBytes +
         (job.missing_servers.has_value() ? kMissingServersBytes : 0);
}

absl::StatusOr<uint64_t> NumberInToken(const std::string& text, const std::string& token) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return BadPageToken(token);
}

absl::Status BadPageToken(const std::string& token) {
  return absl::InvalidArgumentError(
      absl::StrCat("page_token \"", CleanText(token),
                   "\" is none that a scheduler gives as next_page_token; ask again without one, for the first page"));
}

}  // namespace shoal::scheduler
