"""The internal topics of a Connect worker (configs, offsets, status), created and checked before a flow starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mm2.config.keys.worker_keys import StorageTopic
from mm2.config.settings import FlowSettings
from mm2.core.coordination.latest_starts import starts_at_latest
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import InternalTopic
from mm2.core.naming.names import TopicPartition
from mm2.kafka.admin.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import TopicInfo
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.checkpoint.translation import EXACT
from mm2.node.source.remote_copies import tells_source
from mm2.node.source.source_offsets import StoredSourceOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTopics:
    """The worker topics on the target. ``status_partitions`` is the partition count of the status topic."""

    source_offsets: StoredSourceOffsets
    status_partitions: int

    @classmethod
    async def ensure(cls, settings: FlowSettings, target: Cluster) -> WorkerTopics:
        """Create missing topics, as Connect's TopicAdmin does.

        Raises ClusterError, and WrongInternalTopic about all topics that Java would reject, too, or that may not be
        created or described.
        """
        flow, storage = settings.flow, settings.storage
        admin = settings.admin_class(target)
        offsets = internal_topics.source_offsets(flow, name=storage.offsets.name, partitions=storage.offsets.partitions)
        statuses = internal_topics.status(flow, name=storage.statuses.name, partitions=storage.statuses.partitions)
        configs = internal_topics.configs(flow, name=storage.configs.name)

        async def ensured(topic: InternalTopic, how: StorageTopic) -> int:
            found = await ensure_internal_topic(
                admin,
                topic,
                replication_factor=how.replication_factor,
                settings=dict(how.configs),
                timeout_ms=settings.source.admin_timeout_ms,
            )
            return len(found.partitions)

        if settings.enabled and (starts_at_latest(settings.clients.fetch) or not tells_source(settings, "topic")):
            await _require_progress(settings, target, offsets, configs)
        partitions: dict[str, int] = {}
        problems: list[str] = []
        for topic, how in ((offsets, storage.offsets), (statuses, storage.statuses), (configs, storage.configs)):
            try:
                partitions[topic.name] = await ensured(topic, how)
            except WrongInternalTopic as error:
                problems.append(str(error))
        if problems:
            raise WrongInternalTopic("; ".join(problems))
        return cls(
            source_offsets=StoredSourceOffsets(
                target,
                storage.offsets.name,
                flow,
                source_alias=settings.aliases.source,
                partitions=partitions[offsets.name],
            ),
            status_partitions=partitions[statuses.name],
        )


async def _require_progress(
    settings: FlowSettings, target: Cluster, offsets: InternalTopic, configs: InternalTopic
) -> None:
    """Raise WrongInternalTopic if the stored offsets of a flow that has run before are gone, and nothing replaces them.

    A new flow creates the offsets topic before the leader writes to the configs topic. So if the configs topic has
    records and the offsets topic does not exist, or all of its records have expired, everything would be copied again.
    With the exact offset map, partitions continue where it ends (`mm2.node.source.lease_builder.LeaseBuilder`). If the
    names of remote topics tell the source, it is decided for each partition whether the target has copies: this is not
    called then, but under ``latest``, where partitions without copies would leave out what was written meanwhile.
    Raises other ClusterErrors, too.
    """
    names = [offsets.name, configs.name]
    if settings.own.offset_translation == EXACT:
        names.append(internal_topics.exact_offsets(settings.flow).name)
    topics = (await target.metadata(names)).topics
    counts = {name: await _records(target, name, info) for name, info in topics.items()}
    is_absent = topics[offsets.name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_expired = counts[offsets.name].written > 0 and counts[offsets.name].kept == 0
    if (is_absent or is_expired) and counts[configs.name].kept and not any(counts[name].kept for name in names[2:]):
        raise WrongInternalTopic(gone_text(settings, offsets, configs, is_absent=is_absent))


class _Records(NamedTuple):
    """How many records a topic has had, and how many of them have not expired; compacted ones count, too."""

    written: int
    kept: int


async def _records(target: Cluster, name: str, info: TopicInfo) -> _Records:
    places = [TopicPartition(name, number) for number in range(len(info.partitions))]
    starts = await list_offsets(target, places, OffsetSpec.EARLIEST)
    ends = await list_offsets(target, places, OffsetSpec.LATEST)
    written = kept = 0
    for place in places:
        start, end = starts[place], ends[place]
        if isinstance(start, ClusterError) or isinstance(end, ClusterError):
            continue  # a missing permission, for example, is reported when the topic is read
        written, kept = written + end, kept + end - start
    return _Records(written, kept)


def gone_text(settings: FlowSettings, offsets: InternalTopic, configs: InternalTopic, *, is_absent: bool) -> str:
    """Return why the flow waits, and the command with which it starts again."""
    what = "does not exist" if is_absent else "has lost all of its records"
    delete = "" if is_absent else "delete the topic, and "
    factor = settings.storage.offsets.replication_factor
    # For -1, the default of the brokers, the tool needs no option, and rejects one
    partitions = "" if offsets.partitions < 0 else f" --partitions {offsets.partitions}"
    replicas = "" if factor < 0 else f" --replication-factor {factor}"
    return (
        f"cluster {settings.flow.target}: topic {offsets.name} {what}, although the flow has run before, according to"
        f" {configs.name}. Nothing is copied, since everything would be copied again. If that is what you want,"
        f" {delete}run kafka-topics.sh --create --topic {offsets.name}{partitions}{replicas}"
        " --config cleanup.policy=compact"
    )
