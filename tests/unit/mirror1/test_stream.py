"""The order of a stream's commits, and of the calls of its rebalance listener."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mm2.core.lanes.progress_reports import LaneProgress, PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.mirror1.settings import MirrorSettings, Partitioning
from mm2.core.mirror1.user_class import RebalanceListener, UserClass
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.kafka.client.offsets import OffsetSpec
from mm2.kafka.errors import BrokerError, ClusterError, NoLeader, RequestTimedOut
from mm2.kafka.groups.consumer_member import ConsumerMember, Outcome
from mm2.kafka.groups.member_errors import MembershipRefused
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.mirror1.stream import Stream, StreamTimes
from mm2.mirror1.stream_leases import COPIED, ROUTED
from mm2.mirror1.topics import Prepared, SourceTopics, TargetTopics
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService, Wake
from tests.lab.busy_threads import busy_threads
from tests.lab.tasks import unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config.mirror1 import files
from tests.unit.node.engine.lane_boards import grant, new_board

FLOW = Flow("mirror-0", "target")
ORDERS = TopicPartition("orders", 0)
WITHIN_S = 5.0


class Source(SourceTopics):
    """Topics with one partition each."""

    def __init__(self) -> None:
        super().__init__(unconnected_cluster(), lambda _: True, exclude_internal=True)

    async def look_up(self, topics: Collection[str]) -> dict[str, int | BrokerError]:
        return dict.fromkeys(topics, 1)


class Target(TargetTopics):
    """Has all topics of the source; the topics that it was asked for are in ``prepared``."""

    def __init__(self) -> None:
        super().__init__(unconnected_cluster(), Partitioning.SAME)
        self.prepared: list[str] = []

    async def prepare(self, sources: Mapping[str, int]) -> Prepared:
        self.prepared += sources
        return Prepared(frozenset(sources), {})


class Unreachable(Target):
    """A target that does not answer until ``answers`` is True."""

    answers = False

    async def prepare(self, sources: Mapping[str, int]) -> Prepared:
        if self.answers:
            return await super().prepare(sources)
        self.prepared += sources
        raise RequestTimedOut("no answer")


class Broken(Target):
    """A target for which the program fails while ``fails`` is True."""

    fails = True

    async def prepare(self, sources: Mapping[str, int]) -> Prepared:
        if self.fails:
            raise KeyError("orders")
        return await super().prepare(sources)


class Hiding(Source):
    """A source that permits nothing while ``hides`` is True."""

    hides = True

    async def look_up(self, topics: Collection[str]) -> dict[str, int | BrokerError]:
        if not self.hides:
            return await super().look_up(topics)
        return {name: BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"read {name}") for name in topics}


class Journal(RebalanceListener):
    """Keeps its calls in order. ``goes_on``: is waited for when partitions are assigned."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        self.goes_on = threading.Event()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", frozenset(partitions)))
        assert self.goes_on.wait(WITHIN_S)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", frozenset(partitions)))


class Commits:
    """The commits of a member: each waits for ``answers``, as for a coordinator that is moving."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.accepted: list[int] = []
        self.answers = asyncio.Event()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Outcome:
        self.begun += offsets.values()
        await self.answers.wait()
        self.accepted += offsets.values()
        return dict.fromkeys(offsets)

    def member(self, *args: Any, **options: Any) -> ConsumerMember:
        """Return a member that commits here."""
        return CommittingMember(self, *args, **options)


class CommittingMember(ConsumerMember):
    def __init__(self, commits: Commits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._commits = commits

    async def commit(self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Outcome:
        return await self._commits.commit(offsets)


class RefusedOnce(ConsumerMember):
    """The coordinator rejects it once, and then assigns the partition to it."""

    is_refused = True

    async def run(self) -> None:
        if self.is_refused:
            self.is_refused = False
            raise MembershipRefused("not authorized", None)
        await self._handler.assigned({ORDERS}, 1)
        await self._stopping.wait()


class Lane:
    """The lane of the stream's source task."""

    def __init__(self, board: LaneBoard) -> None:
        self._board = board
        self._session = grant(board, 0)

    def report(self, position: int, *, is_running: bool) -> None:
        """Report that everything before ``position`` is acknowledged."""
        partition = PartitionProgress(
            topic="orders", partition=0, remote_topic="orders", state=TaskState.RUNNING, position=position
        )
        task = SourceTaskProgress(
            flow=FLOW, source_task=COPIED, epoch=1, state=TaskState.RUNNING, partitions=(partition,), drained=True
        )
        orders = self._board.lane_orders(0).version
        progress = LaneProgress(version=orders, pid=1, source_tasks=(task,) if is_running else ())
        self._board.lane_report(0, self._session, progress, 1.0)


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    return replace(files.settings(tmp_path, "auto.offset.reset=earliest\n"), commit_interval_ms=10)


