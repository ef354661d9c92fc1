"""The topic work of a flow's leader without copying: discovery and syncs on real brokers, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import javaproperties

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.client.cluster import Cluster
from mm2.node.leader.discovery import TopicDiscovery
from mm2.node.leader.remote_topics import Discovery
from mm2.node.leader.topic_syncs import TopicConfigSync, TopicSyncs
from tests.lab import scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """All components, running."""

    discovery: TopicDiscovery
    config_sync: TopicConfigSync
    syncs: TopicSyncs


@asynccontextmanager
async def leading(
    properties: Mapping[str, str], *, admin: type[ClusterAdmin] = ClusterAdmin, at_work: bool = True
) -> AsyncIterator[Leader]:
    """Flow A->B of a file with these properties. Without ``at_work`` the components do not run by themselves."""
    file = scratch.directory("leader") / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(file)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    flow = next(one for one in loaded.settings.flows if str(one.flow) == "A->B")
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(Cluster(flow.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)))
        target = admin(await stack.enter_async_context(Cluster(flow.clients.of(ClientRole.SHARED_ADMIN))))
        chosen = flow.replication_filter
        discovery = TopicDiscovery(flow, ClusterAdmin(source), target, chosen, published=list)
        leader = Leader(
            discovery=discovery,
            config_sync=TopicConfigSync(flow, source, target, discovery),
            syncs=TopicSyncs(flow, source, target, discovery, chosen),
        )
        tasks = [asyncio.create_task(discovery.run(_take)), asyncio.create_task(leader.syncs.run())] if at_work else []
        try:
            yield leader
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _take(discovery: Discovery) -> None:
    """Nothing is copied here."""
