"""Checkpoints of the source's groups: Java's bytes and rules, also across restarts."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, Segment, SegmentKey
from mm2.node.status.status_model import GroupState
from tests.integration.checkpoints.conftest import NewFlow
from tests.integration.checkpoints.flow import OFFSETS_PARTITIONS, SOON, shown, shown_partition
from tests.lab.checkpoints import Checkpoint
from tests.lab.groups import commit
from tests.lab.history import read_topic
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until

METADATA = "notes\0"  # the committing client appends the zero


async def test_checkpoint_has_javas_bytes(new_flow: NewFlow) -> None:
    flow = new_flow()
    topic = flow.topic("t")
    group = flow.named("g")
    flow.sync(topic, (100, 200))
    commit(flow.source, group, {(topic, 0): 150}, metadata="notes")
    began = time.time() * 1000
    async with flow.running() as task:
        assert await flow.checkpoint(group, 150) == Checkpoint(group, f"{flow.a}.{topic}", 0, 150, 201, METADATA)
        await until(lambda: task.last_error is None, SOON, "the task runs")
        (record,) = await flow.records(flow.checkpoints_topic)
        key, value, headers, timestamp = record.content
        named, remote = group.encode(), f"{flow.a}.{topic}".encode()
        assert key == struct.pack(f">h{len(named)}sh{len(remote)}si", len(named), named, len(remote), remote, 0)
        assert value == struct.pack(">hqqh6s", 0, 150, 201, 6, METADATA.encode())
        assert headers == ()
        assert began <= timestamp <= time.time() * 1000
        metrics = flow.checkpoint_metrics
        await until(lambda: group in metrics.latency_by_group, SOON, "the acknowledged checkpoint is counted")
        latency = metrics.latency_by_group[group]
        assert latency.count == 1
        assert 0 <= latency.seconds < SOON


async def test_source_offset_is_stored_as_in_java(new_flow: NewFlow) -> None:
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named('quo"ted, größe')
    flow.sync(topic, (0, 0))
    commit(flow.source, group, {(topic, 0): 1})
    async with flow.running():
        await flow.checkpoint(group, 1)
        await until(lambda: flow.records(flow.offsets_topic), SOON, "the offset is stored")
    (record,) = await flow.records(flow.offsets_topic)
    named = f'"topic":"{flow.a}.{topic}","group":"{flow.a}-quo\\"ted, größe"'
    key = f'["MirrorCheckpointConnector",{{"partition":0,{named}}}]'
    assert record.content[:2] == (key.encode(), b'{"offset":0}')
    write(
        flow.target.bootstrap,
        twin := flow.target.create_topic(flow.named("twin"), OFFSETS_PARTITIONS),
        [Outgoing(key=key.encode(), value=b"")],
        settings={"partitioner": "murmur2"},
    )
    (partition,) = [number for number, found in read_topic(flow.target.bootstrap, twin).items() if found]
    assert record.partition == partition


async def test_restart_continues_from_existing_checkpoints(new_flow: NewFlow) -> None:
    """After a restart fewer offset syncs are known; checkpoints with a lower target offset are not written."""
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 100), (200, 200), (300, 300))
    commit(flow.source, group, {(topic, 0): 250})
    async with flow.running():
        assert (await flow.checkpoint(group, 250)).downstream == 201
    flow.sync(topic, (175, 175), (275, 275), (375, 375), (475, 475))
    async with flow.running() as task:

        def evaluated() -> bool:
            row = shown_partition(task, group, topic)
            return row is not None and row.source_offset == offset

        for offset, downstream in ((250, 201), (370, 201), (400, 376)):
            commit(flow.source, group, {(topic, 0): offset})
            await until(evaluated, SOON, f"offset {offset} has been evaluated")
            row = shown_partition(task, group, topic)
            assert row is not None
            assert (row.state, row.translated_offset) == (GroupState.TRANSLATED, downstream)
        assert [(one.upstream, one.downstream) for one in await flow.checkpoints(group)] == [(250, 201), (400, 376)]


async def test_checkpoint_follows_a_group_that_seeks_back(new_flow: NewFlow) -> None:
    """A small version of Java's testOffsetTranslationBehindReplicationFlow."""
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    async with flow.running():
        flow.sync(topic, *((offset, offset) for offset in range(0, 1000, 100)))
        for offset in (905, 105):
            commit(flow.source, group, {(topic, 0): offset})
            assert (await flow.checkpoint(group, offset)).downstream <= offset
        first, second = await flow.checkpoints(group)
        assert second.downstream < first.downstream == 901