@pytest.fixture
def from_latest(tmp_path: Path) -> MirrorSettings:
    """The default of MirrorMaker 1."""
    return files.settings(tmp_path)


async def no_committed_offsets(_: object, groups: Collection[str]) -> dict[str, dict[TopicPartition, Any]]:
    return {group: {} for group in groups}


def committed_at(offset: int) -> Any:
    async def committed(_: object, groups: Collection[str]) -> dict[str, dict[TopicPartition, Any]]:
        return {group: {ORDERS: CommittedOffset(offset=offset)} for group in groups}

    return committed


END = 300
"""Of each partition, while `Ends` says nothing else."""


class Ends:
    """The ends of the source's partitions; ``error`` instead, if it is set. ``asked``: how often."""

    def __init__(self) -> None:
        self.end = END
        self.error: ClusterError | None = None
        self.asked = 0

    async def __call__(self, *args: Any, **_: Any) -> dict[TopicPartition, int | ClusterError]:
        _, partitions, spec = args
        assert spec is OffsetSpec.LATEST
        self.asked += 1
        return dict.fromkeys(partitions, self.error or self.end)


def new_stream(
    settings: MirrorSettings,
    target: TargetTopics | None = None,
    listener: object = None,
    source: SourceTopics | None = None,
    **options: Any,
) -> Stream:
    """``options``: of `Stream`."""
    options = {"read_committed": no_committed_offsets, "list_offsets": Ends(), **options}
    return Stream(
        settings,
        settings.consumers[0],
        flow=FLOW,
        client_id="mirror-0",
        leases=LeaseService(new_board(1), capacity=1),
        topics=source or Source(),
        targets=target or Target(),
        listener=listener,
        **options,
    )


async def copying(stream: Stream, position: int) -> Lane:
    """Assign the partition; return its lane, after its first report."""
    board = stream._leases.board
    await stream.assigned({ORDERS}, 1)
    await until(lambda: board.lane_has((FLOW, COPIED)), WITHIN_S, "the lane has its orders")
    lane = Lane(board)
    lane.report(position, is_running=True)
    return lane


async def until_revoked(stream: Stream) -> None:
    """Wait until the lane has orders without the partition."""
    orders = stream._leases.board.lane_orders
    await until(lambda: not orders(0).source_tasks[0].partitions, WITHIN_S, "the partition is revoked")


