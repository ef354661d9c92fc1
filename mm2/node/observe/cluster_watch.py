"""Whether the clusters of a node's flows answer it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.observation.reachability import ClusterContact
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.status.status_model import ClusterStatus

log = logging.getLogger("mm2.node")

ASK_EVERY_S = 5.0
"""How often a cluster is asked: `ClusterContact` expects two answers within `SILENT_AFTER_S`."""

ANSWER_MS = 4_000
"""How long a broker may take to answer, before the next one is asked."""


class ClusterWatch:
    """Asks every cluster of some flows for its brokers, on one connection to each, whatever else the node does.

    The flows of a node stop talking to a cluster for several reasons; this tells whether the cluster is one of them. Of
    a cluster in several flows, the client of the first enabled one asks.
    """

    def __init__(self, flows: Iterable[FlowSettings]) -> None:
        self._settings = _clients(flows)
        self._contacts: dict[str, ClusterContact] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start to ask."""
        for alias in self._settings:
            self._start(alias)

    async def use(self, flows: Iterable[FlowSettings]) -> None:
        """Ask the clusters of these flows, after a reload."""
        before, self._settings = self._settings, _clients(flows)
        ended = [alias for alias in self._tasks if self._settings.get(alias) != before.get(alias)]
        await cancel_and_wait([self._tasks.pop(alias) for alias in ended])
        self._contacts = {alias: one for alias, one in self._contacts.items() if alias in self._settings}
        for alias in self._settings.keys() - self._tasks.keys():
            self._start(alias)

    async def close(self) -> None:
        """Stop."""
        await cancel_and_wait(list(self._tasks.values()))

    def status(self) -> tuple[ClusterStatus, ...]:
        """Return what is known of each cluster now, by alias."""
        now, wall = time.monotonic(), time.time()

        def ms(at: float | None) -> int | None:
            return None if at is None else round((wall - now + at) * 1_000)

        found = []
        for alias in sorted(self._settings):
            contact = self._contacts.get(alias, ClusterContact()).at(now)
            found.append(
                ClusterStatus(
                    alias=alias,
                    reachable=contact.reachable,
                    since=ms(contact.since),
                    answered=ms(contact.answered),
                    error=contact.error,
                )
            )
        return tuple(found)

    def _start(self, alias: str) -> None:
        name = f"watch cluster {alias}"
        settings = self._settings[alias]
        self._tasks[alias] = asyncio.create_task(
            restart_on_error(lambda: self._keep_asking(alias, settings), name), name=name
        )

    async def _keep_asking(self, alias: str, settings: ClientSettings) -> None:
        while True:
            try:
                async with Cluster(replace(settings, request_timeout_ms=ANSWER_MS)) as cluster:
                    await self._follow(alias, cluster)
            except ClusterError as error:  # a certificate that cannot be read
                self._failed(alias, error)
            await asyncio.sleep(ASK_EVERY_S)

    async def _follow(self, alias: str, cluster: Cluster) -> None:
        while True:
            began = time.monotonic()
            try:
                await cluster.metadata(())
            except ClusterError as error:
                self._failed(alias, error)
            else:
                self._contacts[alias] = self._contact(alias).answer(time.monotonic())
            await asyncio.sleep(max(1.0, began + ASK_EVERY_S - time.monotonic()))

    def _failed(self, alias: str, error: ClusterError) -> None:
        self._contacts[alias] = self._contact(alias).failure(time.monotonic(), str(error))

    def _contact(self, alias: str) -> ClusterContact:
        """Return the contact; one that was silent before is not reachable since then."""
        return self._contacts.get(alias, ClusterContact()).at(time.monotonic())


def _clients(flows: Iterable[FlowSettings]) -> Mapping[str, ClientSettings]:
    found: dict[str, ClientSettings] = {}
    for flow in sorted(flows, key=lambda one: not one.enabled):  # flows that only send heartbeats need fewer rights
        found.setdefault(flow.flow.target, flow.clients.of(ClientRole.SHARED_ADMIN))
        found.setdefault(flow.flow.source, flow.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN))
    return found
