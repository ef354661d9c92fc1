"""`mm2.node.commands.copy_again`: what is refused, and what is announced. tests/integration has a whole node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from mm2.core.access.audit import CommandOrigin
from mm2.core.access.callers import Caller, Role
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.coordination.commands import CommandRefusedError
from mm2.core.coordination.pauses import Pauses
from mm2.core.coordination.query_history import QueryEntry, QueryHistory, QueryText
from mm2.core.coordination.query_history_records import encode_history, encode_query
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.coordination.repeats import Repeat, RepeatState, encode_repeat
from mm2.core.lanes.losses import Loss
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.commands.copy_again import CopyAgain
from mm2.node.commands.leader import LeaderHandle
from mm2.node.commands.registry import carry_out
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.status.status_model import FlowStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDERS = ReplicatedTopic(
    topic="orders", remote_topic="A.orders", partitions=2, topic_ids=TopicIds(UUID(int=1), UUID(int=2))
)
ORIGIN = CommandOrigin(id="0123456789abcdef", caller=Caller(name="alice", role=Role.OPERATOR, address=""))
QUERY = QueryText(text="SELECT * FROM records", sha256="a" * 64)
CONSEQUENCE = (
    "consumers of A.orders read these records a second time, behind those that it has now; committed offsets do not"
    " move back"
)


class Term(LeaderTerm):
    """A term that knows two partitions of one topic: 100 records of each are copied, the source has the last 90."""

    shown: tuple[ReplicatedTopic, ...] = (ORDERS,)
    positions: Mapping[TopicPartition, int] = {ZERO: 100, ONE: 100}
    starts: Mapping[TopicPartition, int | ClusterError] = {ZERO: 10, ONE: 10}
    at_time: Mapping[TopicPartition, int | ClusterError] = {ZERO: 60, ONE: -1}

    @property
    def topics(self) -> tuple[ReplicatedTopic, ...]:
        return self.shown

    async def stored_positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.positions[one] for one in partitions if one in self.positions}

    async def log_starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | ClusterError]:
        return {one: self.starts[one] for one in partitions}

    async def offsets_at(
        self, partitions: Collection[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | ClusterError]:
        return {one: self.at_time[one] for one in partitions}


class Losses(LossStore):
    """Losses in memory."""

    found: tuple[Loss, ...] = ()

    async def recorded(self) -> tuple[Loss, ...]:
        return self.found


class Stage:
    """A leader that is not connected."""

    def __init__(self, directory: Path) -> None:
        settings, cluster = files.flow(directory), unconnected_cluster()
        self.configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        self.term = Term(
            settings,
            generation=1,
            source=cluster,
            target=cluster,
            configs=self.configs,
            reports={},
            query_uses=ReportedQueryUses(),
            fingerprint=lambda: None,
            changed=lambda: None,
        )
        self.losses = Losses(settings, cluster, ControlProducer(cluster), lambda: None)

    async def say(self, command: CopyAgain) -> list[str]:
        """Return the lines that announce what would be copied again."""

        async def status() -> FlowStatus:
            raise AssertionError

        leader = LeaderHandle(
            term=self.term,
            configs=self.configs,
            placement=TaskAssignments(epoch=1, places={}),
            losses=self.losses,
            status=status,
            origin=ORIGIN,
        )
        return (await carry_out(replace(command, dry_run=True), leader)).split("\n")

    async def refuses(self, command: CopyAgain, *, is_unknown: bool = False) -> str:
        with pytest.raises(CommandRefusedError) as refusal:
            await self.say(command)
        assert refusal.value.is_unknown == is_unknown
        return str(refusal.value)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_everything_is_announced(stage: Stage) -> None:
    assert await stage.say(CopyAgain(topic="orders")) == [
        "would copy orders again: at most 180 records of 2 partitions",
        "partition 0: offsets 10-99, at most 90 records",
        "partition 1: offsets 10-99, at most 90 records",
        CONSEQUENCE,
    ]
    assert await stage.say(CopyAgain(topic="orders", partition=1, offset=98)) == [
        "would copy orders again: at most 2 records of 1 partition",
        "partition 1: offsets 98-99, at most 2 records",
        CONSEQUENCE,
    ]
    assert await stage.say(CopyAgain(topic="orders", time=1000)) == [
        "would copy orders again: at most 40 records of 1 partition",
        "partition 0: offsets 60-99, at most 40 records",
        "not copied again: no record of orders-1 since 1970-01-01T00:00:01Z is copied yet",
        CONSEQUENCE,
    ]


async def test_a_large_topic_is_summed_up(stage: Stage) -> None:
    stage.term.shown = (replace(ORDERS, partitions=30),)
    partitions = [TopicPartition("orders", number) for number in range(30)]
    stage.term.positions, stage.term.starts = dict.fromkeys(partitions, 5_000), dict.fromkeys(partitions, 0)
    lines = await stage.say(CopyAgain(topic="orders"))
    assert lines[0] == "would copy orders again: at most 150,000 records of 30 partitions"
    assert lines[21:] == ["and 10 more partitions", CONSEQUENCE]


async def test_unknown_names(stage: Stage) -> None:
    text = await stage.refuses(CopyAgain(topic="orders", partition=2), is_unknown=True)
    assert text == "topic orders has no partition 2; it has 2"
    other = TopicPartition("other", 0)
    stage.term.starts = {other: 0}
    text = await stage.refuses(CopyAgain(topic="other"), is_unknown=True)
    assert text == "the flow does not select topic other of A (topics, topics.exclude): nothing of it is copied"
    stage.term.starts = {other: BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "list offsets")}
    assert await stage.refuses(CopyAgain(topic="other"), is_unknown=True) == "A has no topic other"
    stage.term.starts = {other: RequestTimedOut("no answer")}
    assert await stage.refuses(CopyAgain(topic="other"), is_unknown=True) == "the flow does not replicate other"
    stage.term.shown = ()
    assert (await stage.refuses(CopyAgain(topic="orders"))).startswith("the topics of the flow are not known yet")


@pytest.mark.parametrize("pauses", [Pauses(flow=True), Pauses(topics=frozenset({"orders"}))])
async def test_paused_topics(stage: Stage, pauses: Pauses) -> None:
    stage.configs.pauses = pauses
    text = await stage.refuses(CopyAgain(topic="orders"))
    assert text == "orders is paused: resume it first, then copy it again"


async def test_starts_that_are_refused(stage: Stage) -> None:
    text = await stage.refuses(CopyAgain(topic="orders", offset=101))
    assert text.startswith("offset 101 of orders-0 is not copied yet, so the records before it would be skipped")
    text = await stage.refuses(CopyAgain(topic="orders", offset=9))
    assert text == "the source has deleted offset 9 of orders-0: its log starts at offset 10"
    text = await stage.refuses(CopyAgain(topic="orders", offset=20, time=30))
    assert text == "copy again from an offset or from a time, not from both"
    text = await stage.refuses(CopyAgain(topic="orders", partition=1, time=1000))
    assert text == "nothing to copy again: no record of orders-1 since 1970-01-01T00:00:01Z is copied yet"
    stage.term.positions = {}
    text = await stage.refuses(CopyAgain(topic="orders", offset=20))
    assert text == "nothing to copy again: nothing of orders-0 is copied yet; nothing of orders-1 is copied yet"
    stage.term.starts = {ZERO: 0, ONE: RequestTimedOut("no answer")}
    text = await stage.refuses(CopyAgain(topic="orders"))
    assert text == "cannot ask the source for the start of orders-1: no answer"


async def test_a_second_request_while_the_first_is_pending(stage: Stage) -> None:
    repeat = Repeat(partition=ONE, number=1, state=RepeatState.REQUESTED, first=0, at=1, changed=1, by="bob")
    stage.configs.repeats.take(*encode_repeat(repeat))
    text = await stage.refuses(CopyAgain(topic="orders"))
    assert text == "already requested for orders-1, and waiting until records in flight are stored"
    assert await stage.say(CopyAgain(topic="orders", partition=0))


async def test_a_query_whose_history_is_unknown_needs_a_confirmation(stage: Stage) -> None:
    stage.term.shown = (replace(ORDERS, query="mask"),)
    command = CopyAgain(topic="orders")
    unknown = (
        "it is not known which query applied to all of these records of orders-0, orders-1; they are copied again with"
        " query mask"
    )
    assert (await stage.say(command))[-1] == f"{unknown}: needs --yes"
    assert (await stage.say(replace(command, yes=True)))[-1] == unknown
    for one in (ZERO, ONE):
        history = QueryHistory((QueryEntry(0, QUERY.sha256, 1),))
        for record in (encode_query(QUERY), encode_history(one, history)):
            stage.configs.query_histories.take(*record)
    assert (await stage.say(command))[-1] == (
        "the records are copied again with query mask, whatever query applied to them before"
    )
    stage.term.shown = (ORDERS,)
    assert (await stage.say(command))[-1] == (
        "the records are copied again without a query, whatever query applied to them before"
    )


async def test_losses_in_what_is_copied_again_are_named(stage: Stage) -> None:
    loss = Loss(topic="orders", partition=0, first=5, until=11, reason="", kind="skipped")
    stage.losses.found = (loss, replace(loss, first=100, until=120), replace(loss, partition=9))
    (line,) = (await stage.say(CopyAgain(topic="orders")))[4:]
    assert line.startswith("1 recorded loss is in these offsets; what the source still has of them is copied now")
    stage.losses.found = (loss, replace(loss, first=99, until=120))
    (line,) = (await stage.say(CopyAgain(topic="orders")))[4:]
    assert line.startswith("2 recorded losses are in these offsets")
