"""Deliberate bugs of the scheduler; see mutations.py."""

from mutation import CxxTest, mutation

SCHEDULER_MUTATIONS = [
    mutation(
        "moves-have-no-pace",
        "F1: moves of a group are paced",
        ("scheduler/machine/move_pace.h", "if (moves_ < kAtOnce) return 0;", "if (moves_ < kNoDeadline) return 0;"),
        (
            "scheduler/machine/group_moves.cc",
            ".refusal = request.refused ? refusal : \"\"},",
            ".refusal = request.refused && refusal.empty() ? refusal : \"\"},",
        ),
    ),
    mutation(
        "server-out-of-reach-is-never-tried-again",
        "F5, F6: a server that a rank lost is used again when no other is left",
        (
            "scheduler/machine/group_moves.cc",
            "return each.refusal.empty() && each.server != kept;",
            "return each.server == ServerId() && each.refusal.empty() && each.server != kept;",
        ),
    ),
    mutation(
        "refusal-is-forgotten-with-the-next-move",
        "F20: a server that has no memory for a group is not tried again before it has more",
        (
            "scheduler/machine/group_moves.cc",
            ".refusal = request.refused ? refusal : \"\"},",
            ".refusal = \"\"},",
        ),
    ),
    mutation(
        "groups-of-a-failed-job-stay-where-they-are",
        "I10: a group works again, also where the job has lost a rank that is not in it",
        ("scheduler/machine/group_moves.cc", "if (job.live_count == 0 || !group", "if (!job.open() || !group"),
    ),
    mutation(
        "ended-process-keeps-its-rank",
        "F11: a rank is lost at once where its process has ended",
        (
            "scheduler/machine/process_signs.cc",
            "  if (!stream_closed_ns_.has_value() || !connection_lost_ns_.has_value()) return kNoDeadline;",
            "  if (!stream_closed_ns_.has_value() || connection_lost_ns_.has_value()) return kNoDeadline;",
        ),
        (
            "scheduler/machine/process_signs.cc",
            "return stream_closed_ns_.has_value() ? *stream_closed_ns_ + kTakeOverPatienceNs : kNoDeadline;",
            "return kNoDeadline;",
        ),
    ),
    mutation(
        "earlier-run-of-a-job-fails-the-next-one",
        "F11: a job that was ended before all its ranks had come is started again at once",
        (
            "scheduler/machine/job.cc",
            "  return MemberPhase::kLeft;\n}",
            "  return MemberPhase::kLost;\n}",
        ),
    ),
    mutation(
        "ranks-with-other-options-are-let-in",
        "ranks whose options differ are refused by name",
        (
            "scheduler/machine/group_rounds.cc",
            "if (waiter.options.has_value() && request.options.has_value()) {",
            "if (waiter.options.has_value() && !request.options.has_value()) {",
        ),
    ),
    mutation(
        "server-lease-is-not-enforced",
        "F3: a silent server is left when its lease has run out",
        (
            "scheduler/machine/server_registry.cc",
            "server->lease_expires_ns = now.monotonic_ns + lease_ttl_ns_;",
            "server->lease_expires_ns = now.monotonic_ns + 1000 * lease_ttl_ns_;",
        ),
    ),
    mutation(
        "worker-lease-is-not-enforced",
        "I8: a lost rank fails its job's ops within the lease",
        (
            "scheduler/machine/job_registry.cc",
            "worker->lease_expires_ns = now.monotonic_ns + lease_ttl_ns_;",
            "worker->lease_expires_ns = now.monotonic_ns + 1000 * lease_ttl_ns_;",
        ),
    ),
    mutation(
        "lost-rank-is-not-told",
        "I8: a lost rank fails its job's ops within the lease",
        ("scheduler/machine/rank_members.cc", "    decisions_.AfterSave(PublishLost{gone.rank});\n", ""),
    ),
    mutation(
        "told-before-it-is-saved",
        "what others rely on is saved first",
        (
            "scheduler/machine/decisions.cc",
            "if (saves_.all_saved()) {\n    Carry(",
            "if (map_ != nullptr) {\n    Carry(",
        ),
    ),
    mutation(
        "failed-save-counts-as-saved",
        "what others rely on is saved first: a save that failed, or whose answer was lost, is repeated",
        (
            "scheduler/machine/save_queue.cc",
            "  save_under_way_ = false;\n  last_save_failed_ = true;",
            "  save_under_way_ = false;\n  saved_ = std::max(saved_, number);\n  last_save_failed_ = true;",
        ),
    ),
    mutation(
        "lead-outlasts-its-lease",
        "F16: a leader stops by its own clock before another one can lead",
        (
            "scheduler/leading/lead_times.h",
            "return asked_ns + lease_ttl_ms * kNsPerMs / 5 * 4;",
            "return asked_ns + lease_ttl_ms * kNsPerMs * 2;",
        ),
    ),
    mutation(
        "last-link-decides",
        "a group's chunks and credit follow from the fastest link that its ranks have measured",
        (
            "scheduler/machine/group_rounds.cc",
            "link.bytes_per_s = std::max(link.bytes_per_s, waiter.link.bytes_per_s);",
            "link.bytes_per_s = waiter.link.bytes_per_s;",
        ),
    ),
    mutation(
        "epoch-is-used-again",
        "I4: one epoch of a group, one map",
        (
            "scheduler/machine/group_moves.cc",
            "return Epoch(std::max(group.epoch.value() + 1, decisions_.map()->epoch().value()));",
            "return Epoch(std::max(group.epoch.value(), decisions_.map()->epoch().value()));",
        ),
    ),
    mutation(
        "report-of-a-lost-server-is-ignored",
        "F5: a broken connection moves the group",
        (
            "scheduler/machine/group_moves.cc",
            "const bool is_of_map = state.epoch == request.epoch && ",
            "const bool is_of_map = state.epoch != request.epoch && ",
        ),
    ),
    mutation(
        "one-job's-report-moves-the-groups-of-all",
        "F5: a group that a fault does not concern is not touched",
        (
            "scheduler/machine/group_moves.cc",
            "    NoteReport(group, request, reported->server_name, now);\n    MoveIfNeeded(**job, group, now);\n",
            "    const std::string server = reported->server_name;\n"
            "    for (const auto& [id, each] : jobs_.jobs()) {\n"
            "      for (auto& [other_id, other] : jobs_.At(id).groups.all()) {\n"
            "        NoteReport(&other, request, server, now);\n"
            "        MoveIfNeeded(each, &other, now);\n"
            "      }\n"
            "    }\n",
        ),
    ),
    mutation(
        "repeated-request-for-a-group-waits-for-the-others",
        "F12: a rank that could not hear which group it is in asks again",
        (
            "scheduler/machine/group_requests.cc",
            "request.request_number == 0 ? nullptr : job.groups.FindByName(",
            "request.request_number != 0 ? nullptr : job.groups.FindByName(",
        ),
    ),
    mutation(
        "ids-start-again-from-one",
        "F12: running groups outlive the scheduler's state",
        ("scheduler/machine/scheduler_state.h", "return 1 + random % (uint64_t{1} << 31);", "return 1 + random % 1;"),
    ),
    mutation(
        "what-a-rank-gave-up-is-told-as-want-of-memory",
        "F21: any reason but want of memory ends the others' ops with ABORTED",
        (
            "scheduler/machine/job_group.cc",
            "state_.ends_with_aborted = ends_with_aborted;",
            "state_.ends_with_aborted = ends_with_aborted && state_.failure.empty();",
        ),
    ),
    mutation(
        "who-gave-a-group-up-is-named-twice",
        "an error names the rank that it is about once",
        (
            "scheduler/machine/group_ends.cc",
            'absl::StrCat(who, ": ", CleanText(failure.reason))',
            'absl::StrCat(who, ": ", who, ": ", CleanText(failure.reason))',
        ),
    ),
    mutation(
        "replicas-have-a-port-each",
        "groups of a job that reduce at the same time share their nodes' ports",
        (
            "scheduler/machine/group_opener.cc",
            "const std::vector<NodePlace> places_of_job = job.LivePlaces();",
            "const std::vector<NodePlace> places_of_job = job.PlacesOf(round.ranks);",
        ),
        test=CxxTest("scheduler_machine_test", "MachineNodesTest.ReplicasOfANodesRanksShareItsPortAsOneGroupWould"),
    ),
]
