#include "sim/wire_audit.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/token.h"

namespace shoal::sim {

void WireAudit::Fail(const std::string& who, const FrameHeader& header, const std::string& what) {
  fail_(absl::StrCat(who, ", group ", header.group.value(), " epoch ", header.epoch.value(), " op ", header.op.value(),
                     " chunk ", header.chunk.value(), " rank ", header.rank.value(), ": ", what));
}

GroupId WireAudit::AnyGroup(uint64_t random) const {
  if (groups_.empty()) return {};
  return std::next(groups_.begin(), static_cast<int64_t>(random % groups_.size()))->first;
}

bool WireAudit::GathersAfterMove(GroupId group, const Shard& shard) const {
  const auto first = first_epochs_.find(group);
  const auto known = groups_.find(group);
  if (first == first_epochs_.end() || known == groups_.end() || shard.ended || shard.epoch <= first->second) {
    return false;
  }
  return std::any_of(shard.chunks.begin(), shard.chunks.end(), [&](const auto& chunk) {
    return !chunk.second.tickets.empty() && chunk.second.landed.size() < known->second.ranks.size();
  });
}

bool WireAudit::GathersAfterMove(GroupId group) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& entry) {
    return entry.first.second == group && GathersAfterMove(group, entry.second);
  });
}

bool WireAudit::GathersAfterMove(const std::string& server) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& entry) {
    return entry.first.first == server && GathersAfterMove(entry.first.second, entry.second);
  });
}

uint32_t WireAudit::CountIn(GroupId group, Epoch epoch, uint32_t size) const {
  const auto found = rosters_.find({group, epoch});
  return found == rosters_.end() ? size : found->second.count();
}

bool WireAudit::IsIn(GroupId group, Epoch epoch, Rank rank) const {
  const auto found = rosters_.find({group, epoch});
  return found == rosters_.end() || found->second.Has(rank);
}

void WireAudit::OpEnded(GroupId group, Rank rank, OpNumber op) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  RankProgress& progress = found->second.ranks[rank.value()];
  progress.ended.insert(op);
  while (progress.ended.erase(OpNumber(progress.done.value() + 1)) > 0) {
    progress.done = OpNumber(progress.done.value() + 1);
  }
}

void WireAudit::RailOpCalled(GroupId group, Rank rank, OpNumber op, uint32_t chunks) {
  if (chunks == 0) return OpEnded(group, rank, op);
  groups_.at(group).ranks[rank.value()].under_way[op].chunks = chunks;
}

void WireAudit::ResultLanded(const FrameHeader& header, Rank rank) {
  const auto group = groups_.find(header.group);
  if (group == groups_.end()) return;
  std::map<OpNumber, RailOp>& under_way = group->second.ranks[rank.value()].under_way;
  const auto op = under_way.find(header.op);
  if (op == under_way.end()) return;
  op->second.landed.insert(header.chunk);
  if (op->second.landed.size() < op->second.chunks) return;
  under_way.erase(op);
  OpEnded(header.group, rank, header.op);
}

void WireAudit::NoteSent(const std::string& who, uint64_t connection, std::span<const std::byte> note) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(note);
  if (!header.ok()) return fail_(absl::StrCat(who, " sent garbage: ", header.status().message()));
  if (header->type == FrameType::kHello) {
    Epoch& newest = worker_epochs_[{who, header->group}];
    newest = std::max(newest, header->epoch);
    links_[{connection, header->group}] = {.epoch = header->epoch, .rank = header->rank};
    Epoch& first = first_epochs_.try_emplace(header->group, header->epoch).first->second;
    first = std::min(first, header->epoch);
    const auto group = groups_.find(header->group);
    const std::span<const std::byte> sealed = note.subspan(std::min(note.size(), kFrameHeaderBytes + kGroupTokenBytes));
    if (group == groups_.end() || sealed.empty()) return;
    const auto roster = DecodeRoster(static_cast<uint32_t>(group->second.ranks.size()), sealed);
    if (roster.ok()) rosters_.try_emplace({header->group, header->epoch}, *roster);
  } else if (header->type == FrameType::kWelcome) {
    const absl::StatusOr<Welcome> welcome = DecodeWelcome(note.subspan(kFrameHeaderBytes));
    if (!welcome.ok()) return Fail(who, *header, "an unreadable welcome");
    Welcomed(who, connection, *header, welcome->credit_chunks);
  } else if (header->type == FrameType::kRefuse && header->refusal == Refusal::kPreempted) {
    // The ranks that pushed to it are asked to push again.
    shards_[{who, header->group}].chunks.erase({header->op, header->chunk});
  } else if (header->type == FrameType::kRefuse && header->chunk_elements == 0 &&
             (header->refusal == Refusal::kGroupFailedBefore || header->refusal == Refusal::kGroupLackedMemory)) {
    ++hellos_to_ended_groups_;
  } else if (const auto shard = shards_.find({who, header->group});
             shard != shards_.end() && shard->second.epoch == header->epoch &&
             (header->type == FrameType::kGroupFailed || header->type == FrameType::kRankLost)) {
    shard->second.ended = true;
  }
}

void WireAudit::Welcomed(const std::string& server, uint64_t connection, const FrameHeader& header, uint32_t credit) {
  Shard& shard = shards_[{server, header.group}];
  if (shard.ended) ++hellos_to_ended_groups_;
  // A rank that is welcomed twice: the group had come to its end there and was opened anew.
  if (shard.epoch != header.epoch || shard.welcomed.contains(header.rank)) shard = {.epoch = header.epoch};
  shard.welcomed.insert(header.rank);
  const auto group = groups_.find(header.group);
  if (group != groups_.end() && credit > group->second.most_credit) {
    Fail(server, header,
         absl::StrCat("grants a credit of ", credit, " where ", group->second.most_credit, " was planned (credit)"));
  }
  Link& link = links_[{connection, header.group}];
  if (link.epoch == header.epoch) link.credit = credit;
}

