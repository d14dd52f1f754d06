"""Deliberate bugs of groups that go on without lost ranks (docs/adr/0030)."""

from mutation import CxxTest, mutation


def of_loops(name: str) -> CxxTest:
    return CxxTest("lost_ranks_test", f"LostRanks.{name}")


def of_nodes(name: str) -> CxxTest:
    return CxxTest("rails_test", f"LostNodes.{name}")


OPEN_OPS = of_loops("F23OpenOpsEndWithTheRanksThatAreLeft")

ROSTER_MUTATIONS = [
    mutation(
        "chunk-waits-for-lost-ranks",
        "F23: a chunk is complete when all ranks of the epoch have pushed it",
        ("server/machine/server_group.cc", "slot.Expect(roster_.count());", "slot.Expect(size());"),
        test=OPEN_OPS,
    ),
    mutation(
        "contributions-lie-where-lost-ranks-were",
        "F23: the contributions of the epoch's ranks lie side by side",
        ("server/machine/server_group.cc", "+ roster_.PlaceOf(rank)) *", "+ rank.value()) *"),
        test=OPEN_OPS,
    ),
    mutation(
        "lost-ranks-are-summed",
        "F23: what nobody has the result of is reduced over those that are left",
        ("server/machine/chunk_exchange.cc", ".input_count = group.roster().count(),", ".input_count = group.size(),"),
        test=of_loops("F23AveragesAreOverThoseThatContributed"),
    ),
    mutation(
        "mixed-op-is-written-down-as-one-range",
        "F23: the scheduler's events say of each element how many ranks contributed",
        (
            "core/partial_op.h",
            "if (ranges->empty() || ranges->back().contributors != added.contributors) {",
            "if (ranges->empty()) {",
        ),
        test=OPEN_OPS,
    ),
    mutation(
        "every-rank-writes-an-op-down",
        "F23: what all ranks of a group tell of an op is one event",
        ("scheduler/insight/partial_ops.cc", " || !IsNew(op.group, op.op)) continue;", ") continue;"),
        test=CxxTest("scheduler_insight_test", "InsightPartialOpsTest.WhatSeveralRanksTellAgainAndAgainIsOneEvent"),
    ),
    mutation(
        "result-that-is-handed-over-counts-all-ranks",
        "F23: an op tells how many ranks contributed, also where a rank had the result from another",
        (
            "worker/machine/result_keeper.cc",
            "header.contributors = op.ContributorsOf(chunk, group_size_);",
            "header.contributors = group_size_;",
        ),
        test=of_loops("F23SeveralMayBeLostOneAfterTheOther"),
    ),
    mutation(
        "server-counts-its-own-ranks-in-a-result-that-it-passes-on",
        "F23: an op tells how many ranks contributed, also where a rank had the result from another",
        (
            "server/machine/chunk_exchange.cc",
            "slot.NoteResultOf(header.contributors);",
            "slot.NoteResultOf(group.roster().count());",
        ),
        test=of_loops("F23AServerMayDieInTheSameMoment"),
    ),
    mutation(
        "smaller-sum-is-not-scaled",
        "F23: a sum without the contributions of some is scaled up to all where the group asks for it",
        (
            "server/machine/chunk_exchange.cc",
            "if (op.scaled_to_all && !group.roster().IsWhole()) {",
            "if (op.scaled_to_all && group.size() == 0) {",
        ),
        test=of_loops("F23SumsAreScaledToAllRanksWhereThatIsAsked"),
    ),
    mutation(
        "commit-waits-for-lost-ranks",
        "F23: a lost rank holds nothing back",
        (
            "server/machine/server_group.cc",
            "    if (roster_.Has(Rank(r))) landed_everywhere",
            "    landed_everywhere",
        ),
        test=of_loops("F23ALostRankHoldsNoResultBack"),
    ),
    mutation(
        "later-server-expects-lost-ranks",
        "F23: a server that the group comes to has the ranks of the epoch",
        (
            "server/machine/group_table.cc",
            "(token, epoch, roster, region",
            "(token, epoch, Roster(roster.size()), region",
        ),
        test=of_loops("F23AServerThatComesLaterBeginsWithTheRosterOfItsEpoch"),
    ),
    mutation(
        "rank-outside-the-roster-goes-on",
        "F23: a rank that was taken for lost is kept out",
        ("worker/machine/worker_group.cc", "if (!roster.ok() || !roster->Has(info().rank)) {", "if (!roster.ok()) {"),
        test=of_loops("F23ARankThatIsNotInTheRosterIsKeptOut"),
    ),
    mutation(
        "server-believes-any-roster",
        "F23: the scheduler alone says who is lost",
        (
            "core/token.cc",
            "  if (CRYPTO_memcmp(expected.data(), sealed.data() + ranks.size(), expected.size()) != 0) {",
            "  if (expected.size() != kSignatureBytes) {",
        ),
        test=CxxTest("core_test", "Roster.TheSchedulersWordIsCheckedAndOfOneEpochAlone"),
    ),
    mutation(
        "group-goes-on-with-too-few",
        "F23: with fewer than min_ranks the group ends",
        (
            "scheduler/machine/group_moves.cc",
            "if (left >= group->state().min_ranks &&",
            "if (left > 0 &&",
        ),
        test=CxxTest("scheduler_machine_test", "MachineGroupsThatGoOnTest.WithTooFewItFailsAndTheJobDoesNot"),
    ),
    mutation(
        "those-who-left-count-among-the-fewest",
        "F23: with fewer than min_ranks the group ends",
        (
            "scheduler/machine/job_group.cc",
            "  state_.lost.insert(rank);\n  LeaveOutClosed();\n",
            "  state_.lost.insert(rank);\n",
        ),
        test=CxxTest("scheduler_machine_test", "MachineGroupsThatGoOnTest.ThoseWhoHaveLeftAreNotAmongTheFewest"),
    ),
    mutation(
        "those-who-left-are-expected-by-other-servers",
        "F24: a rank that has closed the group is not expected in the next epoch",
        ("scheduler/machine/group_moves.cc", "  group->LeaveOutClosed();\n", ""),
        test=CxxTest("scheduler_machine_test", "MachineGroupsThatGoOnTest.WhoHasClosedItIsNotExpectedByOtherServers"),
    ),
    mutation(
        "nobody-hears-who-closed-a-group-that-has-moved",
        "F24: who misses a rank that has left hears of it, also from the scheduler",
        (
            "scheduler/machine/group_ends.cc",
            "state.ClosedCount() == 1",
            "state.ClosedCount() == 0",
        ),
        test=CxxTest("scheduler_machine_test", "MachineGroupsThatGoOnTest.F24WhoIsTheFirstToCloseItAfterAMoveIsTold"),
    ),
    mutation(
        "news-of-who-closed-is-ignored",
        "F24: who misses a rank that has left hears of it, also from the scheduler",
        ("worker/machine/worker_machine.cc", "  group->NoteClosed(command, now, actions);\n", ""),
        test=CxxTest("worker_machine_test", "WorkerLeaving.F24TheSchedulerTellsWhoHasClosedAGroupThatHasMoved"),
    ),
    mutation(
        "op-waits-with-too-few-left",
        "F24: with fewer than min_ranks left an op ends",
        (
            "worker/machine/worker_group.cc",
            "  FailIfTooFew(now, actions);\n  MissClosed(now, actions);\n  return absl::OkStatus();\n",
            "  MissClosed(now, actions);\n  return absl::OkStatus();\n",
        ),
        test=CxxTest("worker_machine_test", "WorkerLeaving.F24WithTooFewLeftAnOpEndsAndAGroupWithoutOneDoesNot"),
    ),
    mutation(
        "request-that-is-given-up-fails-a-group-that-goes-on",
        "F23: a group goes on without ranks that are lost",
        (
            "scheduler/machine/group_requests.cc",
            "if (opened->state().min_ranks > 0) {",
            "if (opened->state().ranks.empty()) {",
        ),
        test=CxxTest(
            "scheduler_machine_test", "MachineGroupsThatGoOnTest.ARankThatGivesItsRequestUpIsNotInTheNextEpoch"
        ),
    ),
    mutation(
        "lost-rank-gives-its-requests-up",
        "F23: a group goes on without ranks that are lost",
        (
            "worker/membership/membership_machine.cc",
            "  if (!command.failed) closed_groups_.AddGivenUp(std::move(given_up));\n",
            "  closed_groups_.AddGivenUp(std::move(given_up));\n",
        ),
        test=CxxTest("worker_membership_test", "MembershipTest.ALostRankGivesNoRequestUpThatIsUnderWay"),
    ),
    mutation(
        "server-forgets-those-who-left-first",
        "F24: a rank that comes late hears of those that have left",
        ("server/machine/group_table.cc", "    left_.push_back({group->id(), std::move(leavers)});\n", ""),
        test=CxxTest("server_machine_test", "ServerLeavers.F24ARankThatComesWhenTheOthersHaveLeftHearsOfThem"),
    ),
    mutation(
        "scheduler-believes-those-who-left",
        "I3: what a rank knew that has left was of its own ops",
        (
            "scheduler/machine/job_group.cc",
            "  if (state_.min_ranks > 0 && state_.sealed_roster != sealed_roster) state_.all_committed = false;\n",
            "",
        ),
        test=CxxTest(
            "scheduler_machine_test", "MachineGroupsThatGoOnTest.F24OneThatHasClosedItAndIsMissedIsNotInTheNextEpoch"
        ),
    ),
    mutation(
        "rank-believes-those-who-left",
        "I3: what a rank knew that has left was of its own ops",
        (
            "worker/machine/worker_group.cc",
            "    told_all_committed_ = next_->all_committed;\n",
            "",
        ),
        test=CxxTest("worker_machine_test", "WorkerLeaving.WhatARankKnewThatHasLeftIsForgottenWithItsEpoch"),
    ),
    mutation(
        "nobody-hears-of-a-rank-that-left-before",
        "F24: who pushes to an op that a rank left before hears of it",
        (
            "server/machine/server_machine.cc",
            "  TellOfLeaver(&group, push.header.op, from.rank, actions);\n",
            "",
        ),
        test=CxxTest("server_machine_test", "ServerLeavers.F24WhoPushesToAnOpThatARankLeftBeforeHearsOfItOnce"),
    ),
    mutation(
        "nobody-hears-of-a-rank-that-leaves",
        "F24: those who have pushed to an op hear of a rank that leaves before it",
        (
            "server/machine/server_machine.cc",
            "    if (group.WaitsForResult(Rank(r), header.op)) TellOfLeaver(&group, header.op, Rank(r), actions);\n",
            "",
        ),
        test=CxxTest("server_machine_test", "ServerLeavers.F24ThoseWhoHavePushedHearOfItWhenTheRankLeaves"),
    ),
    mutation(
        "server-forgets-those-who-left",
        "F24: it is known in the next epoch",
        ("server/machine/server_group.cc", ", .calls_none_from = ranks_[r].calls_none_from}", "}"),
        test=CxxTest("server_machine_test", "ServerLeavers.F24ItIsKnownInTheNextEpochUnlessThatIsWithoutTheRank"),
    ),
    mutation(
        "rank-that-goes-elsewhere-has-left",
        "F24: a rank that goes on with other servers has not left",
        (
            "worker/machine/chunk_flow.cc",
            "if (!stays) TellLeaving(link, OpNumber(0), actions);",
            "if (!stays) TellLeaving(link, ops_.next(), actions);",
        ),
        test=CxxTest("worker_machine_test", "WorkerLeaving.F24ServersHearWhichOpARankDoesNotCall"),
    ),
    mutation(
        "roster-waits-for-another-server",
        "F23: no op waits for a lost rank",
        (
            "scheduler/machine/group_moves.cc",
            "if (!next.has_value() && group->NeedsNextRoster()) next = SameServers(*group);",
            "",
        ),
        test=CxxTest(
            "scheduler_machine_test", "MachineGroupsThatGoOnTest.ALostRankIsLeftOutAlsoWhereNoServerIsToMoveTo"
        ),
    ),
    mutation(
        "lost-rank-fails-the-group",
        "F23: a rank that was taken for lost is kept out",
        (
            "worker/machine/worker_group.cc",
            "  if (info().min_ranks == 0) return Fail(std::move(why), now, actions);\n",
            "  return Fail(std::move(why), now, actions);\n",
        ),
        test=CxxTest("worker_machine_test", "WorkerFailure.ARankThatIsLostFromAGroupThatGoesOnTellsNobody"),
    ),
    mutation(
        "lost-rank-leaves-its-node-in-the-other-rails",
        "F23: with rails a lost rank takes its node out of all of them",
        ("scheduler/machine/job_groups.cc", "if (!group->state().rail.has_value()) return lacking;", "return lacking;"),
        test=CxxTest("scheduler_machine_test", "MachineRailsThatGoOnTest.ALostRankTakesItsNodeOutOfAllRails"),
    ),
    mutation(
        "rank-left-alone-fails-the-group-on-all-nodes",
        "F23: with rails the other nodes go on without the node of a lost rank",
        (
            "worker/machine/node_group.cc",
            "  if (goes_on() && absl::IsUnavailable(event.status)) {\n",
            "  if (goes_on() && absl::IsUnimplemented(event.status)) {\n",
        ),
        test=of_nodes("F23OpenOpsEndWithTheNodesThatAreLeftAndALoneRankIsTold"),
    ),
    mutation(
        "rank-left-alone-tells-nobody",
        "F23: with rails the scheduler hears of a node that is out, also where no rank is lost",
        (
            "worker/machine/node_group.cc",
            "GroupFailure{.group = info_->id, .reason = cause, .others_go_on = true}",
            "GroupFailure{.group = GroupId(0), .reason = cause, .others_go_on = true}",
        ),
    ),
    mutation(
        "op-counts-the-contributors-of-the-own-part-alone",
        "F23: with rails an op tells the least and the most over all parts",
        (
            "worker/local_reduce/host_local_group.cc",
            "  if (CountsNodes(op)) PublishRuns(op, publish_.round, piece);\n",
            "",
        ),
        test=of_nodes("F23OpenOpsEndWithTheNodesThatAreLeftAndALoneRankIsTold"),
    ),
]
