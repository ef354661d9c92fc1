"""Records of ``mm2-configs.*``, next to Java's, in which the leader publishes the partitions of each source task.

    mm2-source-task-<source task>            {"epoch":7,"version":3,"part":0,"parts":2,"partitions":{"orders":[0,2],…},
                                 "ids":{"orders":["<source topic id>","<remote topic id>"],…}}
    mm2-source-task-<source task>.<part>     additional parts of a list that is too long for one record
    (`chunked_records`)

A source task of a query has ``"query":"<name>"``, and its partitions under ``"transformed"`` instead of
``"partitions"``: a release without queries, which would copy the records as they are, cannot read such a list and skips
it. These records contain only names, topic IDs and numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from mm2.core.assignment.chunked_records import PART_BYTES, Age, Chunk, ListBook, decode_chunk, encode_list, number
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds

KEY_PREFIX = "mm2-source-task-"
_PARTITIONS = "partitions"
_TRANSFORMED = "transformed"
_ROOM_FOR_IDS = len('"":[],') + len('"":["",""],') + 2 * 36  # JSON punctuation around a topic's name, and its two IDs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskRecord:
    """All partitions of source task ``source_task``, assigned by the leader of ``epoch``.

    ``version`` increases with each list that this leader publishes for the source task. A list with a lower (epoch,
    version) is void. ``topic_ids``: for topics with known IDs. ``query``: the name of the query that transforms the
    records, in the file of the leader; None: they are copied as they are.
    """

    source_task: int
    epoch: int
    version: int
    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, TopicIds] = field(default_factory=dict)
    query: str | None = None

    @property
    def age(self) -> Age:
        """Epoch and version; a higher age is newer."""
        return self.epoch, self.version


class PartitionsOfPart(NamedTuple):
    """Content of one part of a list."""

    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, TopicIds]
    query: str | None


def encode_source_task(record: SourceTaskRecord, *, part_bytes: int = PART_BYTES) -> list[tuple[bytes, bytes]]:
    """Return keys and values, each value of at most about ``part_bytes``. They are valid only together."""
    query = {} if record.query is None else {"query": record.query}
    field_name = _PARTITIONS if record.query is None else _TRANSFORMED
    contents = []
    for partitions in _split(record.partitions, part_bytes):
        ids = {topic: _id_texts(record.topic_ids[topic]) for topic in partitions if topic in record.topic_ids}
        contents.append({field_name: partitions, "ids": ids, **query})
    return encode_list(KEY_PREFIX, record.source_task, record.age, contents)


def is_source_task_key(key: bytes | None) -> bool:
    """Return whether the key is that of a source task's list."""
    return key is not None and key.startswith(KEY_PREFIX.encode())


def decode_source_task(key: bytes | None, value: bytes | None) -> Chunk[PartitionsOfPart]:
    """Read one record. Raises FormatError, also for a null value."""
    return decode_chunk(key, value, prefix=KEY_PREFIX, what="source task", content=_listed)


class SourceTaskBook(ListBook[PartitionsOfPart, SourceTaskRecord]):
    """The newest list of each source task."""

    def _join(self, part: Chunk[PartitionsOfPart], contents: Sequence[PartitionsOfPart]) -> SourceTaskRecord:
        return SourceTaskRecord(
            source_task=part.number,
            epoch=part.epoch,
            version=part.version,
            partitions=frozenset[TopicPartition]().union(*(one.partitions for one in contents)),
            topic_ids={topic: ids for one in contents for topic, ids in one.topic_ids.items()},
            query=part.content.query,
        )


def _split(partitions: Collection[TopicPartition], part_bytes: int) -> Iterable[dict[str, list[int]]]:
    """Yield at least one part, which can be empty."""
    part: dict[str, list[int]] = {}
    size = 0
    for one in sorted(partitions, key=lambda one: (one.topic, one.partition)):
        name, digits = 2 * len(one.topic.encode()) + _ROOM_FOR_IDS, len(str(one.partition)) + 1
        if part and size + digits + (0 if one.topic in part else name) > part_bytes:
            yield part
            part, size = {}, 0
        size += digits + (0 if one.topic in part else name)
        part.setdefault(one.topic, []).append(one.partition)
    yield part


def _listed(message: Any) -> PartitionsOfPart:
    query = _query(message.get("query"))
    partitions = message[_PARTITIONS if query is None else _TRANSFORMED]
    return PartitionsOfPart(
        frozenset(TopicPartition(topic, number(one)) for topic, numbers in partitions.items() for one in numbers),
        {topic: _topic_ids(texts) for topic, texts in message.get("ids", {}).items()},
        query,
    )


def _query(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{name!r:.200} is not the name of a query")
    return name


def _id_texts(ids: TopicIds) -> list[str | None]:
    return [None if one is None else str(one) for one in ids]


def _topic_ids(texts: Any) -> TopicIds:
    source, remote = (None if text is None else UUID(text) for text in texts)
    return UNKNOWN_IDS._replace(source=source, remote=remote)
