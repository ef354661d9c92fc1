"""``mm2 map rebuild``: rebuilds the exact offset map of a topic by the content of both clusters."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mm2.cli.clusters.cluster_access import choose_flow, connection_error, note, read_settings, reason
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.parameters import whole_number
from mm2.cli.terminal.tables import counted, number
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.alignment.aligner import Alignment, SourceRecords, TargetAligner
from mm2.core.alignment.fingerprints import fingerprint
from mm2.core.alignment.rebuilt_map import StoredMap, outdated_keys, rebuilt_segments
from mm2.core.coordination.pauses import WHOLE_FLOW
from mm2.core.naming.internal_topics import exact_offsets
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from mm2.core.settings.client import ClientSettings, IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.core.wire.formats import FormatError
from mm2.election.kafka.group_messages import decode_member
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, SecuritySettingsInvalid, check
from mm2.kafka.groups.group_members import describe_group
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.record_fetch import fetch_records
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import API_TIMEOUT_MS, retried
from mm2.node.checkpoint.translation import EXACT
from mm2.node.store.config_store import ConfigStore

CLIENT_ID = "mm2-map-rebuild"
"""Added to the client.id of the file, so that brokers can limit the command by a quota."""

DEFAULT_RATE = "20"  # MB/s

SETTLED_S = 30.0
"""How long a topic must be paused: until then no lane of a node writes its map any more. A lane that is drained has
10 s by default, and one that is cut off from its node 14 s."""

WRITE_S = 60.0
"""How long writing may take."""

_MB = 1_000_000
_WAIT_MS = 100
_PARTITION = 0  # the exact offsets topic has one
_TIMESTAMP_TYPE, _APPEND_TIME = "message.timestamp.type", "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clusters:
    """``reads_source`` and ``reads_target`` read records, ``target`` everything else."""

    reads_source: Cluster
    reads_target: Cluster
    target: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The new map of one partition, which is not written yet, and what it was made of."""

    stored: StoredMap
    alignment: Alignment
    segments: tuple[Segment, ...]

    def __str__(self) -> str:
        found, size = self.alignment, sum(len(one.key()) + len(one.value()) for one in self.segments)
        share = 100 * found.explained / found.source if found.source else 100.0
        return (
            f"{self.stored.partition}: {found.explained:,} of {counted(found.source, 'source record')} exact"
            f" ({share:.1f} %); of {counted(found.target, 'target record')}, {found.repeated:,} are repeated and"
            f" {found.others:,} of others or not clear; {counted(len(self.segments), 'segment')}, {number(size)} bytes"
        )


class Pace:
    """Delays reading so that it stays below ``rate`` bytes per second on average, and shows how far it is."""

    def __init__(self, rate: float, show: Callable[[int, float], None]) -> None:
        """``show`` gets offsets to add, and bytes per second."""
        self._rate = rate
        self._show = show
        self._started = time.monotonic()
        self._bytes = 0

    async def read(self, offsets: int, size: int) -> None:
        """So many more offsets were read, of ``size`` bytes."""
        self._bytes += size
        passed = time.monotonic() - self._started
        self._show(offsets, self._bytes / max(passed, 0.001))
        await asyncio.sleep(max(0.0, self._bytes / self._rate - passed))


