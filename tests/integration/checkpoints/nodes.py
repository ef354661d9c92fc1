"""Nodes of a flow as far as checkpoints go: a leader that lists groups, and hosts that run the tasks they are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.placement import Place, Placement
from mm2.core.tasks import TaskId, TaskKind
from mm2.kafka.cluster import Cluster
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.config_topic import ConfigTopic
from mm2.node.config_writer import ConfigWriter
from mm2.node.group_plan import GroupPlan
from mm2.node.published import GroupState, GroupStatus
from mm2.node.task_host import TaskHost
from tests.integration.checkpoints.flow import OFFSETS_PARTITIONS

EPOCH = 1


@dataclass(slots=True, kw_only=True)
class Node:
    """One node, and what it read of the lists."""

    name: str
    host: TaskHost
    configs: ConfigTopic
    given: int = field(default=0)

    def give(self, *numbers: int) -> None:
        """The election's answer: these checkpoint tasks."""
        self.given += 1
        place = Place(owner=self.name, node=self.name, since=self.given, home=self.name)
        tasks = {TaskId(TaskKind.CHECKPOINT, number): place for number in numbers}
        self.host.take(Placement(epoch=self.given, places=tasks), self.name)

    @property
    def groups(self) -> dict[str, GroupStatus]:
        """Everything it tells of."""
        return {status.group: status for status in self.host.groups}

    @property
    def translated(self) -> set[str]:
        """The groups it translates."""
        return {name for name, status in self.groups.items() if status.state is GroupState.TRANSLATED}


@asynccontextmanager
async def running(name: str, settings: FlowSettings) -> AsyncIterator[Node]:
    """A node that was given nothing yet."""
    async with Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target:

        def changed() -> None:
            node.host.regroup()

        configs = ConfigTopic(settings, target, on_change=changed, on_command=lambda command: None)
        host = TaskHost(
            settings,
            slots=None,
            groups=configs.groups,
            offsets_partitions=OFFSETS_PARTITIONS,
            node_id=name,
            tally=CheckpointTally(),
            changed=lambda: None,
        )
        node = Node(name=name, host=host, configs=configs)
        await configs.read_to_end()
        async with _beside(configs.follow()):
            try:
                yield node
            finally:
                await host.close()


@asynccontextmanager
async def sharing(settings: FlowSettings, configs: ConfigTopic, *, source: str = "") -> AsyncIterator[GroupPlan]:
    """A leader of the next epoch that shares groups out; ``source``: looks for them there instead."""
    looking = settings.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)
    if source:
        looking = replace(looking, bootstrap_servers=(source,))
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)))
        writer = ConfigWriter(target, configs.topic, f"{configs.topic}-leader")
        await writer.begin()
        plan = GroupPlan(
            settings,
            await stack.enter_async_context(Cluster(looking)),
            configs,
            generation=EPOCH,
            put=writer.put,
            changed=lambda: None,
        )
        await stack.enter_async_context(_beside(plan.run()))
        yield plan


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run it meanwhile; what goes wrong in it is raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
