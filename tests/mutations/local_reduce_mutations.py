"""Deliberate bugs in the reduction within a node through its memory, which a test on real shared memory has to find:
the simulator has an implementation of its own (sim/sim_local_reduce.cc)."""

from mutation import CxxTest, mutation

GROUP = "worker/local_reduce/host_local_group.cc"
PEERS = "worker/local_reduce/node_peers.cc"


def of_host(name: str) -> CxxTest:
    return CxxTest("host_local_reduce_test", f"HostLocalReduce.{name}")


def of_suite(name: str) -> CxxTest:
    return CxxTest("host_local_reduce_test", f"Host/{name}/Host")


def of_processes(name: str) -> CxxTest:
    return CxxTest("host_local_process_test", name)


ANY_LENGTH = of_suite("LocalReduceSuite.L3TensorsOfAnyLengthAmongAnyNumberOfRanks")
MANY_OPS = of_suite("LocalReduceSuite.L1ManyOpsEndInOrderAndTheirMemoryIsTheCallersAtOnce")
MIXED_OPS = of_suite("LocalParts.L1OpsWithAndWithoutOtherNodesFollowEachOther")
LARGE_PARTS = of_suite("LocalParts.TheNodesSumComesPieceByPieceAndWhatIsPublishedReachesAll")

LOCAL_REDUCE_MUTATIONS = [
    # ---- stages and slots ----
    mutation(
        "contribution-over-one-that-is-read",
        "a contribution is written where all have reduced what was there",
        (GROUP, "IsSlotFree(kReduced, contribute_.round);", "IsSlotFree(kContributed, contribute_.round);"),
        test=MANY_OPS,
    ),
    mutation(
        "reduced-before-all-have-contributed",
        "I2: every contribution counts",
        (GROUP, "HaveReached(kContributed, reduce_.round + 1)", "HaveReached(kContributed, reduce_.round)"),
        test=ANY_LENGTH,
    ),
    mutation(
        "result-over-one-that-is-read",
        "a result is written where all have collected what was there",
        (
            GROUP,
            "op->rounds.whole || IsSlotFree(kCollected, reduce_.round));",
            "op->rounds.whole || reduce_.round + 1 > 0);",
        ),
        test=MIXED_OPS,
    ),
    mutation(
        "part-over-one-that-is-read",
        "a result of all nodes is written where all have collected what was there",
        (GROUP, "return is_there && IsSlotFree(kCollected, publish_.round);", "return is_there;"),
        test=LARGE_PARTS,
    ),
    mutation(
        "collected-before-all-have-published",
        "a result is collected when it is there",
        (GROUP, "(op->rounds.whole || HaveReached(kPublished, collect_.round + 1));", "collect_.round + 1 > 0;"),
        test=ANY_LENGTH,
    ),
    mutation(
        "record-is-used-again-too-early",
        "L2: what a rank says of an op stays until all have compared it",
        (
            GROUP,
            "peers_.own_header().records[op.number % kMaxOpsUnderWay].op = RecordOf(op);",
            "peers_.own_header().records[op.number % 2].op = RecordOf(op);",
        ),
        (
            GROUP,
            "&peers_.header(rank).records[op.number % kMaxOpsUnderWay].op, sizeof(record)",
            "&peers_.header(rank).records[op.number % 2].op, sizeof(record)",
        ),
        test=MANY_OPS,
    ),
    # ---- sleep ----
    mutation(
        "sleepers-are-not-woken",
        "L5: a rank that sleeps is woken when a counter moves",
        (GROUP, "    peers_.WakeSleepers();\n", ""),
        test=of_host("L5ThreadsThatSleepAreWokenForEveryOp"),
    ),
    # ---- meeting and end ----
    mutation(
        "death-is-not-noticed",
        "L4: a rank that dies ends the group on all ranks, and is named",
        (PEERS, "  if (process_has_ended && !peer.has_left) {", "  if (process_has_ended && peer.has_left) {"),
        test=of_processes("HostLocalProcess.L4AProcessKilledAmongOpsIsNoticedAndNamed"),
    ),
    mutation(
        "death-is-noticed-at-the-socket-alone",
        "L4: a process whose child holds its sockets dies with its own end",
        (
            PEERS,
            "  if (status.ok() && process->valid()) {",
            "  if (status.ok() && process->valid() && rank > group_.size) {",
        ),
        test=of_processes("HostLocalProcess.L4AProcessKilledWhileItsChildHoldsItsSocketsIsNoticedAndNamed"),
    ),
    mutation(
        "death-is-noticed-at-the-process-alone",
        "L4: where processes can't be seen, the end of the socket is the sign of death",
        (PEERS, "      process_has_ended = true;\n      break;\n", "      break;\n"),
        test=of_processes("HostLocalPidNamespaces.L4RanksThatDoNotSeeEachOthersProcessesReduceAndNoticeADeath"),
    ),
    mutation(
        "goodbye-is-not-heard",
        "L4: an op that a rank never started fails when that rank closes",
        (GROUP, "  if (peers_.AnyHasLeft()) FailIfNeededRankHasLeft(events);\n", ""),
        test=of_suite("LocalGroupEnds.L4AnOpThatARankNeverStartedFailsWhenThatRankCloses"),
    ),
    mutation(
        "who-may-not-be-met-is-waited-for",
        "ranks that a security profile keeps apart fail at once, and say so",
        (
            PEERS,
            "  if (absl::IsNotFound(status)) return;  // it comes later",
            "  if (absl::IsNotFound(status) || absl::IsPermissionDenied(status)) return;  // it comes later",
        ),
        test=of_host("ARankThatMayNotConnectToAnotherFailsAtOnceAndSaysWhatToDo"),
    ),
    mutation(
        "full-rank-is-not-knocked-at-again",
        "a rank at which there was no room is knocked at again",
        (
            PEERS,
            "  if (absl::IsUnavailable(status)) return KnockAgainLater(rank);",
            "  if (absl::IsUnavailable(status)) return;",
        ),
        test=of_host("ARankAtWhichThereIsNoRoomIsKnockedAtAgain"),
    ),
]
