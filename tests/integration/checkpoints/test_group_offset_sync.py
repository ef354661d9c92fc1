"""Group offset sync: commits for groups that are idle on the target, and only where it does no harm (§4.5)."""

from __future__ import annotations

import pytest

from mm2.node.published import GroupState
from mm2.node.tasks.checkpoint import CheckpointTask
from tests.integration.checkpoints.conftest import NewFlow
from tests.integration.checkpoints.flow import SOON, CheckpointFlow, shown, shown_partition
from tests.lab.groups import commit, committed, member
from tests.lab.waiting import until

SYNCED = "sync.group.offsets.enabled = true\n"


async def decision(task: CheckpointTask, group: str, topic: str, words: str) -> None:
    """Until group offset sync says so."""

    def seen() -> str | None:
        row = shown_partition(task, group, topic)
        return row.sync if row is not None and words in (row.sync or "") else None

    await until(seen, SOON, f"group {group}: {words}")


def remote(flow: CheckpointFlow, topic: str) -> tuple[str, int]:
    return f"{flow.a}.{topic}", 0


async def test_a_group_comes_into_being_and_goes_on(new_flow: NewFlow) -> None:
    flow = new_flow(SYNCED)
    topic, group = flow.topic("t", records=50), flow.named("g,ö")
    flow.sync(topic, (10, 20), (20, 30))
    commit(flow.source, group, {(topic, 0): 10})
    async with flow.running() as task:
        await until(lambda: committed(flow.target, group) == {remote(flow, topic): 20}, SOON, "it is there")
        commit(flow.source, group, {(topic, 0): 20})
        await until(lambda: committed(flow.target, group) == {remote(flow, topic): 30}, SOON, "it has moved")
        await decision(task, group, topic, "at 30 already")
        row = shown_partition(task, group, topic)
        assert row is not None
        assert (row.source_offset, row.translated_offset, row.exact, row.read_again) == (20, 30, True, 0)
        assert (row.target_offset, row.checkpoint) == (30, (20, 30))


async def test_no_position_is_set_back_or_past_the_end(new_flow: NewFlow) -> None:
    flow = new_flow(SYNCED)
    ahead, short = flow.topic("ahead", records=50), flow.topic("short", records=25)
    group = flow.named("g")
    flow.sync(ahead, (10, 20))
    flow.sync(short, (10, 26))
    commit(flow.target, group, {remote(flow, ahead): 40})
    commit(flow.source, group, {(ahead, 0): 10, (short, 0): 10})
    async with flow.running() as task:
        await decision(task, group, ahead, "at 40 already, further than 20: it is never set back")
        await decision(task, group, short, "the remote partition ends at 25, before 26")
        assert committed(flow.target, group) == {remote(flow, ahead): 40}
        assert task.trouble is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_members_keeps_its_position(new_flow: NewFlow, protocol: str) -> None:
    flow = new_flow(SYNCED)
    topic, group = flow.topic("t", records=50), flow.named("g")
    flow.sync(topic, (10, 20))
    commit(flow.source, group, {(topic, 0): 10})
    with member(flow.target, group, {remote(flow, topic)[0]}, protocol=protocol):
        async with flow.running() as task:
            await until(lambda: (s := shown(task, group)) and s.state is GroupState.ACTIVE, SOON, "it is active")
            status = shown(task, group)
            assert status is not None
            assert status.target_state == "Stable"
            assert "active on the target" in status.reason
            await decision(task, group, topic, "is active on the target (Stable) and keeps its own position")
            assert committed(flow.target, group) == {}


async def test_it_goes_on_while_the_source_is_away(new_flow: NewFlow) -> None:
    """The checkpoints of earlier lives are on the target, and so is the group."""
    flow = new_flow()
    topic, group = flow.topic("t", records=50), flow.named("g")
    flow.sync(topic, (10, 20))
    commit(flow.source, group, {(topic, 0): 10})
    async with flow.running() as task:
        await flow.checkpoint(group, 10)
        await until(lambda: (r := shown_partition(task, group, topic)) and r.sync, SOON, "it is shown")
        row = shown_partition(task, group, topic)
        assert row is not None
        assert row.sync == "sync.group.offsets.enabled is false"
    flow.lines, flow.bootstrap = SYNCED, "127.0.0.1:1"
    async with flow.running() as task:
        await until(lambda: committed(flow.target, group) == {remote(flow, topic): 20}, SOON, "it is synced")
        assert "127.0.0.1:1" in (task.trouble or "")