async def test_no_checkpoints_before_topics_are_replicated(new_flow: NewFlow) -> None:
    """testNoCheckpointsIfNoRecordsAreMirrored; the status shows which partitions of a group are replicated."""
    flow = new_flow()
    empty, full = flow.topic("empty"), flow.topic("full")
    group = flow.named("g")
    commit(flow.source, group, {(empty, 0): 5})
    async with flow.running() as task:
        await until(
            lambda: (s := shown(task, group)) and s.state is GroupState.NOT_REPLICATED, SOON, "the status is shown"
        )
        commit(flow.source, group, {(full, 0): 7})
        flow.sync(full, (3, 1))
        assert (await flow.checkpoint(group, 7)).topic == f"{flow.a}.{full}"
        await until(
            lambda: (s := shown(task, group)) and s.state is GroupState.PARTLY_TRANSLATED,
            SOON,
            "one of two partitions is translated",
        )
        status = shown(task, group)
        assert status is not None
        assert status.reason == (
            "offsets of 1 partition are translated; 1 partition: no offset sync for this partition yet: nothing was"
            " replicated, or offset syncs are disabled"
        )
        flow.sync(empty, (5, 0))
        assert (await flow.checkpoint(group, 5)).downstream == 0
        assert {one.topic for one in await flow.checkpoints(group)} == {f"{flow.a}.{empty}", f"{flow.a}.{full}"}


async def test_too_old_positions_are_reported(new_flow: NewFlow) -> None:
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 200))
    commit(flow.source, group, {(topic, 0): 99})
    async with flow.running() as task:
        await until(
            lambda: (s := shown(task, group)) and s.state is GroupState.TOO_OLD, SOON, "the position is too old"
        )
        status = shown(task, group)
        assert status is not None
        assert "source offsets before 100 can no longer be translated" in status.reason
        assert await flow.checkpoints(group) == []


async def test_unusual_group_names_and_the_consumer_protocol(new_flow: NewFlow) -> None:
    flow = new_flow(lines="groups = .*\n")
    topic = flow.topic("t")
    flow.sync(topic, (10, 20))
    odd = [flow.named(stem) for stem in ("a,b", "größe ☃", "with space", "new")]
    for group in odd:
        commit(flow.source, group, {(topic, 0): 10}, protocol="consumer" if group.endswith("-new") else "classic")
    async with flow.running():
        found = [await flow.checkpoint(group, 10) for group in odd]
    assert [(one.group, one.downstream) for one in found] == [(group, 20) for group in odd]


async def test_filtered_groups_and_topics_name_the_property(new_flow: NewFlow) -> None:
    flow = new_flow()
    flow.lines = f"groups = {flow.a}-g.*, other\ngroups.exclude = .*-exc.*, connect-.*\ntopics.exclude = .*-hidden\n"
    topic, hidden = flow.topic("t"), flow.topic("hidden")
    flow.sync(topic, (10, 20))
    names = {stem: flow.named(stem) for stem in ("g", "g-exc", "not", "g-hidden")}
    for group in names.values():
        commit(flow.source, group, {(hidden if group == names["g-hidden"] else topic, 0): 10})
    commit(flow.source, names["g"], {(hidden, 0): 1})
    async with flow.running() as task:
        await flow.checkpoint(names["g"], 10)
        await until(
            lambda: (row := shown_partition(task, names["g"], topic)) and row.checkpoint, SOON, "the status is shown"
        )
        reasons = {stem: (s.state, s.reason) for stem, name in names.items() if (s := shown(task, name)) is not None}
        assert reasons == {
            "g": (GroupState.TRANSLATED, "offsets of 1 partition are translated"),
            "g-exc": (GroupState.FILTERED, "excluded by groups.exclude: .*-exc.*"),
            "not": (GroupState.FILTERED, f"not matched by groups: {flow.a}-g.*, other"),
            "g-hidden": (
                GroupState.FILTERED,
                "it has no committed offsets for a topic that topics and topics.exclude select;"
                f" {hidden}: excluded by topics.exclude: .*-hidden",
            ),
        }
        row = shown_partition(task, names["g"], hidden)
        assert row is not None
        assert (row.state, row.reason) == (GroupState.FILTERED, "excluded by topics.exclude: .*-hidden")


