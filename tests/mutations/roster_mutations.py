"""Deliberate bugs of groups that go on without lost ranks (docs/adr/0030)."""

from mutation import CxxTest, mutation


def of_loops(name: str) -> CxxTest:
    return CxxTest("lost_ranks_test", f"LostRanks.{name}")


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
            "scheduler/machine/group_moves.cc",
            "const size_t left = group->state().ranks.size() - group->state().gone.size();",
            "const size_t left = roster.count();",
        ),
        test=CxxTest("scheduler_machine_test", "MachineGroupsThatGoOnTest.ThoseWhoHaveLeftAreNotAmongTheFewest"),
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
]
