"""Offsets of a flow's consumer groups, read from its two clusters, even if the source is unreachable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, reason, short_timeout_cluster
from mm2.cli.clusters.group_positions import CheckpointsByGroup, Committed, FlowRules, GroupPosition, PartitionPosition
from mm2.cli.errors import CommandError
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.naming import internal_topics
from mm2.core.positions.answer import Precision
from mm2.core.positions.position_names import PositionRejectedError
from mm2.core.positions.positions import Position, PositionAnswers, TranslatedPosition
from mm2.core.wire.formats import Checkpoint, FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.groups.groups import committed_offsets, group_states, list_groups
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.checkpoint.flow_positions import FlowPositions
from mm2.node.checkpoint.translation import FlowTranslation

GROUPS_MS = 2 * ANSWER_MS
"""For requests to the coordinators of many groups: enough for a coordinator that moves."""

NOTED_FAILURES = 3
"""Groups whose coordinator does not answer are listed up to this number; there can be thousands."""

UNKNOWN = "Unknown"
"""Kafka's name for the state of a group if it is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOffsets:
    """The groups of one flow, sorted. ``left_out``: groups that were not requested by name and that the flow does not
    translate, with the reason. ``notes``: what makes the result less precise."""

    flow: str
    groups: tuple[GroupPosition, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    """The same clients as in a node: admin clients read groups, consumers read topics."""

    source: Cluster
    target: Cluster
    source_admin: Cluster
    target_admin: Cluster


@dataclass(slots=True, kw_only=True)
class _Known:
    """What was read so far. ``source_away``: why the source is unreachable. ``listed``: its groups and their states;
    ``committed``: offsets that the requested groups have committed there."""

    checkpoints: CheckpointsByGroup
    source_away: ClusterError | None = None
    listed: Mapping[str, str | None] = field(default_factory=dict)
    committed: Mapping[str, Committed | ClusterError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """Every group with a checkpoint, on the source, or with offsets there."""
        committed = {group for group, offsets in self.committed.items() if offsets}
        return self.checkpoints.groups | self.listed.keys() | committed

    def positions(self, group: str) -> tuple[Committed, bool]:
        """Return the group's positions on the source, and whether they are those of its last checkpoints: they are
        if the source is unreachable, or has no offsets of the group any more."""
        committed = self.committed.get(group)
        if committed and not isinstance(committed, ClusterError):
            return committed, False
        stored = self.checkpoints.committed(group)
        return stored, bool(stored)


async def read_flow_offsets(settings: FlowSettings, wanted: Collection[str]) -> FlowOffsets:
    """Return the groups ``wanted``, or all that the flow translates.

    Raises CommandError if the target is unreachable or a group is unknown.
    """
    async with _clients(settings) as clients, _read_clusters(settings, clients) as known:
        if known.source_away is None:
            await _read_groups(clients.source_admin, wanted, known)
        _note_source(settings, known)
        _check_known(settings, wanted, known)
        positions = await _read_positions(settings, clients, known)
        return await _put_together(settings, wanted, clients, known, positions.translation)


async def translate_groups(settings: FlowSettings, pattern: re.Pattern[str]) -> PositionAnswers:
    """Return the positions of the groups that the flow translates and whose whole names match ``pattern``, sorted. The
    notes also say which groups are left out.

    Raises CommandError if the target is unreachable, or if no group matches.
    """
    async with _clients(settings) as clients, _read_clusters(settings, clients) as known:
        if known.source_away is None:
            await _read_groups(clients.source_admin, (), known, lambda group: pattern.fullmatch(group) is not None)
        _note_source(settings, known)
        matching = sorted(group for group in known.names if pattern.fullmatch(group) is not None)
        if not matching:
            raise CommandError(f"no group matches {pattern.pattern}. Groups: {_some(known.names)}.")
        refusals = {group: why for group, why in _refusals(settings, known).items() if group in matching}
        positions = await _read_positions(settings, clients, known)
        rows = await _translate_groups([one for one in matching if one not in refusals], known, positions)
        return PositionAnswers(rows=rows, notes=(*known.notes, *_left_out(refusals)))


async def _translate_groups(
    groups: Iterable[str], known: _Known, positions: FlowPositions
) -> tuple[TranslatedPosition, ...]:
    """Return the positions of groups. A later checkpoint applies if the map knows less, as in ``mm2 offsets``."""
    judged: list[tuple[str, PartitionPosition, Position, PositionRejectedError | None]] = []
    for group in groups:
        committed, _ = known.positions(group)
        offsets = {one: at.offset for one, at in committed.items() if at is not None and at.offset >= 0}
        by_checkpoints = await positions.translation.translated(offsets)
        for one in known.checkpoints.positions(group, committed, by_checkpoints.translate, {}, by_checkpoints.latest):
            if one.source_offset is not None:
                asked = Position(one.partition.topic, one.partition.partition, one.source_offset)
                judged.append((group, one, asked, positions.names.rejection(asked.topic)))
    copied = [(group, asked) for group, _, asked, rejection in judged if rejection is None]
    found = iter(await positions.translate([asked for _, asked in copied], groups=[group for group, _ in copied]))
    return tuple(
        _by_checkpoint(next(found), one) if rejection is None else _not_copied(group, one, rejection)
        for group, one, _, rejection in judged
    )


def _by_checkpoint(row: TranslatedPosition, judged: PartitionPosition) -> TranslatedPosition:
    """Return the answer of the group's last checkpoint, if it is later than that of the map."""
    known_less = row.remote_offset is None or row.precision is Precision.CONSERVATIVE
    if not known_less or judged.translated is None or judged.translated <= (row.remote_offset or -1):
        return row
    why = f"{row.reason}; that of the last checkpoint" if row.reason else "that of the last checkpoint"
    return replace(row, remote_offset=judged.translated, read_again=judged.read_again, reason=why)


def _not_copied(group: str, judged: PartitionPosition, rejection: PositionRejectedError) -> TranslatedPosition:
    return TranslatedPosition(
        source=judged.partition,
        source_offset=judged.source_offset,
        remote=judged.remote,
        remote_offset=None,
        precision=Precision.CONSERVATIVE,
        reason=rejection.rule,
        read_again=None,
        group=group,
    )


def _left_out(refusals: Mapping[str, str]) -> Iterator[str]:
    if refusals:
        named = "; ".join(f"{group} ({why})" for group, why in list(refusals.items())[:NOTED_FAILURES])
        more = f"; and {len(refusals) - NOTED_FAILURES:,} more" if len(refusals) > NOTED_FAILURES else ""
        yield f"groups that {'is' if len(refusals) == 1 else 'are'} not translated: {named}{more}"


@asynccontextmanager
async def _read_clusters(settings: FlowSettings, clients: _Clients) -> AsyncIterator[_Known]:
    """Find out which clusters answer, and read the checkpoints. Within it, ClusterError becomes CommandError."""
    target_away, source_away = await asyncio.gather(
        connection_error(clients.target), connection_error(clients.source_admin)
    )
    if target_away is not None:
        target = settings.flow.target
        raise CommandError(f"cluster {target} is unreachable: {reason(target, target_away)}")
    known = _Known(checkpoints=CheckpointsByGroup(_rules(settings)), source_away=source_away)
    try:
        await _read_checkpoints(settings, clients.target, known)
        yield known
    except ClusterError as error:
        raise CommandError(
            f"failed to read the offsets of {settings.flow} on {settings.flow.target}: {error}"
        ) from error


async def _put_together(
    settings: FlowSettings,
    wanted: Collection[str],
    clients: _Clients,
    known: _Known,
    translation: FlowTranslation,
) -> FlowOffsets:
    refusals = {} if wanted else _refusals(settings, known)
    chosen = sorted(set(wanted)) if wanted else sorted(known.names - refusals.keys())
    states, on_target = await asyncio.gather(
        group_states(clients.target_admin, chosen, timeout_ms=GROUPS_MS),
        committed_offsets(clients.target_admin, chosen, timeout_ms=GROUPS_MS),
    )
    groups = []
    failures = []
    for group in chosen:
        there, state = on_target[group], states[group]
        told = (known.committed.get(group), there, state)
        failures += [f"group {group}: {failure}" for failure in told if isinstance(failure, ClusterError)]
        committed, from_checkpoints = known.positions(group)
        positions = {one: at.offset for one, at in committed.items() if at is not None and at.offset >= 0}
        translated = await translation.translated(positions)
        groups.append(
            GroupPosition(
                group=group,
                source_state=known.listed.get(group),
                target_state=UNKNOWN if isinstance(state, ClusterError) else state,
                filtered=settings.group_filter.refusal(group, "groups"),
                from_checkpoints=from_checkpoints,
                partitions=known.checkpoints.positions(
                    group,
                    committed,
                    translated.translate,
                    {} if isinstance(there, ClusterError) else there,
                    translated.latest,
                ),
            )
        )
    known.notes += failures[:NOTED_FAILURES]
    if len(failures) > NOTED_FAILURES:
        known.notes.append(f"and {len(failures) - NOTED_FAILURES:,} more like this")
    return FlowOffsets(flow=str(settings.flow), groups=tuple(groups), left_out=refusals, notes=tuple(known.notes))


async def _read_checkpoints(settings: FlowSettings, target: Cluster, known: _Known) -> None:
    topic = internal_topics.checkpoints(settings.policy, settings.aliases).name
    try:
        async for record in CompactedLog(target, topic).read_to_end(timeout_ms=ANSWER_MS):
            try:
                known.checkpoints.take(Checkpoint.decode(record.key, record.value), record.timestamp)
            except FormatError:
                continue  # a deleted checkpoint, or a malformed record, which the node counts and logs
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        known.notes.append(f"{topic} does not exist on {settings.flow.target}: no checkpoint has been written yet")


async def _read_groups(
    source: Cluster,
    wanted: Collection[str],
    known: _Known,
    selects: Callable[[str], bool] = lambda group: True,
) -> None:
    """Read groups, their states and offsets on the source, which may become unreachable meanwhile.

    ``selects``: of all groups, read the offsets of these.
    """
    try:
        listed = await list_groups(source, timeout_ms=GROUPS_MS)
        everything = {group.group for group in listed} | known.checkpoints.groups
        asked = sorted(set(wanted) or set(filter(selects, everything)))
        known.committed = await committed_offsets(source, asked, timeout_ms=GROUPS_MS)
        known.listed = {group.group: group.state for group in listed}
    except ClusterError as error:
        known.source_away = error


def _note_source(settings: FlowSettings, known: _Known) -> None:
    if known.source_away is not None:
        source = settings.flow.source
        known.notes.append(
            f"cluster {source} is unreachable, so positions are those of the last checkpoints: records that groups have"
            f" read since then are read again ({reason(source, known.source_away)})"
        )


async def _read_positions(settings: FlowSettings, clients: _Clients, known: _Known) -> FlowPositions:
    """Read offset syncs and exact offsets. Raises ClusterError only for the target."""
    positions = FlowPositions(settings, clients.source, clients.target)
    await positions.read_from(known.source_away)
    known.notes += positions.notes
    return positions


def _check_known(settings: FlowSettings, wanted: Collection[str], known: _Known) -> None:
    """Raise CommandError for a group that neither cluster knows."""
    names = known.names
    for group in wanted:
        if group in names or isinstance(known.committed.get(group), ClusterError):
            continue
        source, target = settings.flow.source, settings.flow.target
        where = f"has no checkpoint on {target}"
        where += (
            f", and {source} is unreachable" if known.source_away is not None else f" and does not exist on {source}"
        )
        folded = {name.casefold(): name for name in sorted(names)}
        similar = [folded[name] for name in get_close_matches(group.casefold(), folded, n=3)]
        guess = f"Did you mean {' or '.join(map(repr, similar))}?" if similar else f"Groups: {_some(names)}."
        raise CommandError(f"group {group!r} {where}. {guess}")


def _refusals(settings: FlowSettings, known: _Known) -> dict[str, str]:
    """Return why groups are not translated, by group; translated groups are left out."""
    refusals: dict[str, str] = {}
    for group in sorted(known.names):
        reason = settings.group_filter.refusal(group, "groups")
        if reason is None and not isinstance(known.committed.get(group), ClusterError):
            committed, _ = known.positions(group)
            topics = {partition.topic for partition in committed}
            if not topics:
                reason = "no committed offsets"
            elif not any(map(settings.topic_filter, topics)):
                reason = "it has no committed offsets for a topic that topics and topics.exclude select"
        if reason is not None:
            refusals[group] = reason
    return refusals


def _some(names: Collection[str]) -> str:
    few = sorted(names)[:5]
    return ", ".join(few or ["none"]) + (f" and {len(names) - len(few):,} more" if len(names) > len(few) else "")


def _rules(settings: FlowSettings) -> FlowRules:
    return FlowRules(
        aliases=settings.aliases,
        policy=settings.policy,
        selects=settings.topic_filter,
        refusal=lambda topic: settings.topic_filter.refusal(topic, "topics"),
    )


@asynccontextmanager
async def _clients(settings: FlowSettings) -> AsyncIterator[_Clients]:
    roles = (
        ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER,
        ClientRole.OFFSET_SYNCS_TARGET_CONSUMER,
        ClientRole.CHECKPOINT_SOURCE_ADMIN,
        ClientRole.CHECKPOINT_TARGET_ADMIN,
    )
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(short_timeout_cluster(settings.clients.of(role))) for role in roles]
        yield _Clients(source=opened[0], target=opened[1], source_admin=opened[2], target_admin=opened[3])
