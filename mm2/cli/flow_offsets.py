"""What the two clusters of a flow know of its consumer groups' offsets, also when one of them is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches

from mm2.cli.direct import ANSWER_MS, impatient, reach, reason
from mm2.cli.group_positions import CheckpointsByGroup, Committed, FlowRules, GroupPosition
from mm2.cli.trouble import CommandError
from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core import internal_topics
from mm2.core.formats import Checkpoint, FormatError
from mm2.core.internal_topics import Side
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.groups import committed_offsets, group_states, list_groups
from mm2.node.translation import FlowTranslation

GROUPS_MS = 2 * ANSWER_MS
"""For requests to the coordinators of many groups: one that moves is waited for."""

STEP_GROUPS = 100
"""Groups put together between two turns of the event loop: 20 ms at 10 partitions each."""

NOTED_TROUBLES = 3
"""Of groups whose coordinator does not answer; there may be thousands."""

UNKNOWN = "Unknown"
"""Kafka's word for the state of a group that cannot be told."""

STEP_RECORDS = 1_000
"""Checkpoints read between two turns of the event loop: about 5 ms, enough for the line that tells of the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOffsets:
    """The groups of one flow, sorted. ``left_out``: groups that nobody asked for by name and that the flow does not
    translate, with the reason. ``notes``: what makes the answer worth less than it could be."""

    flow: str
    groups: tuple[GroupPosition, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    """As the node's: groups are read by the admin clients, topics by the consumers."""

    source: Cluster
    target: Cluster
    source_admin: Cluster
    target_admin: Cluster


@dataclass(slots=True, kw_only=True)
class _Known:
    """What the clusters said. ``source_away``: why the source cannot be asked. ``listed``: its groups and their states;
    ``committed``: what those that were asked for have committed there."""

    checkpoints: CheckpointsByGroup
    source_away: ClusterError | None = None
    listed: Mapping[str, str | None] = field(default_factory=dict)
    committed: Mapping[str, Committed | ClusterError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """Every group there is something to say about."""
        committed = {group for group, offsets in self.committed.items() if offsets}
        return self.checkpoints.groups | self.listed.keys() | committed

    def positions(self, group: str) -> tuple[Committed, bool]:
        """The group's positions on the source, and whether they are those of its last checkpoints: of a source that
        cannot be asked, and of a group that it has no offsets of any more."""
        committed = self.committed.get(group)
        if committed and not isinstance(committed, ClusterError):
            return committed, False
        stored = self.checkpoints.committed(group)
        return stored, bool(stored)


async def read_flow_offsets(settings: FlowSettings, wanted: Collection[str]) -> FlowOffsets:
    """The groups ``wanted``, or all that the flow translates. Raises CommandError when the target cannot be asked, or a
    group is not known."""
    async with _clients(settings) as clients:
        target_away, source_away = await asyncio.gather(reach(clients.target), reach(clients.source_admin))
        if target_away is not None:
            target = settings.flow.target
            raise CommandError(f"cluster {target} cannot be asked: {reason(target, target_away)}")
        known = _Known(checkpoints=CheckpointsByGroup(_rules(settings)), source_away=source_away)
        try:
            await _read_checkpoints(settings, clients.target, known)
            if source_away is None:
                await _read_groups(clients.source_admin, wanted, known)
            _note_source(settings, known)
            _check_known(settings, wanted, known)
            translation = await _read_translation(settings, clients, known)
            return await _put_together(settings, wanted, clients, known, translation)
        except ClusterError as error:
            raise CommandError(f"read the offsets of {settings.flow} on {settings.flow.target}: {error}") from error


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
    troubles = []
    for number, group in enumerate(chosen, 1):
        there, state = on_target[group], states[group]
        told = (known.committed.get(group), there, state)
        troubles += [f"group {group}: {trouble}" for trouble in told if isinstance(trouble, ClusterError)]
        committed, from_checkpoints = known.positions(group)
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
                    translation.translate,
                    {} if isinstance(there, ClusterError) else there,
                    translation.latest,
                ),
            )
        )
        if number % STEP_GROUPS == 0:
            await asyncio.sleep(0)
    known.notes += troubles[:NOTED_TROUBLES]
    if len(troubles) > NOTED_TROUBLES:
        known.notes.append(f"and {len(troubles) - NOTED_TROUBLES:,} more like this")
    return FlowOffsets(flow=str(settings.flow), groups=tuple(groups), left_out=refusals, notes=tuple(known.notes))


