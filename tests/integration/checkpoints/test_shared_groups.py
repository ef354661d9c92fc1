"""Consumer groups assigned to checkpoint tasks on several nodes, on real brokers."""

from __future__ import annotations

from tests.integration.checkpoints.conftest import NewFlow
from tests.integration.checkpoints.flow import COMPACTED, SOON, CheckpointFlow
from tests.integration.checkpoints.nodes import leading, running
from tests.lab.checkpoints import going_back
from tests.lab.groups import commit
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.waiting import until

TWO_TASKS = "tasks.max = 2\nemit.heartbeats.enabled = false\n"


async def offsets(flow: CheckpointFlow, group: str) -> list[tuple[int, int]]:
    """Return the group's checkpoints in the order they were written."""
    return [(one.upstream, one.downstream) for one in await flow.checkpoints(group)]


async def reached(flow: CheckpointFlow, group: str, upstream: int, downstream: int) -> None:
    """Wait until the group has this checkpoint. An earlier one can exist from when fewer offset syncs had been read."""

    async def there() -> bool:
        return (upstream, downstream) in await offsets(flow, group)

    await until(there, SOON, f"group {group} has a checkpoint from {upstream} to {downstream}")


async def test_groups_of_a_stopped_node_are_taken_over(new_flow: NewFlow) -> None:
    """No checkpoint moves back or is written again, though the survivor had read the other node's only at its start."""
    flow = new_flow(TWO_TASKS)
    settings = flow.settings
    flow.target.create_topic(settings.storage.configs.name, config=COMPACTED)
    topic, groups = flow.topic("t"), {flow.named("g"), flow.named("h")}
    flow.sync(topic, (100, 100), (200, 200), (300, 300))
    for group in groups:
        commit(flow.source, group, {(topic, 0): 250})
    async with running("one", settings) as one:
        async with running("two", settings) as two, leading(settings, one.configs):
            one.assign(0)
            two.assign(1)
            await until(
                lambda: len(one.translated) == len(two.translated) == 1, SOON, "each node has one of the groups"
            )
            assert one.translated | two.translated == groups
            assert not one.groups.keys() & two.groups.keys(), "each group is reported by one node"
            (lost,) = two.translated
            await reached(flow, lost, 250, 201)
            flow.sync(topic, (375, 375), (475, 475))
            commit(flow.source, lost, {(topic, 0): 400})
            await reached(flow, lost, 400, 376)
        before = await offsets(flow, lost)
        one.assign(0, 1)
        await until(lambda: one.translated == groups, SOON, "the other node has both")
        assert {row.source_offset for row in one.groups[lost].partitions} == {400}
        assert await offsets(flow, lost) == before, "the survivor has read the checkpoints of the other node"
        async with leading(settings, one.configs):
            flow.sync(topic, (600, 600))
            commit(flow.source, lost, {(topic, 0): 650})
            await reached(flow, lost, 650, 601)
            commit(flow.source, new := flow.named("new"), {(topic, 0): 650})
            await reached(flow, new, 650, 601)
        for group in groups:
            assert going_back(await flow.checkpoints(group)) == []


async def test_assignment_is_kept_while_groups_cannot_be_listed(new_flow: NewFlow) -> None:
    flow = new_flow(TWO_TASKS)
    settings = flow.settings
    flow.target.create_topic(settings.storage.configs.name, config=COMPACTED)
    topic, group = flow.topic("t"), flow.named("g")
    commit(flow.source, group, {(topic, 0): 1})
    async with running("one", settings) as node:
        async with leading(settings, node.configs):
            await until(lambda: node.configs.groups.previous() == {group: 0}, SOON, "the group is listed")
        port = reserve_port()
        try:
            async with leading(settings, node.configs, source=f"{HOST}:{port}") as plan:
                await until(lambda: plan.error.text is not None, SOON, "the leader reports that it cannot list groups")
                assert (plan.error.text or "").startswith("cannot list consumer groups: ")
        finally:
            release_port(port)
        assert node.configs.groups.previous() == {group: 0}
        async with leading(settings, node.configs) as plan:
            commit(flow.source, more := flow.named("more"), {(topic, 0): 1})
            plan.refresh()
            await until(lambda: node.configs.groups.previous() == {group: 0, more: 1}, SOON, "another group is listed")
            assert node.configs.groups.records[1].epoch > node.configs.groups.records[0].epoch