@pytest.mark.parametrize("mode", ["compatible", "exact"])
async def test_invalid_records_are_skipped_counted_and_logged(
    new_flow: NewFlow, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    flow = new_flow(lines=f"mm2.offset.translation = {mode}\n")
    exact = flow.target.create_topic(f"mm2-exact-offsets.{flow.a}.internal", config={"cleanup.policy": "compact"})
    flow.target.create_topic(flow.checkpoints_topic, config={"cleanup.policy": "compact"})
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 200))
    garbage = [
        Outgoing(key=b"garbage", value=b"\xff\xff", partition=0),
        Outgoing(key=b"\0\x01t\0\0\0\0", value=None, partition=0),  # a tombstone without an earlier record
        Outgoing(key=b"\0\x01g\0\x01t\0\0\0\0", value=struct.pack(">hqh", 7, 1, 0), partition=0),  # version 7
    ]
    for cluster, name in ((flow.source, flow.syncs_topic), (flow.target, flow.checkpoints_topic), (flow.target, exact)):
        write(cluster.bootstrap, name, garbage)
    flow.sync(topic, (200, 300))
    commit(flow.source, group, {(topic, 0): 200})
    async with flow.running():
        assert (await flow.checkpoint(group, 200)).downstream == 300
        counted = {flow.syncs_topic: 3, flow.checkpoints_topic: 3, **({exact: 3} if mode == "exact" else {})}
        await until(lambda: flow.checkpoint_metrics.skipped_by_topic == counted, SOON, f"all are counted: {counted}")
    warnings = [record.getMessage() for record in caplog.records if "skipped a record" in record.getMessage()]
    assert len(warnings) == len(counted), "one line per topic and minute"


def segment(topic: str, sequence: int, upstream: int, records: int, **more: object) -> Outgoing:
    """A segment with one range, in which source and target offsets are equal."""
    partition = TopicPartition(topic, 0)
    found = Segment(
        topic_partition=partition,
        sequence=sequence,
        era=0,
        topic_ids=UNKNOWN_IDS,
        before=CopiedUpTo(upstream, upstream) if upstream else CopiedUpTo(),
        through=upstream + records,
        ranges=(CopiedRange(upstream, upstream, records),),
        **more,  # type: ignore[arg-type]
    )
    return Outgoing(key=found.key(), value=found.value(), partition=0)


@pytest.mark.parametrize("damage", [b"\0\2of a newer release", b"\xff garbage", b""])
async def test_a_segment_that_cannot_be_read_and_then_a_deleted_map(new_flow: NewFlow, damage: bytes) -> None:
    """Positions in the damaged segment are conservative, those of other topics and after it stay exact; without the
    topic, translation continues with what was read, and says so."""
    flow = new_flow()
    exact = flow.target.create_topic(f"mm2-exact-offsets.{flow.a}.internal", config={"cleanup.policy": "compact"})
    torn, whole = flow.topic("torn", records=300), flow.topic("whole", records=100)
    damaged = Outgoing(key=SegmentKey(TopicPartition(torn, 0), 0, 1).encode(), value=damage, partition=0)
    records = [segment(torn, 0, 0, 100), damaged, segment(torn, 2, 200, 100, after_gap=True), segment(whole, 0, 0, 100)]
    write(flow.target.bootstrap, exact, records)
    for topic in (torn, whole):
        flow.sync(topic, (0, 0))
    inside, behind = flow.named("inside"), flow.named("behind")
    commit(flow.source, inside, {(torn, 0): 150, (whole, 0): 50})
    commit(flow.source, behind, {(torn, 0): 250})
    async with flow.running() as task:
        assert (await flow.checkpoint(inside, 150)).downstream <= 150, "no record is skipped"
        assert (await flow.checkpoint(inside, 50)).downstream == 50
        assert (await flow.checkpoint(behind, 250)).downstream == 250, "records behind the gap are read again at most"
        assert flow.checkpoint_metrics.skipped_by_topic[exact] == 1
        flow.target.delete_topic(exact)
        said = f"cannot read {exact}"
        await until(lambda: said in str(task.group_reasons), SOON, "the flow says that the map is gone")
        commit(flow.source, inside, {(whole, 0): 60})
        assert (await flow.checkpoint(inside, 60)).downstream == 60


async def test_task_waits_for_unavailable_source(new_flow: NewFlow) -> None:
    flow = new_flow(bootstrap="127.0.0.1:1")
    async with flow.running() as task:
        await until(
            lambda: "127.0.0.1:1" in (task.last_error or ""), SOON, "the task reports which cluster is unavailable"
        )
        assert task.status().state == "WAITING"
        await asyncio.sleep(0)  # lets other tasks run
