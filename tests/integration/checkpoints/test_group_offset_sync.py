"""Group offset sync: commits offsets of groups that are idle on the target, and never moves a group back."""

from __future__ import annotations

import pytest

from mm2.node.checkpoint.checkpoint_task import CheckpointTask
from mm2.node.status.status_model import CheckpointStatus, GroupState
from tests.integration.checkpoints.conftest import NewFlow
from tests.integration.checkpoints.flow import SOON, CheckpointFlow, shown, shown_partition
from tests.lab.groups import commit, committed, member
from tests.lab.waiting import until

SYNCED = "sync.group.offsets.enabled = true\n"


async def decision(task: CheckpointTask, group: str, topic: str, words: str) -> None:
    """Wait until the group's status contains this decision of group offset sync."""

    def seen() -> str | None:
        row = shown_partition(task, group, topic)
        return row.sync if row is not None and words in (row.sync or "") else None

    await until(seen, SOON, f"group {group}: {words}")


def remote(flow: CheckpointFlow, topic: str) -> tuple[str, int]:
    return f"{flow.a}.{topic}", 0


async def test_group_is_created_and_updated(new_flow: NewFlow) -> None:
    flow = new_flow(SYNCED)
    topic, group = flow.topic("t", records=50), flow.named("g,ö")
    flow.sync(topic, (10, 20), (20, 30))
    commit(flow.source, group, {(topic, 0): 10})
    async with flow.running() as task:
        await until(
            lambda: committed(flow.target, group) == {remote(flow, topic): 20}, SOON, "the group has its offset"
        )
        commit(flow.source, group, {(topic, 0): 20})
        await until(lambda: committed(flow.target, group) == {remote(flow, topic): 30}, SOON, "the offset has moved")
        await decision(task, group, topic, "already at 30")
        row = shown_partition(task, group, topic)
        assert row is not None
        assert (row.source_offset, row.translated_offset, row.precision, row.records_read_again) == (20, 30, "exact", 0)
        assert (row.target_offset, row.checkpoint) == (30, CheckpointStatus(source_offset=20, target_offset=30))


async def test_offsets_never_move_back_or_past_the_end(new_flow: NewFlow) -> None:
    flow = new_flow(SYNCED)
    ahead, short = flow.topic("ahead", records=50), flow.topic("short", records=25)
    group = flow.named("g")
    flow.sync(ahead, (10, 20))
    flow.sync(short, (10, 26))
    commit(flow.target, group, {remote(flow, ahead): 40})
    commit(flow.source, group, {(ahead, 0): 10, (short, 0): 10})
    async with flow.running() as task:
        await decision(task, group, ahead, "already at 40, beyond 20; offsets never move backwards")
        await decision(task, group, short, "the remote partition ends at 25, before 26")
        assert committed(flow.target, group) == {remote(flow, ahead): 40}
        assert task.last_error is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_active_group_keeps_its_position(new_flow: NewFlow, protocol: str) -> None:
    flow = new_flow(SYNCED)
    topic, group = flow.topic("t", records=50), flow.named("g")
    flow.sync(topic, (10, 20))
    commit(flow.source, group, {(topic, 0): 10})
    with member(flow.target, group, {remote(flow, topic)[0]}, protocol=protocol):
        async with flow.running() as task:
            # before it is stable, the broker waits for the member to confirm its partitions
            await until(
                lambda: (s := shown(task, group)) and s.target_state == "Stable", SOON, "the group is active and stable"
            )
            status = shown(task, group)
            assert status is not None
            assert status.state is GroupState.ACTIVE
            assert "active on the target" in status.reason
            await decision(task, group, topic, "is active on the target (Stable) and keeps its own position")
            assert committed(flow.target, group) == {}


async def test_sync_continues_without_the_source(new_flow: NewFlow) -> None:
    """The checkpoints of earlier runs and the group are on the target."""
    flow = new_flow()
    topic, group = flow.topic("t", records=50), flow.named("g")
    flow.sync(topic, (10, 20))
    commit(flow.source, group, {(topic, 0): 10})
    async with flow.running() as task:
        await flow.checkpoint(group, 10)
        await until(lambda: (r := shown_partition(task, group, topic)) and r.sync, SOON, "the decision is shown")
        row = shown_partition(task, group, topic)
        assert row is not None
        assert row.sync == "sync.group.offsets.enabled is false"
    flow.lines, flow.bootstrap = SYNCED, "127.0.0.1:1"
    async with flow.running() as task:
        await until(lambda: committed(flow.target, group) == {remote(flow, topic): 20}, SOON, "the offset is synced")
        await until(lambda: "127.0.0.1:1" in (task.last_error or ""), SOON, "the task reports the unavailable source")
