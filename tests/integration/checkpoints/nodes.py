"""The checkpoint part of nodes: a leader that assigns groups to tasks, and hosts that run assigned tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.kafka.client.cluster import Cluster
from mm2.node.flow.task_host import TaskHost
from mm2.node.leader.config_writer import ConfigWriter
from mm2.node.leader.group_assignment import GroupPlan
from mm2.node.status.status_model import GroupState, GroupStatus
from mm2.node.store.config_store import ConfigStore
from tests.integration.checkpoints.flow import OFFSETS_PARTITIONS
from tests.lab.tasks import task_context

EPOCH = 1


@dataclass(slots=True, kw_only=True)
class Node:
    """A node and the group assignments that it has read."""

    name: str
    host: TaskHost
    configs: ConfigStore
    assigned: int = field(default=0)

    def assign(self, *numbers: int) -> None:
        """Assign these checkpoint tasks to the node, as the election would."""
        self.assigned += 1
        place = TaskPlacement(owner=self.name, node=self.name, since=self.assigned, home=self.name)
        tasks = {TaskId(TaskKind.CHECKPOINT, number): place for number in numbers}
        self.host.take(TaskAssignments(epoch=self.assigned, places=tasks), self.name)

    @property
    def groups(self) -> dict[str, GroupStatus]:
        """All groups that the node reports."""
        return {status.group: status for status in self.host.groups}

    @property
    def translated(self) -> set[str]:
        """The groups that the node translates."""
        return {name for name, status in self.groups.items() if status.state is GroupState.TRANSLATED}


@asynccontextmanager
async def running(name: str, settings: FlowSettings) -> AsyncIterator[Node]:
    """Run a node without assigned tasks."""
    async with Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target:

        def changed() -> None:
            node.host.configs_changed()

        configs = ConfigStore(settings, target, on_change=changed, on_command=lambda command: None)
        context = task_context(settings, configs, target, node_id=name, offsets_partitions=OFFSETS_PARTITIONS)
        host = TaskHost(context, lambda: None)
        node = Node(name=name, host=host, configs=configs)
        await configs.read_to_end()
        async with _in_background(configs.follow()):
            try:
                yield node
            finally:
                await host.close()


@asynccontextmanager
async def leading(settings: FlowSettings, configs: ConfigStore, *, source: str = "") -> AsyncIterator[GroupPlan]:
    """Run a leader of the next epoch that assigns groups. ``source``: the address at which it lists groups."""
    admin_settings = settings.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)
    if source:
        admin_settings = replace(admin_settings, bootstrap_servers=(source,))
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)))
        writer = ConfigWriter(target, configs.topic, f"{configs.topic}-leader")
        await writer.begin()
        plan = GroupPlan(
            settings,
            await stack.enter_async_context(Cluster(admin_settings)),
            configs,
            generation=EPOCH,
            put=writer.put,
            changed=lambda: None,
        )
        await stack.enter_async_context(_in_background(plan.run()))
        yield plan


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run ``work`` in the background during the block; its errors are raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
