"""This process's membership in a Shoal job: joined by the first process group, left with the last one or at exit.

One membership serves all process groups of the process. It owns the scheduler and the server that the process may run
itself, and stops them only when every rank has left.
"""

import atexit
import dataclasses
import datetime
import logging
import os
import pathlib
import re
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist

from shoal import _C, config, meeting, placement

logger = logging.getLogger("shoal")

JOIN_SECONDS = 300
LOOPBACK = "127.0.0.1"
# A process that runs a scheduler or server stays for that long when its own script has ended, and until it says that it
# stays for the other ranks.
LEAVE_SECONDS = 10
LONGEST_SILENCE_SECONDS = 600
LONGEST_REASON = 300  # characters
UNKNOWN = 2**32 - 1  # of Service.live_ranks

_lock = threading.Lock()
_current: "Membership | None" = None
_open_sessions: list[_C.Session] = []  # in open jobs, one for each process group that can be reconfigured
_query: dict[str, str] = {}  # of the last init_method="shoal://..."
_names_given = 0  # how many jobs this process, as their rank 0, has given SHOAL_JOB_NAME to


class Membership:
    """Joins with join_with_store or join_alone, once."""

    def __init__(self, settings: config.Config) -> None:
        self.settings = settings
        self.session: _C.Session | None = None
        self.process_id = os.getpid()
        self.address = LOOPBACK  # at which the other ranks reach this one; empty: it is not known
        self._scheduler_service: _C.Service | None = None
        self._server_service: _C.Service | None = None
        self._operator_folder: tempfile.TemporaryDirectory | None = None  # of a scheduler with keys of its own
        self._leave_store: dist.Store | None = None  # only of a job that runs its own scheduler
        self._script_has_ended = False
        self._next_word_seconds = 0.0
        self._plan: placement.Plan | None = None
        self._rank = 0
        self._world_size = 1

    def meeting_timeout(self, group_timeout: datetime.timedelta) -> datetime.timedelta:
        """For the ranks of a group to come."""
        if self.settings.timeout is not None:
            return datetime.timedelta(seconds=self.settings.timeout)
        return group_timeout

    def join_timeout(self, group_timeout: datetime.timedelta) -> datetime.timedelta:
        """For all else, once they have come: the scheduler and the servers."""
        return min(self.meeting_timeout(group_timeout), self._longest_join())

    def _longest_join(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.settings.timeout or JOIN_SECONDS)

    def join_with_store(
        self, store: dist.Store, rank: int, world_size: int, group_timeout: datetime.timedelta
    ) -> dist.Store:
        """Joins with all ranks of the default group; returns its part of the store. Raises DistBackendError or
        ValueError."""
        self._rank, self._world_size = rank, world_size
        by_nccl = self.settings.devices == "none"
        place = placement.describe_this_rank(self.settings.scheduler, self.settings.net_device, by_nccl)
        word, meeting_timeout = dataclasses.asdict(place), self.meeting_timeout(group_timeout)
        store, decided = meeting.meet(store, rank, world_size, word, meeting_timeout, self._decide, self._tell_of_wait)
        timeout = self.join_timeout(group_timeout)
        self._plan = plan = placement.Plan(**decided)
        self.address = LOOPBACK if plan.on_one_node else place.address
        if plan.server_ranks:
            self._leave_store = store
            meeting.all_do(store, "run a server", plan.server_ranks, rank, timeout, lambda: self._start_server(timeout))
        everybody = list(range(world_size))
        meeting.all_do(
            store, "join the job", everybody, rank, timeout,
            lambda: self._connect(plan.scheduler, plan.job_name, plan.min_servers, timeout),
        )  # fmt: skip
        return store

    def _start_server(self, timeout: datetime.timedelta) -> None:
        processors = len(os.sched_getaffinity(0))
        self._server_service = _C.start_server(
            scheduler=self._plan.scheduler,
            advertise=self.address,
            io_threads=placement.io_threads_of(self._world_size, processors) if self._plan.on_one_node else 1,
            net_device=placement.first_device(self._net_device()),
            transports=self.settings.transports,
            network_only=self.settings.network_only,
            flight_recorder=self.settings.flight_recorder,
            timeout_ms=_milliseconds(timeout),
            **self._plan.keys.get("server", {}),
        )

    def join_alone(self, rank: int, world_size: int, timeout: datetime.timedelta) -> None:
        """Joins without the other ranks' help: some of them don't use Shoal, so the scheduler must be given."""
        if self.settings.scheduler is None:
            raise ValueError(
                "a process group with backend shoal beside a default group of another backend needs SHOAL_SCHEDULER: "
                'only init_process_group("shoal") can start a scheduler and servers by itself'
            )
        self._rank, self._world_size = rank, world_size
        self.address = placement.describe_this_rank(self.settings.scheduler, self.settings.net_device, False).address
        name = self.settings.job_name
        if name is None:
            # The first rank to come names the job for all of them.
            store = dist.PrefixStore("shoal", dist.distributed_c10d._get_default_store())
            name = store.compare_set("job_name", "", _new_job_name(os.environ)).decode()
        self._connect(self.settings.scheduler, name, self.settings.min_servers or 1, timeout)

    def close(self, script_has_ended: bool = False) -> None:
        """Leaves the job. Idempotent; does nothing in a forked child."""
        self._script_has_ended = script_has_ended
        if os.getpid() == self.process_id and self.session is not None:
            self.session.close()  # ends in stop_services

    def give_up(self) -> None:
        """Leaves without regard to the other ranks, of which one at least could not join."""
        self._leave_store = None
        self.close()
        self.stop_services()

    def stop_services(self) -> None:
        """Stops the scheduler and the server of this process: when all ranks have left, or are gone."""
        global _current
        with _lock:
            if _current is self:
                _current = None
        store, self._leave_store = self._leave_store, None
        if store is not None:
            self._count_out(store, "left", self._world_size)
            if self._server_service is not None:
                self._wait_for_all(store, "left", self._may_go)
        if self._server_service is not None:
            self._server_service.stop()
            if store is not None:
                self._count_out(store, "stopped", len(self._plan.server_ranks))
        if self._scheduler_service is not None:
            if store is not None:
                self._wait_for_all(store, "stopped", lambda waited_seconds: waited_seconds > LEAVE_SECONDS)
            self._scheduler_service.stop()
            if self._operator_folder is not None:
                self._operator_folder.cleanup()

    def _decide(self, words: list[dict]) -> dict:
        """Runs on rank 0."""
        _check_words(words)
        places = [placement.RankPlace(**word) for word in words]
        placement.check_schedulers(places)
        placement.check_addresses(places)
        placement.check_devices(places)
        return dataclasses.asdict(self._plan_for(places))

    def _plan_for(self, places: list[placement.RankPlace]) -> placement.Plan:
        on_one_node = placement.is_one_node(places)
        if self.settings.scheduler is not None:
            min_servers = self.settings.min_servers or 1
            return placement.Plan(self.settings.scheduler, self._job_name(), [], min_servers, on_one_node)
        server_ranks = placement.server_ranks_of(places)
        listen = placement.with_port(LOOPBACK if on_one_node else places[0].address, 0)
        keys = {} if on_one_node else _C.draw_keys()
        self._scheduler_service = _C.start_scheduler(
            listen=listen, port_buffer_bytes=self.settings.port_buffer, encrypt=self.settings.encrypt,
            **keys.get("scheduler", {}),
        )  # fmt: skip
        address = self._scheduler_service.address
        logger.info("no scheduler is given: rank 0 runs one at %s, and ranks %s run servers", address, server_ranks)
        if keys:
            self._keep_for_operators(keys["operator"])
        min_servers = self.settings.min_servers or len(server_ranks)
        of_ranks = {role: keys[role] for role in ("server", "worker") if keys}
        return placement.Plan(address, self._job_name(), server_ranks, min_servers, on_one_node, of_ranks)

    def _keep_for_operators(self, files: dict[str, str]) -> None:
        """In a folder for this user alone, until the scheduler stops."""
        self._operator_folder = tempfile.TemporaryDirectory(prefix="shoal-job-", ignore_cleanup_errors=True)
        words = []
        for name, text in files.items():
            path = pathlib.Path(self._operator_folder.name) / f"{name}.pem"
            path.write_text(text, encoding="ascii")
            words.append(f"--{name.replace('_', '-')} {path}")
        logger.info("shoalctl --scheduler %s %s", self._scheduler_service.address, " ".join(words))

    def _tell_of_wait(self, text: str) -> None:
        if not self.settings.quiet:
            _tell(text)

    def _connect(self, scheduler: str, job_name: str, min_servers: int, timeout: datetime.timedelta) -> None:
        begin = time.monotonic()
        try:
            self.session = self._new_session(scheduler, job_name, min_servers, timeout)
        except dist.DistBackendError as error:
            if self.settings.timeout is not None or time.monotonic() - begin < JOIN_SECONDS:
                raise
            raise dist.DistBackendError(
                f"{error} (SHOAL_TIMEOUT sets how long scheduler and servers are waited for, which is {JOIN_SECONDS} s"
                " otherwise, or the process group's timeout if that is less)"
            ) from None

    def _new_session(self, scheduler: str, job_name: str, min_servers: int, timeout: datetime.timedelta) -> _C.Session:
        keys = self._plan.keys.get("worker", {}) if self._plan is not None else {}
        return _C.Session(
            **(_session_options(self.settings) | keys), scheduler=scheduler, job_name=job_name, rank=self._rank,
            world_size=self._world_size, min_servers=min_servers, timeout_ms=_milliseconds(timeout),
            net_device=self._net_device(), colocation=config.COLOCATIONS.index(self._colocate()),
            without_servers=config.WITHOUT_SERVERS.index(self.settings.without_servers),
            on_closed=self.stop_services,
        )  # fmt: skip

    def open_devices(self) -> None:
        """Those that the process uses by now, so that its first all-reduce there does not wait for what runs there."""
        open_devices(self.session, self.settings)

    def _colocate(self) -> str:
        """Off where the job runs its own scheduler, because each node has a server already."""
        return "off" if self.settings.scheduler is None else self.settings.colocate

    def _net_device(self) -> str:
        runs_servers = self._plan is not None and self._plan.server_ranks
        if not self.settings.net_device and runs_servers and self._plan.on_one_node:
            return "lo"
        return self.settings.net_device

    def _job_name(self) -> str:
        """Of rank 0, which tells the others. A name that was given stays as it is for the first job of this process; a
        later one must not meet ranks that are still leaving the one before."""
        global _names_given
        if self.settings.job_name is None:
            return _new_job_name(os.environ)
        _names_given += 1
        return self.settings.job_name if _names_given == 1 else f"{self.settings.job_name[:180]}.{_names_given}"

    def _count_out(self, store: dist.Store, key: str, expected: int) -> None:
        try:
            if store.add(key, 1) == expected:
                store.set(f"all_{key}", "1")
        except RuntimeError as error:  # the store's process is gone
            logger.info("this rank could not say goodbye (%s): %s", key, error)

    def _wait_for_all(self, store: dist.Store, key: str, is_enough: Callable[[float], bool]) -> None:
        """Until as many have counted themselves out as are expected, or `is_enough` finds so after so many seconds."""
        begin = time.monotonic()
        try:
            while not store.check([f"all_{key}"]):
                if is_enough(time.monotonic() - begin):
                    # The rank with the scheduler knows who is left, and tells those that wait as well. What another
                    # rank finds out is so for itself alone.
                    if self._scheduler_service is not None:
                        store.set(f"all_{key}", "1")
                    return
                time.sleep(0.05 if time.monotonic() - begin < LEAVE_SECONDS else 1)
        except RuntimeError as error:  # the store's process is gone
            logger.info("not all ranks said goodbye (%s): %s", key, error)

    def _may_go(self, waited_seconds: float) -> bool:
        """Whether this process, which serves the job's other ranks, is needed no more though some have not said that
        they left. One that was killed never does: the scheduler finds that out. Says that it stays."""
        if waited_seconds < LEAVE_SECONDS:
            return False
        live_ranks = UNKNOWN
        if self._scheduler_service is not None:
            live_ranks = self._scheduler_service.live_ranks
            is_needed = live_ranks > 0
        else:
            is_needed = _answers(self._plan.scheduler)
        if not is_needed:
            return True
        if waited_seconds < self._next_word_seconds:
            return False
        runs = "the job's scheduler and a server" if self._scheduler_service is not None else "a server of the job"
        others = "other ranks are" if live_ranks == UNKNOWN else f"{live_ranks} other ranks are"
        still = f"after {waited_seconds:.0f} s {others} still in the job"
        if self._script_has_ended:
            _tell(
                f"shoal: rank {self._rank} runs {runs}, and its script has ended; {still} and will fail."
                " destroy_process_group() at the end of the script stays for them"
            )
            return True
        self._tell_of_wait(f"shoal: rank {self._rank} runs {runs}, so it stays until all ranks have left: {still}")
        self._next_word_seconds = waited_seconds + min(waited_seconds, LONGEST_SILENCE_SECONDS)
        return False