@asynccontextmanager
async def background(*work: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        await cancel_and_wait(tasks)


async def test_a_commit_never_overwrites_a_later_one(settings: MirrorSettings) -> None:
    """A regular commit is still being retried when the partitions are revoked."""
    commits = Commits()
    stream = new_stream(settings, member=commits.member)
    lane = await copying(stream, 10)
    async with background(stream._commit_regularly()):
        await until(lambda: commits.begun == [10], WITHIN_S, "the first commit has begun")
        lane.report(20, is_running=True)
        async with background(stream.revoked()) as (revoking,):
            await until_revoked(stream)
            lane.report(20, is_running=False)
            stream._leases.wake(Wake.REPORT)
            for _ in range(100):
                await asyncio.sleep(0)
            assert commits.begun == [10], "the second commit waits for the first"
            commits.answers.set()
            await asyncio.wait_for(revoking, WITHIN_S)
    assert commits.accepted == [10, 20]
    assert stream.all_committed


async def test_a_membership_that_ends_while_partitions_are_revoked(settings: MirrorSettings) -> None:
    """What was in flight is not committed, and that is not forgotten."""
    stream = new_stream(settings)
    await copying(stream, 10)
    async with background(stream.revoked()):
        await until_revoked(stream)
    stream.lost()
    assert not stream.all_committed


async def test_what_is_in_flight_has_a_limited_time_when_the_stream_is_stopped(
    settings: MirrorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """(D) The lane is stopped then, and what the target has acknowledged is committed."""
    commits = Commits()
    times = StreamTimes(drain_within_s=0.2, lanes_stop_within_s=60.0)
    stream = new_stream(settings, member=commits.member, times=times)
    commits.answers.set()
    lane = await copying(stream, 10)
    async with background(stream.revoked()) as (revoking,):
        await until_revoked(stream)
        lane.report(10, is_running=True)
        for _ in range(100):
            await asyncio.sleep(0)
        assert commits.accepted == [], "a rebalance waits as long as the group does"
        stream.stop()
        await until(lambda: not stream._leases.board.lane_has((FLOW, COPIED)), WITHIN_S, "the lane is stopped")
        assert commits.accepted == [], "the lane has not confirmed it"
        lane.report(10, is_running=False)
        stream._leases.wake(Wake.REPORT)
        await asyncio.wait_for(revoking, WITHIN_S)
    assert commits.accepted == [10]
    assert (stream.drained, stream.all_committed) == (False, False)
    assert "what is not committed of orders-0 will be copied again" in caplog.text


async def test_the_last_commit_has_a_limited_time_when_the_stream_is_stopped(settings: MirrorSettings) -> None:
    """(D)"""
    commits = Commits()
    stream = new_stream(settings, member=commits.member, times=StreamTimes(last_commit_s=0.2))
    lane = await copying(stream, 10)
    stream.stop()
    async with background(stream.revoked()) as (revoking,):
        await until_revoked(stream)
        lane.report(10, is_running=False)
        stream._leases.wake(Wake.REPORT)
        await asyncio.wait_for(revoking, WITHIN_S)
    assert (commits.begun, commits.accepted) == ([10], [])
    assert (stream.drained, stream.all_committed) == (True, False)


async def test_a_refusal_is_over_when_partitions_are_assigned(settings: MirrorSettings) -> None:
    stream = new_stream(settings, member=RefusedOnce, times=StreamTimes(refused_s=0.5))
    async with background(stream.run()) as (running,):
        await until(lambda: stream.last_error() == "not authorized", WITHIN_S, "the member is rejected")
        await until(lambda: stream._leases.board.lane_has((FLOW, COPIED)), WITHIN_S, "the lane has its orders")
        assert stream.last_error() is None
        stream.stop()
        await asyncio.wait_for(running, WITHIN_S)


async def test_topics_of_the_source_are_not_needed_on_the_target_with_a_handler(settings: MirrorSettings) -> None:
    """It names the topics to write to, so none with the source topic's name is created."""
    target = Target()
    handler = UserClass(name="acme_mirror:Handler", arguments=None)
    stream = new_stream(replace(settings, handler=handler), target)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: stream._leases.board.lane_has((FLOW, ROUTED)), WITHIN_S, "the lane has its orders")
    assert target.prepared == []


async def test_a_listener_is_called_before_partitions_are_started(settings: MirrorSettings) -> None:
    journal, target = Journal(), Target()
    stream = new_stream(settings, target, journal)
    async with background(stream.assigned({ORDERS}, 1)) as (assigning,):
        await until(lambda: journal.calls == [("assigned", frozenset({ORDERS}))], WITHIN_S, "the listener is called")
        for _ in range(100):
            await asyncio.sleep(0)
        assert target.prepared == []
        journal.goes_on.set()
        await asyncio.wait_for(assigning, WITHIN_S)
        await until(lambda: target.prepared == ["orders"], WITHIN_S, "the partitions are started")
        await stream.revoked()


async def test_a_listener_gets_the_partitions_back_that_were_never_started(settings: MirrorSettings) -> None:
    """It may have opened something for each of them."""
    journal, target = Journal(), Unreachable()
    journal.goes_on.set()
    stream = new_stream(settings, target, journal)
    with busy_threads():  # the listener does not need those of the event loop
        async with asyncio.timeout(WITHIN_S):
            await stream.assigned({ORDERS}, 1)
        await until(lambda: target.prepared == ["orders"], WITHIN_S, "the partitions are started")
        async with asyncio.timeout(WITHIN_S):
            await stream.revoked()
            await stream.assigned(set(), 2)
            await stream.revoked()
    assert journal.calls == [("assigned", frozenset({ORDERS})), ("revoked", frozenset({ORDERS}))]


async def test_a_listener_is_not_called_for_a_lost_membership(settings: MirrorSettings) -> None:
    journal, target = Journal(), Unreachable()
    journal.goes_on.set()
    stream = new_stream(settings, target, journal)
    await stream.assigned({ORDERS}, 1)
    stream.lost()
    await stream.revoked()
    assert journal.calls == [("assigned", frozenset({ORDERS}))]


async def test_a_topic_that_the_source_does_not_show_is_reported_and_tried_again(settings: MirrorSettings) -> None:
    source = Hiding()
    stream = new_stream(settings, source=source, times=StreamTimes(refused_topic_s=0.01))
    await stream.assigned({ORDERS}, 1)
    await until(lambda: stream.last_error() is not None, WITHIN_S, "it is reported")
    assert stream.last_error() == "cannot read orders: TOPIC_AUTHORIZATION_FAILED"
    source.hides = False
    await until(lambda: stream.last_error() is None, WITHIN_S, "it is over")
    assert stream._assigned == {ORDERS}
    await stream.revoked()


async def test_an_unexpected_error_of_a_start_is_reported_and_tried_again(
    settings: MirrorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    target = Broken()
    stream = new_stream(settings, target, times=StreamTimes(restart_after_s=0.0))
    await stream.assigned({ORDERS}, 1)
    await until(
        lambda: caplog.text.count("mirror-0->target: start: unexpected error") > 1, WITHIN_S, "it is tried again"
    )
    assert stream.last_error() == "cannot start the assigned partitions: unexpected error KeyError('orders')"
    target.fails = False
    await until(lambda: stream.last_error() is None, WITHIN_S, "it is over")
    await stream.revoked()


def lane_starts(stream: Stream) -> list[int | None]:
    """Return where the lane is to start the partition."""
    return [one.start_offset for task in stream._leases.board.lane_orders(0).source_tasks for one in task.partitions]


async def test_latest_is_decided_and_committed_when_a_partition_is_assigned(from_latest: MirrorSettings) -> None:
    """What is written until a lane fetches is copied, also by the next process if this one ends before."""
    commits, ends, target = Commits(), Ends(), Unreachable()
    commits.answers.set()
    stream = new_stream(from_latest, target, member=commits.member, list_offsets=ends)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: commits.accepted == [END], WITHIN_S, "the end is committed, although the target is not ready")
    ends.end = END + 50
    target.answers = True
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert lane_starts(stream) == [END]
    await stream.prepare_lease(COPIED)
    assert lane_starts(stream) == [END], "also if the lane starts later, or again"
    await stream.revoked()
    assert (ends.asked, commits.accepted) == (1, [END])


async def test_an_end_that_could_not_be_committed_is_kept(from_latest: MirrorSettings) -> None:
    """A rebalance follows while the coordinator is moving: the partition still starts where it was first assigned."""
    commits, ends = Commits(), Ends()
    stream = new_stream(from_latest, member=commits.member, list_offsets=ends)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: commits.begun == [END], WITHIN_S, "the commit has begun")
    await stream.revoked()
    assert commits.accepted == []
    ends.end = END + 50
    commits.answers.set()
    await stream.assigned({ORDERS}, 2)
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert (lane_starts(stream), commits.accepted) == ([END], [END])
    await stream.revoked()


