"""Checkpoints of the source's groups: Java's bytes and rules (mm2-compat §4.1 to §4.4), through restarts."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from mm2.node.published import GroupState
from tests.integration.checkpoints.conftest import NewFlow
from tests.integration.checkpoints.flow import OFFSETS_PARTITIONS, SOON, shown, shown_partition
from tests.lab.checkpoints import Checkpoint
from tests.lab.groups import commit
from tests.lab.history import read_topic
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until

TOLD = "told\0"  # the client that commits adds the zero


async def test_a_checkpoint_is_javas_to_the_byte(new_flow: NewFlow) -> None:
    flow = new_flow()
    topic = flow.topic("t")
    group = flow.named("g")
    flow.sync(topic, (100, 200))
    commit(flow.source, group, {(topic, 0): 150}, metadata="told")
    began = time.time() * 1000
    async with flow.running() as task:
        assert await flow.checkpoint(group, 150) == Checkpoint(group, f"{flow.a}.{topic}", 0, 150, 201, TOLD)
        await until(lambda: task.trouble is None, SOON, "the task runs")
        (record,) = await flow.records(flow.checkpoints_topic)
        key, value, headers, timestamp = record.content
        named, remote = group.encode(), f"{flow.a}.{topic}".encode()
        assert key == struct.pack(f">h{len(named)}sh{len(remote)}si", len(named), named, len(remote), remote, 0)
        assert value == struct.pack(">hqqh5s", 0, 150, 201, 5, TOLD.encode())
        assert headers == ()
        assert began <= timestamp <= time.time() * 1000
        latency = flow.tally.latency_by_group[group]
        assert latency.count == 1
        assert 0 <= latency.seconds < SOON


async def test_the_source_offset_is_stored_as_java_stores_it(new_flow: NewFlow) -> None:
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


async def test_a_restart_goes_on_from_the_checkpoints_there_are(new_flow: NewFlow) -> None:
    """§4.4: less is known after the restart; what would lead back is not written."""
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 100), (200, 200), (300, 300))
    commit(flow.source, group, {(topic, 0): 250})
    async with flow.running():
        assert (await flow.checkpoint(group, 250)).downstream == 201
    flow.sync(topic, (175, 175), (275, 275), (375, 375), (475, 475))
    async with flow.running() as task:

        def looked_at() -> bool:
            row = shown_partition(task, group, topic)
            return row is not None and row.source_offset == offset

        for offset, downstream in ((250, 201), (370, 201), (400, 376)):
            commit(flow.source, group, {(topic, 0): offset})
            await until(looked_at, SOON, f"offset {offset} is looked at")
            row = shown_partition(task, group, topic)
            assert row is not None
            assert (row.state, row.translated_offset) == (GroupState.TRANSLATED, downstream)
        assert [(one.upstream, one.downstream) for one in await flow.checkpoints(group)] == [(250, 201), (400, 376)]


async def test_a_group_that_steps_back_takes_its_checkpoint_along(new_flow: NewFlow) -> None:
    """testOffsetTranslationBehindReplicationFlow in small."""
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    async with flow.running():
        flow.sync(topic, *((offset, offset) for offset in range(0, 1000, 100)))
        for offset in (905, 105):
            commit(flow.source, group, {(topic, 0): offset})
            assert (await flow.checkpoint(group, offset)).downstream <= offset
        first, second = await flow.checkpoints(group)
        assert second.downstream < first.downstream == 901


async def test_nothing_for_groups_whose_topics_are_not_replicated_yet(new_flow: NewFlow) -> None:
    """testNoCheckpointsIfNoRecordsAreMirrored; and which partitions of a group are, is told one by one."""
    flow = new_flow()
    empty, full = flow.topic("empty"), flow.topic("full")
    group = flow.named("g")
    commit(flow.source, group, {(empty, 0): 5})
    async with flow.running() as task:
        await until(lambda: (s := shown(task, group)) and s.state is GroupState.NOT_REPLICATED, SOON, "it is shown")
        commit(flow.source, group, {(full, 0): 7})
        flow.sync(full, (3, 1))
        assert (await flow.checkpoint(group, 7)).topic == f"{flow.a}.{full}"
        await until(lambda: (s := shown(task, group)) and s.state is GroupState.PARTLY_TRANSLATED, SOON, "one of two")
        status = shown(task, group)
        assert status is not None
        assert status.reason == (
            "offsets of 1 partition are translated; 1 partition: nothing of this partition was replicated yet, as far"
            " as offset syncs tell"
        )
        flow.sync(empty, (5, 0))
        assert (await flow.checkpoint(group, 5)).downstream == 0
        assert {one.topic for one in await flow.checkpoints(group)} == {f"{flow.a}.{empty}", f"{flow.a}.{full}"}


async def test_positions_that_are_too_old_say_so(new_flow: NewFlow) -> None:
    flow = new_flow()
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 200))
    commit(flow.source, group, {(topic, 0): 99})
    async with flow.running() as task:
        await until(lambda: (s := shown(task, group)) and s.state is GroupState.TOO_OLD, SOON, "it is too old")
        status = shown(task, group)
        assert status is not None
        assert "of source offsets before 100 nothing is known any more" in status.reason
        assert await flow.checkpoints(group) == []


async def test_groups_with_odd_names_and_of_the_new_protocol(new_flow: NewFlow) -> None:
    flow = new_flow(lines="groups = .*\n")
    topic = flow.topic("t")
    flow.sync(topic, (10, 20))
    odd = [flow.named(stem) for stem in ("a,b", "größe ☃", "with space", "new")]
    for group in odd:
        commit(flow.source, group, {(topic, 0): 10}, protocol="consumer" if group.endswith("-new") else "classic")
    async with flow.running():
        found = [await flow.checkpoint(group, 10) for group in odd]
    assert [(one.group, one.downstream) for one in found] == [(group, 20) for group in odd]


async def test_what_the_filters_leave_out_says_by_which_line(new_flow: NewFlow) -> None:
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
        await until(lambda: (row := shown_partition(task, names["g"], topic)) and row.checkpoint, SOON, "it is shown")
        reasons = {stem: (s.state, s.reason) for stem, name in names.items() if (s := shown(task, name)) is not None}
        assert reasons == {
            "g": (GroupState.TRANSLATED, "offsets of 1 partition are translated"),
            "g-exc": (GroupState.FILTERED, "groups.exclude leaves it out: .*-exc.*"),
            "not": (GroupState.FILTERED, f"groups does not name it: {flow.a}-g.*, other"),
            "g-hidden": (
                GroupState.FILTERED,
                "it has committed offsets for no topic that topics and topics.exclude select;"
                f" of {hidden}: topics.exclude leaves it out: .*-hidden",
            ),
        }
        row = shown_partition(task, names["g"], hidden)
        assert row is not None
        assert (row.state, row.reason) == (GroupState.FILTERED, "topics.exclude leaves it out: .*-hidden")


@pytest.mark.parametrize("mode", ["compatible", "exact"])
async def test_garbage_is_skipped_counted_and_told_of(
    new_flow: NewFlow, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    flow = new_flow(lines=f"mm2.offset.translation = {mode}\n")
    exact = flow.target.create_topic(f"mm2-exact-offsets.{flow.a}.internal", config={"cleanup.policy": "compact"})
    flow.target.create_topic(flow.checkpoints_topic, config={"cleanup.policy": "compact"})
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 200))
    garbage = [
        Outgoing(key=b"garbage", value=b"\xff\xff", partition=0),
        Outgoing(key=b"\0\x01t\0\0\0\0", value=None, partition=0),  # takes back what never was
        Outgoing(key=b"\0\x01g\0\x01t\0\0\0\0", value=struct.pack(">hqh", 7, 1, 0), partition=0),  # version 7
    ]
    for cluster, name in ((flow.source, flow.syncs_topic), (flow.target, flow.checkpoints_topic), (flow.target, exact)):
        write(cluster.bootstrap, name, garbage)
    flow.sync(topic, (200, 300))
    commit(flow.source, group, {(topic, 0): 200})
    async with flow.running():
        assert (await flow.checkpoint(group, 200)).downstream == 300
        counted = {flow.syncs_topic: 3, flow.checkpoints_topic: 3, **({exact: 3} if mode == "exact" else {})}
        await until(lambda: flow.tally.skipped_by_topic == counted, SOON, f"all are counted: {counted}")
    told = [record.getMessage() for record in caplog.records if "skipped a record" in record.getMessage()]
    assert len(told) == len(counted), "one line a topic and minute"


async def test_a_source_that_is_away_is_waited_for(new_flow: NewFlow) -> None:
    flow = new_flow(bootstrap="127.0.0.1:1")
    async with flow.running() as task:
        await until(lambda: "127.0.0.1:1" in (task.trouble or ""), SOON, "the task says which cluster is away")
        assert task.status().state == "WAITING"
        await asyncio.sleep(0)  # the loop turns meanwhile
