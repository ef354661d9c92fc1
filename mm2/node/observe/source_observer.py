"""Asks the clusters of a flow what no lane reports: end offsets, log starts, stored offsets, timestamps, retention."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.observation.retention import RETENTION_KEYS, TopicRetention
from mm2.core.settings.client import ClientSettings
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.first_timestamps import first_timestamps
from mm2.node.common.current_error import CurrentError
from mm2.node.observe.flow_observations import FlowObservations
from mm2.node.source.source_offsets import StoredSourceOffsets

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""How often the needs are looked at: nodes publish their status once a second."""

ENDS_EVERY_S = 5.0
"""Half as long as an end offset is valid."""

STARTS_EVERY_S = 30.0
"""Retention is checked by brokers every five minutes by default."""

STORED_EVERY_S = 5.0
"""As end offsets: an operator can change where a paused partition continues."""

RETENTION_EVERY_S = 300.0
"""Configurations of topics change rarely."""

ANSWER_MS = 5_000
"""How long a broker may take to answer: no longer than until it is asked again."""

TIMES_AT_ONCE = 100
"""Partitions of one fetch of timestamps: with `BATCH_BYTES` of each, about as much as one response may have."""

EMPTY_AGAIN_S = 30.0
"""When a partition is asked again for a timestamp that the source did not have."""