async def _read_checkpoints(settings: FlowSettings, target: Cluster, known: _Known) -> None:
    topic = internal_topics.checkpoints(settings.policy, settings.flow).name
    try:
        read = 0
        async for record in CompactedLog(target, topic).read_to_end(timeout_ms=ANSWER_MS):
            try:
                known.checkpoints.take(Checkpoint.decode(record.key, record.value), record.timestamp)
            except FormatError:
                continue  # a null that takes a checkpoint back, or nothing of ours: the node counts and tells of those
            read += 1
            if read % STEP_RECORDS == 0:
                await asyncio.sleep(0)
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        known.notes.append(f"{topic} does not exist on {settings.flow.target}: no checkpoint was ever written")


async def _read_groups(source: Cluster, wanted: Collection[str], known: _Known) -> None:
    """Groups, their states and offsets on the source, which may go away meanwhile."""
    try:
        listed = await list_groups(source, timeout_ms=GROUPS_MS)
        asked = sorted(set(wanted) or {group.group for group in listed} | known.checkpoints.groups)
        known.committed = await committed_offsets(source, asked, timeout_ms=GROUPS_MS)
        known.listed = {group.group: group.state for group in listed}
    except ClusterError as error:
        known.source_away = error


def _note_source(settings: FlowSettings, known: _Known) -> None:
    if known.source_away is not None:
        source = settings.flow.source
        known.notes.append(
            f"cluster {source} cannot be asked, so positions are those of the last checkpoints: what groups read since"
            f" then is read again ({reason(source, known.source_away)})"
        )


async def _read_translation(settings: FlowSettings, clients: _Clients, known: _Known) -> FlowTranslation:
    """Raises ClusterError only for the target."""
    translation = FlowTranslation(settings, clients.source, clients.target, must_read_to_end=False)
    on_source = Side(settings.source.offset_syncs_topic_location) is Side.SOURCE
    trouble: ClusterError | None = known.source_away if on_source else None
    if trouble is None:
        try:
            await translation.read_to_end()
        except ClusterError as error:
            trouble = error
            missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            known.notes.append(
                "there is no topic of offset syncs yet: the flow never copied anything, or emit.offset-syncs.enabled"
                " is false"
                if missing
                else f"offset syncs cannot be read: {error}"
            )
    if trouble is not None:
        await translation.read_to_end(without_syncs=True)
    if translation.exact_trouble is not None:
        known.notes.append(translation.exact_trouble)
    return translation


def _check_known(settings: FlowSettings, wanted: Collection[str], known: _Known) -> None:
    """Raises CommandError for a group nobody knows."""
    names = known.names
    for group in wanted:
        if group in names or isinstance(known.committed.get(group), ClusterError):
            continue
        source, target = settings.flow.source, settings.flow.target
        where = f"has no checkpoint on {target}"
        where += f", and {source} cannot be asked" if known.source_away is not None else f" and is not on {source}"
        folded = {name.casefold(): name for name in sorted(names)}
        similar = [folded[name] for name in get_close_matches(group.casefold(), folded, n=3)]
        guess = f"Did you mean {' or '.join(map(repr, similar))}?" if similar else f"There are: {_some(names)}."
        raise CommandError(f"group {group!r} {where}. {guess}")


def _refusals(settings: FlowSettings, known: _Known) -> dict[str, str]:
    """Why groups are not translated, by group; those that are have none."""
    refusals: dict[str, str] = {}
    for group in sorted(known.names):
        reason = settings.group_filter.refusal(group, "groups")
        if reason is None and not isinstance(known.committed.get(group), ClusterError):
            committed, _ = known.positions(group)
            topics = {partition.topic for partition in committed}
            if not topics:
                reason = "it has committed no offset"
            elif not any(map(settings.topic_filter, topics)):
                reason = "it has committed offsets for no topic that topics and topics.exclude select"
        if reason is not None:
            refusals[group] = reason
    return refusals


def _some(names: Collection[str]) -> str:
    few = sorted(names)[:5]
    return ", ".join(few or ["none"]) + (f" and {len(names) - len(few):,} more" if len(names) > len(few) else "")


def _rules(settings: FlowSettings) -> FlowRules:
    return FlowRules(
        flow=settings.flow,
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
        opened = [await stack.enter_async_context(impatient(settings.clients.of(role))) for role in roles]
        yield _Clients(source=opened[0], target=opened[1], source_admin=opened[2], target_admin=opened[3])