def connect_to_open_job(
    settings: config.Config, job_name: str, identity: str, timeout: datetime.timedelta
) -> _C.Session:
    """Joins as one of its members, whose number is the session's rank, and waits for the servers. Raises
    DistBackendError."""
    if settings.timeout is not None:
        timeout = datetime.timedelta(seconds=settings.timeout)
    session = None

    def forget() -> None:
        if session in _open_sessions:
            _open_sessions.remove(session)

    session = _C.Session(
        **_session_options(settings), scheduler=settings.scheduler, job_name=job_name, min_ranks=1, identity=identity,
        min_servers=settings.min_servers or 1, timeout_ms=_milliseconds(timeout), net_device=settings.net_device,
        on_closed=forget,
    )  # fmt: skip
    _open_sessions.append(session)
    open_devices(session, settings)
    return session


def open_devices(session: _C.Session, settings: config.Config) -> None:
    if not (_has_devices(settings) and torch.cuda.is_initialized()):
        return
    for device in range(torch.cuda.device_count()):
        if torch._C._cuda_hasPrimaryContext(device):
            try:
                session.open_device(device)
            except RuntimeError as error:
                warnings.warn(f"shoal: {error}; the first all-reduce there tries again", stacklevel=2)


def _has_devices(settings: config.Config) -> bool:
    return settings.devices == "cuda" or (settings.devices == "auto" and torch.cuda.is_available())


