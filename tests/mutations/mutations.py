"""Deliberate bugs, each of which the seeds of `make test` have to find, or one test that it names (run_mutations.py
tries it).

A mutation replaces text that is in a file exactly once, so it outlives most changes around it; one that no longer fits
fails test_mutations.py, and is to be written anew.
"""

from cuda_mutations import CUDA_MUTATIONS
from device_mutations import DEVICE_MUTATIONS
from local_reduce_mutations import LOCAL_REDUCE_MUTATIONS
from mutation import CxxTest, mutation
from node_mutations import NODE_MUTATIONS
from plugin_mutations import PLUGIN_MUTATIONS
from roster_mutations import ROSTER_MUTATIONS
from scheduler_mutations import SCHEDULER_MUTATIONS

# Of the protocol, in the simulator.
SIMULATOR_MUTATIONS = [
    # ---- core ----
    mutation(
        "one-chunk-beyond-the-credit",
        "a worker has at most its credit of chunks at a server",
        ("core/credit_window.h", "next_ < oldest_ + finished_.size()", "next_ <= oldest_ + finished_.size()"),
    ),
    mutation(
        "duplicate-is-counted",
        "I2: a contribution counts once",
        (
            "core/chunk_slot.cc",
            "if (state_ != State::kGathering || abandoned_ || offered_[rank.value()])",
            "if (state_ != State::kGathering || abandoned_)",
        ),
    ),
    mutation(
        "sum-without-the-last-rank",
        "I2: every contribution counts",
        (
            "core/chunk_slot.cc",
            "if (++landed_count_ < expected_) return false;",
            "if (++landed_count_ + 1 < expected_) return false;",
        ),
    ),
    mutation(
        "slot-is-free-after-the-first-reply",
        "memory is not used again while the network reads it",
        ("core/chunk_slot.cc", "  if (busy_ > 0) return false;\n  state_ = State::kFree;", "  state_ = State::kFree;"),
    ),
    mutation(
        "port-holds-as-much-for-each-rank",
        "what is under way to a port fits it, however many ranks send there",
        (
            "core/flow_plan.cc",
            "static_cast<double>(std::min(in_buffer + on_the_way, kCacheBytes)) / load.busiest_port;",
            "static_cast<double>(std::min(in_buffer + on_the_way, kCacheBytes));",
        ),
    ),
    mutation(
        "size-of-ports-is-not-planned-with",
        "what the scheduler was told that ports hold bounds what is under way",
        (
            "scheduler/machine/group_opener.cc",
            "PlanFlow(load, link, round.max_chunk_bytes, settings_.port_buffer_bytes);",
            "PlanFlow(load, link, round.max_chunk_bytes);",
        ),
    ),
    mutation(
        "version-of-the-same-release-is-refused",
        "two releases that have a version in common work together",
        ("core/version.h", "return peer_version >= oldest &&", "return peer_version > oldest + 1 &&"),
    ),
    mutation(
        "int8-scale-of-what-rounds-up-to-128",
        "no number of a block of int8 is rounded to more than 127",
        ("reduce/block_numbers.h", "kTooLargeMantissa = 0x7f0000;", "kTooLargeMantissa = 0x800000;"),
        test=CxxTest("reduce_test", "Wire/Block.EveryKernelEncodesAsTheReference/int8"),
    ),
    mutation(
        "fp8-scale-of-what-rounds-up-to-480",
        "no number of a block of fp8 is rounded to more than 448, which would be NaN",
        ("reduce/block_numbers.h", "kTooLargeMantissa = 0x680001;", "kTooLargeMantissa = 0x780001;"),
        test=CxxTest("reduce_test", "Wire/Block.EveryKernelEncodesAsTheReference/fp8"),
    ),
    mutation(
        "node-sums-parts-of-blocks",
        "I1: numbers that share a scale are summed together within a node",
        ("sim/sim_local_reduce.cc", "op.op.codec.is_identity() ? 1 : op.op.codec.alignment_elements();", "1;"),
    ),
    # ---- server ----
    mutation(
        "server-takes-stale-pushes",
        "I4: a message of an epoch that is over is refused",
        (
            "server/machine/server_machine.cc",
            "  if (header.epoch < group.epoch()) return Refusal::kStaleEpoch;\n  if (header.rank",
            "  if (header.rank",
        ),
        (
            "server/machine/server_machine.cc",
            "  if (header.epoch != group.epoch()) return Refusal::kStaleEpoch;\n  *found",
            "  *found",
        ),
    ),
    mutation(
        "summed-chunk-is-forgotten",
        "I2: a late copy is refused",
        (
            "server/machine/server_group.cc",
            "return (*op)->summed[push.chunk.value()] ? Refusal::kDuplicate : Refusal::kNone;",
            "return Refusal::kNone;",
        ),
    ),
    mutation(
        "summed-in-order-of-arrival",
        "I1: the bits do not depend on the order of arrival",
        (
            "server/machine/chunk_exchange.cc",
            ".offset = group.BufferOffset(index, header.rank),",
            ".offset = group.BufferOffset(index, Rank(slot.landed_count() + slot.busy() - 1)),",
        ),
    ),
    mutation(
        "nobody-is-asked-for-results",
        "I5: a rank that has the result of an unfinished chunk hands it over",
        (
            "server/machine/group_notes.cc",
            "slot.op() > state.newest_result ||",
            "slot.op() <= state.newest_result ||",
        ),
    ),
    mutation(
        "result-in-place-of-a-contribution-is-summed",
        "I5: nothing is summed twice",
        (
            "server/machine/chunk_exchange.cc",
            "if (!slot.HasResultOf(Rank(r))) continue;",
            "if (slot.op() != OpNumber(0)) continue;",
        ),
    ),
    mutation(
        "result-goes-to-the-next-rank",
        "a result goes to the rank that it is for",
        (
            "server/machine/chunk_exchange.cc",
            "SendPayloadAction{.peer = group.rank_state(rank).peer,",
            "SendPayloadAction{.peer = group.rank_state(Rank((rank.value() + 1) % group.size())).peer,",
        ),
    ),
    mutation(
        "commit-watermark-one-too-high",
        "I3: results are kept until every rank has them",
        (
            "server/machine/server_group.cc",
            "ledger_.Commit(std::max(landed_everywhere, header.commit_watermark));",
            "ledger_.Commit(std::max(OpNumber(landed_everywhere.value() + 1), header.commit_watermark));",
        ),
    ),
    mutation(
        "commit-watermark-of-the-fastest-rank",
        "I3: results are kept until every rank has them",
        (
            "server/machine/server_group.cc",
            "landed_everywhere = std::min(landed_everywhere, ranks_[r].landed_watermark);",
            "landed_everywhere = std::max(landed_everywhere, ranks_[r].landed_watermark);",
        ),
    ),
    mutation(
        "new-epoch-keeps-what-was-gathered",
        "I5: an epoch is a fresh start on the servers",
        (
            "server/machine/server_machine.cc",
            "  ChunkExchange::AbandonAll(&group, actions);\n  for (uint32_t r = 0;",
            "  for (const auto& push : group.TakePending()) actions->push_back(DeclineAction{push.offer});\n"
            "  for (uint32_t r = 0;",
        ),
    ),
    mutation(
        "copies-of-held-pushes-are-held-too",
        "I7: a copy takes no place that another rank's push needs",
        (
            "server/machine/chunk_exchange.cc",
            "  if (group.IsPending(header)) return refusals_.RefuseOffer(",
            "  if (group.IsPending(header) && group.PendingIsFull()) return refusals_.RefuseOffer(",
        ),
    ),
    mutation(
        "server-declares-ranks-lost-after-a-second",
        "a rank is lost only if the job cannot go on with it by any server",
        (
            "server/machine/absent_ranks.cc",
            "  return std::max(absent.absent_since_ns, scheduler_heard_ns_) +\n"
            "         ServerPatienceNs(lease_ttl_ns_, scheduler_is_colocated_);",
            "  return absent.absent_since_ns + kNsPerS;",
        ),
    ),
    mutation(
        "group-that-ended-binds-every-epoch",
        "F3: what a server has concluded in one epoch about ranks that it could not reach binds no later epoch",
        (
            "server/machine/absent_ranks.cc",
            "  return std::max(absent.absent_since_ns, scheduler_heard_ns_) +\n"
            "         ServerPatienceNs(lease_ttl_ns_, scheduler_is_colocated_);",
            "  return std::max(absent.absent_since_ns, scheduler_heard_ns_) + 2 * lease_ttl_ns_;",
        ),
        (
            "server/machine/group_table.cc",
            "return group.id == id && ServerGroup::Binds(group.failure_of, group.epoch, epoch);",
            "return group.id == id;",
        ),
        ("server/machine/admission.cc", "if (group.FailureBinds(epoch)) {", "if (group.failed()) {"),
    ),
    # ---- net ----
    mutation(
        "payload-waits-for-room-in-the-arena",
        "T11: no payload waits until another one is taken or returned",
        (
            "net/shm/shm_outgoing.cc",
            "  if (offset.has_value()) {\n    record.type",
            "  const size_t most_bytes = shared_.lent->arena().bytes().size() - kStatusPageBytes;\n"
            "  if (!offset.has_value() && payload.size() <= most_bytes) return false;\n"
            "  if (offset.has_value()) {\n    record.type",
        ),
    ),
    mutation(
        "changed-payload-is-taken",
        "F18: nothing of a payload that was changed on its way is summed or given to a caller",
        (
            "net/observed_transport.cc",
            "if (found == expected.checksum) return absl::OkStatus();",
            "if (found != 0) return absl::OkStatus();",
        ),
    ),
    mutation(
        "results-have-no-checksum",
        "F18: a server answers with checksums to every peer that sent it one",
        (
            "net/observed_transport.cc",
            "if (options_.checksums == Checksums::kToAskers) askers_",
            "if (options_.checksums == Checksums::kToAll) askers_",
        ),
    ),
    mutation(
        "changed-payload-keeps-its-connection",
        "F18: nothing that came over a connection can be trusted once a payload of it was changed",
        ("net/observed_transport.cc", "  below()->Close(expected.peer);\n", ""),
    ),
    # ---- worker ----
    mutation(
        "worker-takes-stale-results",
        "I4: a message of an epoch that is over is refused",
        (
            "worker/machine/chunk_flow.cc",
            "header.epoch == links_.epoch() ? ops_.Find(header.op) : nullptr;",
            "ops_.Find(header.op);",
        ),
    ),
    mutation(
        "result-lands-while-the-push-is-read",
        "a tensor belongs to the network until that says it is done",
        (
            "worker/machine/chunk_in_flight.h",
            "return sent_ && held_offer_ != OfferId(0);",
            "return held_offer_ != OfferId(0);",
        ),
    ),
    mutation(
        "result-lands-while-an-old-push-is-read",
        "a tensor belongs to the network until that says it is done, also of an epoch that is over",
        (
            "worker/machine/chunk_flow.cc",
            "  if (retired_.ReadsTensor(place)) return;\n",
            "",
        ),
    ),
    mutation(
        "results-are-freed-at-once",
        "I3: results are kept until every rank has them",
        (
            "worker/machine/result_keeper.cc",
            "if (result.header.op > watermark) return false;",
            "if (result.header.op.value() > watermark.value() + 1000) return false;",
        ),
    ),
    mutation(
        "results-after-a-move-are-not-kept",
        "I3: the credit proves nothing of chunks that were in flight when the group moved",
        ("worker/machine/result_keeper.cc", "if (landed <= settle_until_) {", "if (landed.op == OpNumber(0)) {"),
    ),
    mutation(
        "asked-rank-keeps-silent",
        "I5: a rank that has the result of an unfinished chunk hands it over",
        (
            "worker/machine/result_keeper.cc",
            "    if (kept == retained_.end()) return std::nullopt;\n",
            "    if (kept == retained_.end() || kept->header.op == place.op) return std::nullopt;\n",
        ),
    ),
    mutation(
        "contribution-is-handed-over-as-result",
        "I5: what is handed over is the result",
        (
            "worker/machine/result_keeper.cc",
            "if (place.chunk.value() >= op->chunk_count() || !op->HasLanded(place.chunk)) return",
            "if (place.chunk.value() >= op->chunk_count()) return",
        ),
    ),
    mutation(
        "result-is-handed-over-from-the-callers-tensor",
        "an op that is done gives its tensor back",
        ("worker/machine/result_keeper.cc", "if (op == nullptr || op->reported()) {", "if (op == nullptr) {"),
    ),
    mutation(
        "unfinished-ops-are-not-pushed-again",
        "I5: those without the result push again",
        (
            "worker/machine/chunk_flow.cc",
            "EpochLinks fresh(handle_, generation, map, ops_.first(), &connections_);",
            "EpochLinks fresh(handle_, generation, map, std::max(ops_.first(), results_.newest_pushed()),"
            " &connections_);",
        ),
        (
            "worker/machine/result_keeper.h",
            "  OpNumber newest_result() const { return newest_result_; }\n",
            "  OpNumber newest_result() const { return newest_result_; }\n"
            "  OpNumber newest_pushed() const { return newest_pushed_.op; }\n",
        ),
    ),
    mutation(
        "moved-op-keeps-its-old-owners",
        "all ranks deal a chunk to the same server",
        (
            "worker/machine/worker_op.cc",
            "  rotation_ = rotation;\n  missing_ranks_ = {};",
            "  static_cast<void>(rotation);\n  missing_ranks_ = {};",
        ),
    ),
    mutation(
        "preempted-push-is-forgotten",
        "a push that made room is pushed again",
        (
            "worker/machine/chunk_in_flight.h",
            "    again_ = true;\n    return sent_;",
            "    return again_;",
        ),
    ),
    mutation(
        "rank-leaves-with-the-only-result",
        "I3: nobody leaves before all ranks have their results",
        (
            "worker/machine/worker_group.cc",
            "info().size() == 1 || AllCommitted()) return true;",
            "info().size() >= 1) return true;",
        ),
    ),
    mutation(
        "late-rank-gives-its-group-up",
        "a rank that hears late of a map may find that the others have left a server in a newer epoch",
        (
            "worker/machine/worker_group.cc",
            "const bool behind = header.refusal == Refusal::kStaleEpoch || header.refusal == Refusal::kUnknownGroup;",
            "const bool behind = header.refusal == Refusal::kStaleEpoch;",
        ),
    ),
    mutation(
        "opening-group-fails-on-a-draining-server",
        "F4: a server that leaves fails no op",
        (
            "worker/machine/worker_group.cc",
            "refusal == Refusal::kDraining || (refusal == Refusal::kNoSlotMemory &&",
            "(refusal == Refusal::kNoSlotMemory &&",
        ),
    ),
    mutation(
        "pause-before-a-window-shortens-it",
        "what a rank tells of how long it waited for servers is possible",
        (
            "worker/machine/server_wait_book.cc",
            "  } else {\n    BeginWindow(now_ns);\n",
            "  } else {\n    window_start_ns_ = now_ns;\n",
        ),
    ),
    mutation(
        "worker-knows-every-server-it-ever-had",
        "a worker's round costs no more for servers that have come and gone",
        (
            "worker/machine/connections.cc",
            "  if (connection.uses > 0 || !IsIdle(connection)) return;\n",
            "  if (connection.uses > 0 || !IsIdle(connection) || connection.retry_at_ns > 0) return;\n",
        ),
    ),
    # ---- a worker's membership ----
    mutation(
        "refused-heartbeat-waits-for-its-turn",
        "F16: a scheduler that is cut off from etcd takes no rank's lease by refusing its heartbeats",
        (
            "worker/membership/heartbeats.cc",
            "if (IsRefusedByFollower(answer.status())) return",
            "if (answer.ok()) return",
        ),
        (
            "worker/membership/call_book.cc",
            "absl::IsUnavailable(event.answer.status()) && !IsRefusedByFollower(event.answer.status());",
            "absl::IsUnavailable(event.answer.status());",
        ),
    ),
    mutation(
        "lost-answer-makes-a-second-group",
        "F12: a rank that could not hear of its group asks again for the same one",
        (
            "worker/membership/group_requests.cc",
            "  request->call.wait_ms =",
            "  request->call.request_number = ++last_number_;\n  request->call.wait_ms =",
        ),
    ),
    mutation(
        "one-refusal-ends-a-request-for-a-group",
        "F11: a lost rank that asks for a group hears that its membership has ended, and not a refusal as it came",
        (
            "worker/membership/group_requests.cc",
            "if (absl::IsUnavailable(status) || absl::IsNotFound(status)) return Retry",
            "if (absl::IsUnavailable(status)) return Retry",
        ),
    ),
    mutation(
        "silent-connections-are-kept",
        "F16: one heartbeat that gets no answer takes a rank to new connections",
        (
            "worker/membership/call_book.cc",
            "actions->emplace_back(UseNewConnectionsAction{});",
            "static_cast<void>(actions);",
        ),
    ),
    mutation(
        "one-heartbeat-a-lease",
        "F3: a heartbeat comes every third of the lease",
        (
            "worker/membership/heartbeats.cc",
            "return HeartbeatPeriodNs(lease_ttl_ms * kNsPerMs);",
            "return lease_ttl_ms * kNsPerMs;",
        ),
    ),
    mutation(
        "watch-that-ends-is-not-opened-again",
        "F1: a rank hears of its group's new map, also from the next scheduler",
        ("worker/membership/watch_follower.cc", "if (follows_) reopen_ns_ =", "if (!follows_) reopen_ns_ ="),
    ),
    mutation(
        "report-is-forgotten-when-it-is-answered",
        "I10: a rank that cannot go on with a server repeats its report until it has a newer map",
        (
            "worker/membership/server_reports.cc",
            "  if (absl::IsUnavailable(status)) return;",
            "  if (absl::IsUnavailable(status)) return;\n"
            "  if (status.ok()) {\n    reports_.erase(report);\n    return;\n  }",
        ),
        (
            "scheduler/machine/group_moves.cc",
            "  if (!next.has_value()) return GiveUpIfRefusedByAll(job, group, now);",
            "  if (!next.has_value()) {\n    *group = JobGroup(group->state());\n    return;\n  }",
        ),
    ),
    mutation(
        "closed-groups-are-not-told",
        "F19: a group that every rank has closed is gone at the scheduler",
        (
            "worker/membership/closed_groups.cc",
            "  if (nothing_to_say() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;",
            "  if (now.monotonic_ns > 0) return;\n"
            "  if (nothing_to_say() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;",
        ),
        (
            "worker/membership/closed_groups.cc",
            "  return nothing_to_say() || call_ != CallId() ? kNoDeadline : retry_ns_;",
            "  return kNoDeadline;",
        ),
    ),
    mutation(
        "given-up-groups-are-not-told",
        "F21: a group that a rank gives up ends on all ranks, also where no server hears it",
        (
            "worker/machine/worker_group.cc",
            "  if (info().size() > 1) actions->push_back(",
            "  if (info().size() == 0) actions->push_back(",
        ),
    ),
    mutation(
        "what-a-rank-that-leaves-knows-is-not-told",
        "F10: a rank that closes a group waits for none that has closed it, whichever servers it moves to",
        (
            "worker/machine/worker_group.cc",
            "  closed_all_committed_ = !failed() && ",
            "  closed_all_committed_ = false && !failed() && ",
        ),
    ),
    mutation(
        "closed-worker-forgets-what-it-asked-for",
        "F21: a group that a closed rank asked for ends for the others",
        (
            "worker/membership/group_requests.cc",
            "    given_up_.push_back({request.call.request_number, std::string(why.message())});\n",
            "",
        ),
    ),
    mutation(
        "closed-worker-forgets-what-it-did-not-open",
        "F21: a group that a closed rank never opened ends for the others",
        ("worker/membership/membership_machine.cc", "  if (!command.failed) groups_.GiveUpUnended();\n", ""),
    ),
    *DEVICE_MUTATIONS,
    *SCHEDULER_MUTATIONS,
    *NODE_MUTATIONS,
]

PARTS = {
    "simulator": SIMULATOR_MUTATIONS,
    "node": LOCAL_REDUCE_MUTATIONS,
    "device": CUDA_MUTATIONS + PLUGIN_MUTATIONS,
    "roster": ROSTER_MUTATIONS,
}
MUTATIONS = [mutation for part in PARTS.values() for mutation in part]