async def test_an_end_is_not_committed_without_a_membership(from_latest: MirrorSettings) -> None:
    """Each attempt would fail, and be logged. The next assignment commits it."""
    commits, ends = Commits(), Ends()
    stream = new_stream(from_latest, member=commits.member, list_offsets=ends)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: commits.begun == [END], WITHIN_S, "the commit has begun")
    assert stream._offsets.chosen() == [ORDERS]
    stream.lost()
    assert stream._offsets.chosen() == []
    commits.answers.set()
    ends.end = END + 50
    await stream.assigned({ORDERS}, 2)
    await until(lambda: commits.accepted == [END], WITHIN_S, "it is committed")
    await stream.revoked()
    assert stream._offsets.chosen() == []


async def test_an_end_that_could_not_be_committed_is_void_when_another_member_has_copied(
    from_latest: MirrorSettings,
) -> None:
    """Neither is it where the partition starts, nor is it ever committed."""
    answer = no_committed_offsets

    async def committed(cluster: object, groups: Collection[str]) -> Any:
        return await answer(cluster, groups)

    commits = Commits()
    stream = new_stream(from_latest, member=commits.member, read_committed=committed)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: commits.begun == [END], WITHIN_S, "the commit has begun")
    await stream.revoked()
    commits.answers.set()
    await stream.assigned(set(), 2)
    assert stream._offsets.chosen() == []
    await stream.revoked()
    answer = committed_at(END + 200)
    await stream.assigned({ORDERS}, 3)
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert (lane_starts(stream), stream._offsets.chosen()) == ([END + 200], [])
    await stream.revoked()
    assert commits.accepted == []