def _session_options(settings: config.Config) -> dict:
    """Those that any session of this process has."""
    local = placement.local_place(os.environ)
    return {
        "local_rank": local.rank,
        "local_world_size": local.world_size,
        "transports": settings.transports,
        "network_only": settings.network_only,
        "checksums": settings.checksums,
        "check_finite": settings.check_finite,
        "flight_recorder": settings.flight_recorder,
        "tls_cert": settings.tls_cert,
        "tls_key": settings.tls_key,
        "tls_ca": settings.tls_ca,
        "quiet": settings.quiet,
        "node_reduce": config.NODE_REDUCES.index(settings.node_reduce),
        "devices": _has_devices(settings),
        "device_memory_bytes": settings.device_memory,
    }


def read_settings() -> config.Config:
    """Loads the library as well. Raises ValueError, or DistBackendError."""
    load_library()
    config.warn_about_unknown_variables(os.environ)
    placement.local_place(os.environ)
    return config.read_config(os.environ, _query)[0]


def check_settings() -> None:
    """Of a group of one rank, which uses none of them: a wrong one is an error also there, before the job gets a second
    rank. Raises ValueError."""
    config.warn_about_unknown_variables(os.environ)
    config.read_config(os.environ, _query)
    placement.local_place(os.environ)


def for_group(options: dist.distributed_c10d._DistributedBackendOptions) -> tuple[Membership, dist.Store]:
    """The process's membership, and the group's part of the store. Joins the job if this is the process's first
    group."""
    global _current
    with _lock:
        current = _current
    if current is not None and current.process_id == os.getpid():
        return current, _meet(options, current.meeting_timeout(options.timeout))
    load_library()
    if options.group_rank == 0:
        config.warn_about_unknown_variables(os.environ)
    try:
        membership = Membership(config.read_config(os.environ, _query)[0])
        placement.local_place(os.environ)
    except ValueError as error:
        _tell_the_others(options, error)
        raise
    try:
        if options.global_ranks_in_group:
            store = _meet(options, membership.meeting_timeout(options.timeout))
            timeout = membership.join_timeout(options.timeout)
            ranks = list(range(options.group_size))
            meeting.all_do(
                store, "join the job", ranks, options.group_rank, timeout,
                lambda: membership.join_alone(dist.get_rank(), dist.get_world_size(), timeout),
            )  # fmt: skip
        else:
            store = membership.join_with_store(options.store, options.group_rank, options.group_size, options.timeout)
    except BaseException:
        membership.give_up()
        raise
    with _lock:
        _current = membership
    return membership, store