class SourceObserver:
    """Fills the needs of a flow's `FlowObservations`, one request per broker at a time, while the flow runs.

    It has connections of its own, which are opened when they are needed: the flow's session ends with its target, and
    what is left to copy is to be known then, too.
    """

    def __init__(
        self,
        settings: FlowSettings,
        observations: FlowObservations,
        stored: Callable[[], StoredSourceOffsets | None],
    ) -> None:
        """``stored``: the stored offsets of the flow's session, while it has one."""
        self._settings = settings
        self._observations = observations
        self._stored = stored
        self._asked: set[tuple[str, int]] = set()  # what, and which broker has not answered
        self._asked_at: dict[tuple[str, TopicPartition], float] = {}
        self._retention: dict[str, tuple[float, TopicRetention | None]] = {}
        self._retention_error = CurrentError(log, settings.flow, level=logging.INFO)

    async def run(self) -> None:
        """Observe until cancelled."""
        if not self._settings.enabled:
            return
        clients = self._settings.clients
        async with (
            Cluster(_impatient(clients.of(ClientRole.REPLICATION_CONSUMER))) as source,
            Cluster(_impatient(clients.of(ClientRole.REPLICATION_SOURCE_ADMIN))) as admin,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._keep(lambda: self._list_offsets(source, group)))
            group.create_task(self._keep(lambda: self._fetch_times(source, group)))
            group.create_task(self._keep(lambda: self._read_retention(admin)))
            group.create_task(self._keep(self._read_stored))

    async def _keep(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except ClusterError as error:  # what it should have found stays unknown, and `ClusterWatch` says why
                log.debug("%s: %s", self._settings.flow, error)
            await asyncio.sleep(LOOK_EVERY_S)

    # -- offsets

    async def _list_offsets(self, source: Cluster, group: asyncio.TaskGroup) -> None:
        needs, observations = self._observations.needs, self._observations
        ends = self._due("ends", needs.ends, ENDS_EVERY_S)
        starts = self._due("starts", needs.starts, STARTS_EVERY_S)
        for spec, due, take in (
            (OffsetSpec.LATEST, ends, observations.take_ends),
            (OffsetSpec.EARLIEST, starts, observations.take_starts),
        ):
            led, _ = await source.by_leader(due) if due else ({}, {})
            for broker, partitions in led.items():
                self._spawn(group, spec.name, broker, self._list(source, spec, partitions, take))

    async def _list(
        self,
        source: Cluster,
        spec: OffsetSpec,
        partitions: Collection[TopicPartition],
        take: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        isolation = self._settings.clients.fetch.isolation_level
        answers = await list_offsets(source, partitions, spec, isolation=isolation, timeout_ms=0)
        found = {one: offset for one, offset in answers.items() if isinstance(offset, int) and offset >= 0}
        if found:
            take(found)

    async def _fetch_times(self, source: Cluster, group: asyncio.TaskGroup) -> None:
        wanted = self._observations.needs.times
        now = time.monotonic()
        due = [one for one in wanted if now >= self._asked_at.get(("times", one), 0.0)]
        led, _ = await source.by_leader(due) if due else ({}, {})
        for broker, partitions in led.items():
            offsets = {one: wanted[one] for one in partitions[:TIMES_AT_ONCE]}
            self._spawn(group, "times", broker, self._fetch(source, broker, offsets))

    async def _fetch(self, source: Cluster, broker: int, offsets: Mapping[TopicPartition, int]) -> None:
        isolation = self._settings.clients.fetch.isolation_level
        first = next(iter(offsets))
        found = await first_timestamps(source, broker, offsets, isolation=isolation, purpose="timestamps")
        if first not in found:  # so that others come first, whose batches are larger than is asked for of each
            self._asked_at["times", first] = time.monotonic() + EMPTY_AGAIN_S
        if found:
            self._observations.take_times({one: (offsets[one], timestamp) for one, timestamp in found.items()})

    # -- target and configurations

    async def _read_stored(self) -> None:
        wanted, stored = self._observations.needs.positions, self._stored()
        if stored is None or not self._due("stored", wanted, STORED_EVERY_S):
            return
        await stored.refresh(timeout_ms=ANSWER_MS)
        if stored is self._stored():
            self._observations.take_stored({one: stored.position(one) for one in wanted})

    async def _read_retention(self, admin: Cluster) -> None:
        wanted, now = self._observations.needs.topics, time.monotonic()
        due = [one for one in wanted if one not in self._retention or now >= self._retention[one][0]]
        if not due:
            return
        try:
            answers = await describe_topic_configs(admin, due, timeout_ms=ANSWER_MS, keys=RETENTION_KEYS)
        except ClusterError as error:
            if not error.retriable:  # an old broker
                self._retention |= dict.fromkeys(due, (now + RETENTION_EVERY_S, None))
                self._observations.take_retention({topic: found for topic, (_, found) in self._retention.items()})
            raise
        denied = next((answer for answer in answers.values() if isinstance(answer, BrokerError)), None)
        if denied is None:
            self._retention_error.clear()
        else:
            self._retention_error.report(
                f"{denied}; until when the source keeps records that are not copied is unknown of such topics", denied
            )
        for topic, answer in answers.items():
            configs = {} if isinstance(answer, BrokerError) else {key: entry.value for key, entry in answer.items()}
            self._retention[topic] = now + RETENTION_EVERY_S, TopicRetention.of(configs)
        self._observations.take_retention({topic: found for topic, (_, found) in self._retention.items()})

    # -- pace

    def _due(self, what: str, wanted: Iterable[TopicPartition], every_s: float) -> list[TopicPartition]:
        """Return those that were not asked for within ``every_s``; they are asked for now."""
        now = time.monotonic()
        due = [one for one in wanted if now >= self._asked_at.get((what, one), 0.0)]
        self._asked_at |= {(what, one): now + every_s for one in due}
        return due

    def _spawn(self, group: asyncio.TaskGroup, what: str, broker: int, work: Awaitable[None]) -> None:
        """Ask a broker, unless it has not answered the last time."""
        if (what, broker) in self._asked:
            work.close()  # type: ignore[attr-defined]
            return
        self._asked.add((what, broker))
        group.create_task(self._ask(what, broker, work))

    async def _ask(self, what: str, broker: int, work: Awaitable[None]) -> None:
        try:
            await work
        except ClusterError as error:
            log.debug("%s: %s", self._settings.flow, error)
        finally:
            self._asked.discard((what, broker))


def _impatient(settings: ClientSettings) -> ClientSettings:
    return replace(settings, request_timeout_ms=min(ANSWER_MS, settings.request_timeout_ms))