async def test_a_committed_offset_is_where_a_partition_starts(from_latest: MirrorSettings) -> None:
    ends = Ends()
    stream = new_stream(from_latest, list_offsets=ends, read_committed=committed_at(40))
    await stream.assigned({ORDERS}, 1)
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert (lane_starts(stream), ends.asked) == ([40], 0)
    await stream.revoked()


async def test_an_offset_in_zookeeper_is_where_a_partition_starts_that_has_none_in_kafka(
    from_latest: MirrorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """It is committed at once, and used once: the topic can be recreated."""
    caplog.set_level("INFO")
    commits, ends, old = Commits(), Ends(), {ORDERS: 40, TopicPartition("other", 0): 7}
    stream = new_stream(from_latest, member=commits.member, list_offsets=ends, old_offsets=old)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: commits.begun == [40], WITHIN_S, "the commit has begun")
    assert ORDERS in old, "it is not committed yet"
    commits.answers.set()
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert (lane_starts(stream), commits.accepted, ends.asked) == ([40], [40], 0)
    assert old == {TopicPartition("other", 0): 7}
    assert "mirror-0->target: no offset is committed: starting at that of ZooKeeper: orders-0 at 40" in caplog.text
    await stream.revoked()


async def test_an_offset_in_kafka_takes_precedence_over_one_in_zookeeper(settings: MirrorSettings) -> None:
    """Also when the topic, and with it the group's offset, has been deleted and recreated."""
    old = {ORDERS: 40}
    stream = new_stream(settings, old_offsets=old, read_committed=committed_at(50))
    await stream.assigned({ORDERS}, 1)
    await until(lambda: lane_starts(stream) != [], WITHIN_S, "the lane has its orders")
    assert (lane_starts(stream), old) == ([50], {})
    await stream.revoked()


async def test_a_partition_whose_end_is_unknown_is_tried_again(from_latest: MirrorSettings) -> None:
    commits, ends = Commits(), Ends()
    commits.answers.set()
    ends.error = NoLeader(ORDERS, ErrorCode.LEADER_NOT_AVAILABLE)
    stream = new_stream(from_latest, member=commits.member, list_offsets=ends)
    await stream.assigned({ORDERS}, 1)
    await until(lambda: stream.last_error() is not None, WITHIN_S, "it is reported")
    assert stream.last_error() == "cannot find the leader of orders-0: LEADER_NOT_AVAILABLE"
    assert lane_starts(stream) == []
    ends.error = None
    await until(lambda: lane_starts(stream) == [END], WITHIN_S, "the lane has its orders")
    assert stream.last_error() is None
    await stream.revoked()