void WireAudit::PayloadSent(const std::string& who, uint64_t connection, std::span<const std::byte> bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return fail_(absl::StrCat(who, " sent garbage: ", header.status().message()));
  if (header->type == FrameType::kResult) return ResultSent(who, connection, *header);
  if (header->type == FrameType::kPush && header->contributors == 0) return Pushed(who, connection, *header);
}

void WireAudit::ResultSent(const std::string& server, uint64_t connection, const FrameHeader& header) {
  const Shard& shard = shards_[{server, header.group}];
  if (shard.epoch != header.epoch) return Fail(server, header, "sent the result of an epoch that is over (stale)");
  const auto link = links_.find({connection, header.group});
  if (link == links_.end() || link->second.rank != header.rank) {
    Fail(server, header, "sent the result to another rank (wrong rank)");
  }
  const auto group = groups_.find(header.group);
  const auto chunk = shard.chunks.find({header.op, header.chunk});
  const size_t landed = chunk == shard.chunks.end() ? 0 : chunk->second.landed.size();
  if (group != groups_.end() &&
      landed != CountIn(header.group, header.epoch, static_cast<uint32_t>(group->second.ranks.size()))) {
    Fail(server, header, absl::StrCat("sent a result when ", landed, " contributions had landed (too early)"));
  }
}

void WireAudit::Pushed(const std::string& worker, uint64_t connection, const FrameHeader& header) {
  Link& link = links_[{connection, header.group}];
  if (link.epoch != header.epoch) return Fail(worker, header, "pushed before its hello in this epoch (stale)");
  // (One that was preempted is pushed again. What comes from devices may be pushed a little out of order.)
  link.open.insert({header.op, header.chunk});
  link.window.insert({header.op, header.chunk});
  link.window.erase(link.window.begin(), link.window.find(*link.open.begin()));
  if (link.window.size() > link.credit) {
    Fail(worker, header,
         absl::StrCat("has ", link.window.size(), " chunks under way with a credit of ", link.credit, " (credit)"));
  }
}

void WireAudit::HeldTwice(const std::string& who, std::span<const std::byte> bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (header.ok()) Fail(who, *header, "keeps two copies of it waiting (held twice)");
}

void WireAudit::Arrived(std::span<const std::byte> frame) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(frame);
  if (!header.ok()) return;
  const auto group = groups_.find(header->group);
  if (group == groups_.end()) return;
  const std::vector<RankProgress>& ranks = group->second.ranks;
  if (header->rank.value() < ranks.size() && header->landed_watermark > ranks[header->rank.value()].done) {
    Fail("a worker", *header,
         absl::StrCat("says that it has all results up to op ", header->landed_watermark.value(),
                      ", but has those up to ", ranks[header->rank.value()].done.value(), " (watermark)"));
  }
  OpNumber done(UINT64_MAX);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (IsIn(header->group, header->epoch, Rank(rank))) done = std::min(done, ranks[rank].done);
  }
  if (header->commit_watermark > done) {
    Fail("somebody", *header,
         absl::StrCat("says that all ranks have all results up to op ", header->commit_watermark.value(),
                      ", but they have those up to ", done.value(), " (watermark)"));
  }
}

uint64_t WireAudit::Accepted(const std::string& who, uint64_t, std::span<const std::byte> bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  const uint64_t ticket = next_ticket_++;
  if (!header.ok()) {
    fail_(absl::StrCat(who, " took garbage: ", header.status().message()));
  } else if (header->type == FrameType::kPush) {
    Shard& shard = shards_[{who, header->group}];
    if (header->epoch != shard.epoch) Fail(who, *header, "took a contribution of another epoch (stale)");
    const auto [entry, is_new] = shard.chunks[{header->op, header->chunk}].tickets.try_emplace(header->rank, ticket);
    if (!is_new) Fail(who, *header, "took a second contribution of a rank (twice)");
  } else if (header->type == FrameType::kResult) {
    const auto epoch = worker_epochs_.find({who, header->group});
    if (epoch == worker_epochs_.end() || header->epoch < epoch->second) {
      Fail(who, *header, "took the result of an epoch that is over (stale)");
    }
  }
  return ticket;
}

void WireAudit::Landed(const std::string& who, uint64_t connection, std::span<const std::byte> bytes, uint64_t ticket,
                       bool ok) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return;
  if (header->type == FrameType::kResult) {
    const auto link = links_.find({connection, header->group});
    if (!ok || link == links_.end()) return;
    ResultLanded(*header, link->second.rank);
    if (link->second.epoch == header->epoch) link->second.open.erase({header->op, header->chunk});
    return;
  }
  Shard& shard = shards_[{who, header->group}];
  if (shard.epoch != header->epoch) return;
  const auto chunk = shard.chunks.find({header->op, header->chunk});
  if (chunk == shard.chunks.end()) return;
  const auto accepted = chunk->second.tickets.find(header->rank);
  if (accepted == chunk->second.tickets.end() || accepted->second != ticket) return;
  if (ok) {
    chunk->second.landed.insert(header->rank);
  } else {
    chunk->second.tickets.erase(accepted);
  }
}

}  // namespace shoal::sim