def _meet(options: dist.distributed_c10d._DistributedBackendOptions, timeout: datetime.timedelta) -> dist.Store:
    """A group whose ranks have nothing to decide."""
    return meeting.meet(options.store, options.group_rank, options.group_size, {}, timeout, _check_words)[0]


def _check_words(words: list[dict]) -> dict:
    """Raises ValueError if a rank has said that it failed."""
    errors = [f"rank {rank}: {word['error']}" for rank, word in enumerate(words) if "error" in word]
    if errors:
        raise ValueError("; ".join(errors))
    return {}


def _tell_the_others(options: dist.distributed_c10d._DistributedBackendOptions, error: ValueError) -> None:
    """Why this rank will not come: those that are there now, or soon, need not wait for it."""
    timeout = min(options.timeout, meeting.TIME_TO_TELL)
    word = {"error": str(error)}
    try:
        meeting.meet(options.store, options.group_rank, options.group_size, word, timeout, _check_words)
    except (dist.DistBackendError, RuntimeError):
        pass  # this rank's own error says more


def _new_job_name(environment: Mapping[str, str]) -> str:
    """One that no other job has, and that says which job this is."""
    run = environment.get("TORCHELASTIC_RUN_ID", "none")
    if run == "none":  # torchrun's default
        run = f"{environment.get('MASTER_ADDR', socket.gethostname())}-{environment.get('MASTER_PORT', '0')}"
    run = re.sub(f"[^{config.NAME_CHARACTERS}]", "_", run[-150:])  # a run id may be any text
    return f"{run}-{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}-{meeting.draw_name()}"


