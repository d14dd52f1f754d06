"""The times that docs/failover.md promises, in one place. The checkers know no others."""

from chaos.shape import Shape

# F5: kernels ask each other every second, and a silent way between two is a broken connection after this at the latest.
LINK_SILENCE_NOTICED_S = 4.0
# F5: the rank connects again within two seconds, or the group moves without that server.
RECONNECT_S = 2.0
# F4: --drain-timeout's default.
DRAIN_S = 10.0
# A rank whose process has ended is free at once: a job that is killed and started again has its ranks after this.
TAKEN_AGAIN_S = 1.0
# F11, F22: a process ended on a node that keeps running, and it had connections to live servers.
ENDED_PROCESS_TOLD_S = 2.0
# Moves are paced: no group is moved more often than this in ten seconds.
MOST_MOVES_IN_10_S = 20
# F10: closing a group waits that long for other ranks' results, closing a worker this long.
CLOSE_GROUP_S = 30.0
CLOSE_WORKER_S = 2.0


def harmless_silence_s(shape: Shape) -> float:
    """F3: a silence of up to a quarter of the lease costs its own time alone."""
    return shape.lease_s / 4


def works_again_s(shape: Shape) -> float:
    """I10: once all parts that an open group needs can reach each other."""
    return shape.lease_s + 1


def told_s(shape: Shape) -> float:
    """F11: until all survivors are told of a lost rank."""
    return shape.lease_s + 1


def gone_on_without_s(shape: Shape) -> float:
    """F23: a rank is not heard, so it is lost (F11), and its groups move to the smaller roster."""
    return told_s(shape) + RECONNECT_S


def way_around_s(shape: Shape) -> float:
    """F5, with the second that its test has to spare: a way is silent, and the group has moved without it."""
    return max(works_again_s(shape), LINK_SILENCE_NOTICED_S + RECONNECT_S + 1)


def last_resort_s(shape: Shape) -> float:
    """"Who declares a rank lost": a server that has lost a rank and has heard no scheduler since, after this."""
    return shape.lease_s + 9


def leader_replaced_s(shape: Shape, etcd_too: bool = False) -> float:
    """F16: another leads within the leader's lease and a second, and members have come to it a lease and a half
    later. `etcd_too`: etcd may have lost its leader as well, which takes three seconds more."""
    return shape.leader_lease_ms / 1000 + (4 if etcd_too else 1) + 1.5 * shape.lease_s