def map_command(
    action: str,
    file: Path,
    *,
    topic: str,
    partition: str | None = None,
    flow: str | None = None,
    rate: str = DEFAULT_RATE,
    yes: bool = False,
) -> int:
    """Run ``mm2 map rebuild``. Raises CommandError if nothing could be rebuilt, UsageError for wrong options."""
    if action != "rebuild":
        raise UsageError(f"there is no action {action!r} of mm2 map: write mm2 map rebuild FILE --topic {topic}")
    settings = choose_flow(read_settings(file), flow)
    wanted = None if partition is None else whole_number("--partition", partition, "a partition number")
    job = RebuildJob(settings, topic, wanted, bytes_per_second=_rate(rate))
    job.check_settings()
    try:
        return asyncio.run(job.run(confirm=None if yes else _confirmed))
    except SecuritySettingsInvalid as error:
        raise UsageError(str(error)) from error
    except ClusterError as error:
        raise CommandError(f"{settings.flow}: {error}; nothing was changed, run the command again") from error


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1_000_000:
        raise UsageError(f"--rate {text} is not a number of MB per second: write for example --rate {DEFAULT_RATE}")
    return rate * _MB


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        note("mm2 map rebuild: nothing is written: add --yes, as the question cannot be answered here")
        return False
    print("Replace the map of these partitions? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class RebuildJob:
    """Rebuilds the map of a topic, or of one partition.

    (A) No lane writes the map meanwhile: no node of the flow runs, or the topic is paused and was long enough; both is
        checked before reading and before writing. A lane that nevertheless does writes an era that readers ignore, so
        that positions behind the rebuilt map are translated conservatively.
    (B) Nothing is written before everything was read. What is written is complete, also after SIGINT.
    """

    def __init__(
        self,
        settings: FlowSettings,
        topic: str,
        partition: int | None,
        *,
        bytes_per_second: float,
        settled_s: float = SETTLED_S,
    ) -> None:
        """``settled_s``: how long the topic must have been paused while nodes run."""
        self._settings = settings
        self._flow = settings.flow
        self._topic = topic
        self._partition = partition
        self._rate = bytes_per_second
        self._settled_s = settled_s
        self._map = exact_offsets(settings.flow)

    def check_settings(self) -> None:
        """Raise UsageError if the file does not allow it."""
        flow, topic = self._flow, self._topic
        if self._settings.own.offset_translation != EXACT:
            raise UsageError(f"{flow} has no exact offset map, because of mm2.offset.translation = compatible")
        if (query := self._settings.query_of(topic)) is not None:
            raise UsageError(
                f"the records of {topic} are transformed by the query {query.name}, so copies cannot be recognised by"
                " their content; positions before the end of its map stay conservative"
            )

    async def run(self, *, confirm: Callable[[], bool] | None) -> int:
        """Read, ask ``confirm`` if it is given, and write. Raises ClusterError, CommandError."""
        async with self._clusters() as clusters:
            await self._require_no_lane(clusters.target, waits=True)
            ids, partitions = await self._partitions(clusters)
            stored = {one: StoredMap(partition=one) for one in partitions}
            topic = await self._open_map(clusters.target)
            await self._read_map(topic, stored)
            await self._require_same_topic(clusters.target, stored.values(), ids)
            versions = {one: known.version for one, known in stored.items()}
            rebuilt = await self._read_all(clusters, partitions, stored, ids)
            for found in rebuilt:
                note(f"mm2 map rebuild: {found}")
            due = [one for one in rebuilt if one.segments]
            if not due:
                raise CommandError(
                    f"no record of {self._topic} on {self._flow.source} is known to be on {self._flow.target}, so there"
                    " is nothing to rebuild; the map was not changed"
                )
            if confirm is not None and not confirm():
                return DONE
            await self._read_map(topic, stored)
            if versions != {one: known.version for one, known in stored.items()}:
                raise CommandError(f"the map of {self._topic} was written meanwhile; nothing was changed, run it again")
            await self._require_no_lane(clusters.target, waits=False)
            if (await self._partitions(clusters))[0] != ids:
                raise CommandError(f"topic {self._topic} was recreated meanwhile; nothing was changed")
            await _finished(self._write(clusters.target, due))
        note(f"mm2 map rebuild: the map of {counted(len(due), 'partition')} was replaced")
        return DONE

    @asynccontextmanager
    async def _clusters(self) -> AsyncIterator[_Clusters]:
        clients = self._settings.clients
        async with (
            Cluster(_own_id(clients.of(ClientRole.REPLICATION_CONSUMER, 0))) as source,
            Cluster(_own_id(clients.of(ClientRole.CHECKPOINTS_TARGET_CONSUMER))) as reads_target,
            Cluster(_own_id(clients.of(ClientRole.SHARED_ADMIN))) as target,
        ):
            for alias, cluster in ((self._flow.source, source), (self._flow.target, target)):
                if (error := await connection_error(cluster)) is not None:
                    raise CommandError(f"cluster {alias} is unreachable: {reason(alias, error)}")
            yield _Clusters(reads_source=source, reads_target=reads_target, target=target)

    # -- who else writes the map

    async def _require_no_lane(self, target: Cluster, *, waits: bool) -> None:
        """Return if no lane can write the map. ``waits``: wait until a pause is old enough.

        Raises CommandError if one can.
        """
        group = await describe_group(target, self._settings.clients.group_id)
        if isinstance(group, ClusterError):
            raise group
        if not group.members:
            return
        if any(decode_member(member.metadata) is None for member in group.members):
            raise CommandError(
                f"another program than mm2 runs {self._flow}, which does not heed mm2 pause: stop it first"
            )
        configs = ConfigStore(self._settings, target, on_change=lambda: None, on_command=lambda _: None)
        await configs.read_to_end()
        if not configs.pauses.covers(self._topic):
            raise CommandError(
                f"{self._topic} may be copied meanwhile, as {counted(len(group.members), 'node')} of {self._flow} run:"
                f" pause it first (mm2 pause FILE --flow '{self._flow}' --topic {self._topic}), or stop the nodes"
            )
        since = [configs.pauses.since[name] for name in (WHOLE_FLOW, self._topic) if name in configs.pauses.since]
        left = self._settled_s - (time.time() - min(since) / 1_000) if since else 0.0
        if left > 0 and waits:
            note(f"mm2 map rebuild: {self._topic} was paused just now; waiting {left:.0f} s until all lanes heed it")
            await asyncio.sleep(left)
        elif left > 0:
            raise CommandError(f"{self._topic} was resumed and paused again meanwhile; nothing was changed")

    async def _require_same_topic(self, target: Cluster, stored: Iterable[StoredMap], ids: TopicIds) -> None:
        """Raise CommandError if the source topic was recreated and no leader has noticed that yet."""
        configs = ConfigStore(self._settings, target, on_change=lambda: None, on_command=lambda _: None)
        await configs.read_to_end()
        lists = configs.source_tasks.records.values()
        known = [one.topic_ids[self._topic] for one in lists if self._topic in one.topic_ids]
        source = TopicIds(source=ids.source)
        if not all(one.may_continue(ids) for one in stored) or not all(source.may_be(one) for one in known):
            raise CommandError(
                f"topic {self._topic} was recreated on {self._flow.source}, and no node has noticed that yet: resume"
                " it, or start a node, so that it is copied from its beginning; its new map needs no rebuilding"
            )

    # -- reading

    async def _partitions(self, clusters: _Clusters) -> tuple[TopicIds, list[TopicPartition]]:
        """Return the IDs of both topics, and the source partitions. Raises CommandError, ClusterError."""
        remote = self._remote_topic
        on_source = (await clusters.reads_source.metadata([self._topic])).topics[self._topic]
        on_target = (await clusters.reads_target.metadata([remote])).topics[remote]
        for name, info, alias in ((self._topic, on_source, self._flow.source), (remote, on_target, self._flow.target)):
            if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise CommandError(f"cluster {alias} has no topic {name}")
            check(info.error, f"read topic {name}", right=on_topic(Operation.READ, name, alias))
        count = min(len(on_source.partitions), len(on_target.partitions))
        if self._partition is not None and self._partition >= count:
            raise UsageError(f"--partition {self._partition}: {self._topic} has the partitions 0 to {count - 1}")
        numbers = range(count) if self._partition is None else [self._partition]
        ids = TopicIds(on_source.topic_id, on_target.topic_id)
        return ids, [TopicPartition(self._topic, one) for one in numbers]

    @property
    def _remote_topic(self) -> str:
        return self._settings.policy.format_remote_topic(self._settings.aliases.source, self._topic)

    async def _open_map(self, target: Cluster) -> CompactedLog:
        await ensure_internal_topic(
            self._settings.admin_class(target),
            self._map,
            replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
        )
        return CompactedLog(target, self._map.name, isolation=IsolationLevel.READ_COMMITTED, purpose="map rebuild")

    async def _read_map(self, topic: CompactedLog, stored: Mapping[TopicPartition, StoredMap]) -> None:
        async for record in topic.read_to_end():
            for one in stored.values():
                try:
                    one.take(record.key, record.value)
                except FormatError:  # it is replaced, too
                    continue

    async def _read_all(
        self,
        clusters: _Clusters,
        partitions: Sequence[TopicPartition],
        stored: Mapping[TopicPartition, StoredMap],
        ids: TopicIds,
    ) -> list[Rebuilt]:
        remote = self._remote_topic
        on_target = {one: TopicPartition(remote, one.partition) for one in partitions}
        source_isolation = self._settings.clients.fetch.isolation_level
        # the target's ends first: what is copied until then is before the source's ends
        target = await _bounds(clusters.reads_target, list(on_target.values()), IsolationLevel.READ_COMMITTED)
        source = await _bounds(clusters.reads_source, partitions, source_isolation)
        with_time = not await self._stamps(clusters.target, remote)
        total = sum(end - start for start, end in (*source.values(), *target.values()))
        found = []
        with _progress(total) as show:
            pace = Pace(self._rate, show)
            of_source = _Reader(
                cluster=clusters.reads_source, isolation=source_isolation, pace=pace, with_time=with_time
            )
            of_target = _Reader(
                cluster=clusters.reads_target,
                isolation=IsolationLevel.READ_COMMITTED,
                pace=pace,
                with_time=with_time,
            )
            for one in partitions:
                known = SourceRecords()
                await of_source.read(one, source[one], known)
                aligner = TargetAligner(known)
                await of_target.read(on_target[one], target[on_target[one]], aligner)
                alignment = aligner.aligned()
                segments = rebuilt_segments(stored[one], alignment, ids, source_end=source[one][1])
                found.append(Rebuilt(stored=stored[one], alignment=alignment, segments=segments))
        return found

    async def _stamps(self, target: Cluster, remote: str) -> bool:
        """Return whether the target replaces the timestamps of records, so that copies do not have the source's."""
        configs = (await describe_topic_configs(target, [remote], keys=[_TIMESTAMP_TYPE]))[remote]
        if isinstance(configs, BrokerError):
            note(f"mm2 map rebuild: cannot read {_TIMESTAMP_TYPE} of {remote}, assuming CreateTime: {configs}")
            return False
        entry = configs.get(_TIMESTAMP_TYPE)
        return entry is not None and entry.value == _APPEND_TIME

    # -- writing

    async def _write(self, target: Cluster, due: Sequence[Rebuilt]) -> None:
        """Write the segments, then delete what they replace: readers use the new era from its first segment on."""
        records: list[tuple[bytes, bytes | None]] = []
        for one in due:
            records += [(segment.key(), segment.value()) for segment in one.segments]
            records += [(key, None) for key in outdated_keys(one.stored, one.segments)]
        async with ControlProducer(target, purpose="map rebuild") as producer:
            writes = [producer.send(self._map.name, _PARTITION, key, value) for key, value in records]
            if not await producer.flush(WRITE_S):
                raise producer.last_error or RequestTimedOut(f"write {self._map.name}: not acknowledged in {WRITE_S} s")
            await asyncio.gather(*writes)


async def _finished(write: Coroutine[None, None, None]) -> None:
    """Wait for ``write`` to its end, also if this task is cancelled meanwhile, as by SIGINT."""
    task = asyncio.ensure_future(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _own_id(settings: ClientSettings) -> ClientSettings:
    return replace(settings, client_id=f"{settings.client_id}|{CLIENT_ID}")


async def _bounds(
    cluster: Cluster, partitions: Sequence[TopicPartition], isolation: IsolationLevel
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the end of each partition. Raises ClusterError."""
    end = await list_offsets(cluster, partitions, OffsetSpec.LATEST, isolation=isolation)
    start = await list_offsets(cluster, partitions, OffsetSpec.EARLIEST)
    found = {}
    for one in partitions:
        first, last = start[one], end[one]
        for offset in (first, last):
            if isinstance(offset, ClusterError):
                raise offset
        assert isinstance(first, int)
        assert isinstance(last, int)
        found[one] = (first, max(first, last))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads partitions of a cluster. ``with_time``: copies have the timestamps of their records."""

    cluster: Cluster
    isolation: IsolationLevel
    pace: Pace
    with_time: bool

    async def read(
        self, partition: TopicPartition, bounds: tuple[int, int], into: SourceRecords | TargetAligner
    ) -> None:
        """Read a partition. Raises ClusterError, also if records are deleted meanwhile, or nothing moves."""
        position, end = bounds
        moved = time.monotonic()
        while position < end:
            at = position
            records, position = await retried(
                partial(self._fetch, partition, at), self.cluster.settings, timeout_ms=API_TIMEOUT_MS
            )
            if position > at:
                moved = time.monotonic()
            elif time.monotonic() - moved > API_TIMEOUT_MS / 1_000:
                raise RequestTimedOut(f"read {partition}: no more records behind offset {at} of {end}")
            size = sum(_add(into, one, with_time=self.with_time) for one in records if one.offset < end)
            await self.pace.read(min(position, end) - at, size)

    async def _fetch(self, partition: TopicPartition, position: int) -> tuple[list[StoredRecord], int]:
        leader = await self.cluster.leader(partition)
        answers = await fetch_records(
            self.cluster,
            leader.node_id,
            {partition: position},
            isolation=self.isolation,
            purpose="map rebuild",
            wait_ms=_WAIT_MS,
        )
        fetched = answers.get(partition, ([], position))  # brokers leave it out while a quota throttles the client
        if isinstance(fetched, ClusterError):
            raise fetched
        return fetched


def _add(into: SourceRecords | TargetAligner, record: StoredRecord, *, with_time: bool) -> int:
    """Add a record, and return its size in bytes."""
    if record.problem is not None:
        into.add_unreadable(record.offset)
        return 0
    content = fingerprint(
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp_ms=record.timestamp if with_time else None,
    )
    into.add(record.offset, content)
    return len(record.key or b"") + len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, float], None]]:
    """Show a bar on a terminal. Yields a function for offsets to add, and bytes per second."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %  {task.fields[pace]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task: TaskID = progress.add_task("reading both clusters", total=total, pace="")

        def show(offsets: int, pace: float) -> None:
            progress.update(task, advance=offsets, pace=f"{pace / _MB:.1f} MB/s")

        yield show