def address() -> str:
    """At which other ranks reach this process, in the job that it is in; empty: it is not known."""
    with _lock:
        current = _current
    return LOOPBACK if current is None else current.address


def remember_query(query: dict[str, str]) -> None:
    global _query
    _query = query


def current_query() -> dict[str, str]:
    return _query


def library_path() -> str:
    """SHOAL_LIBRARY, otherwise the library in the package."""
    return os.environ.get("SHOAL_LIBRARY") or str(pathlib.Path(__file__).resolve().parent / "lib" / "libshoal.so")


def load_library() -> None:
    """Loads libshoal.so. Raises DistBackendError, which says what to do."""
    _C.load_library(library_path())


def statistics() -> dict:
    """What this process's all-reduces have done so far; see `shoal_statistics` in worker.h for the fields. `shards`
    lists the bytes to and from each server thread, `op_times` how many all-reduces took `at_most_ns` and longer than
    the entry before says. Of a process in several jobs those of its fixed one, or else of the newest. Empty when the
    process is in no job."""
    with _lock:
        current = _current
    sessions = [*_open_sessions, *([] if current is None or current.session is None else [current.session])]
    return sessions[-1].statistics() if sessions and not sessions[-1].forked else {}


def _answers(address: str) -> bool:
    """Whether somebody listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LEAVE_SECONDS).close()
        return True
    except OSError:
        return False


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _milliseconds(timeout: datetime.timedelta) -> int:
    return max(1, int(timeout.total_seconds() * 1000))


@atexit.register
def _leave_at_exit() -> None:
    with _lock:
        current = _current
    if current is not None:
        current.close(script_has_ended=True)
    # A script that ended by an exception leaves others in the middle of a step: they are not to wait for it.
    error = getattr(sys, "last_value", None)
    for session in list(_open_sessions):
        try:
            if error is not None:
                session.give_up(f"its script raised {type(error).__name__}: {error}"[:LONGEST_REASON])
            session.close()
        except dist.DistBackendError as failure:
            _tell(f"shoal: leaving the job failed: {failure}")
