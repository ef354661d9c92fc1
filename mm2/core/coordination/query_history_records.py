"""Records of ``mm2-configs.*`` that tell which query applied to which records, for later verification.

    mm2-query-<sha256>                          {"query":"SELECT … FROM records"}
    mm2-query-history-<topic>-<partition>       {"id":"<source topic id>","entries":[[0,null,1763740800000],
                                                 [1042,"<sha256>",1763740900000]]}

The first is the text of a query with this digest, or ``module:function`` of a transform. It does not contain what
references to config providers stand for. An entry is the first source offset, the digest of its query (null: records
were copied as they are), and the time in epoch milliseconds at which copying with it was granted. There are records
only for partitions to which a query has applied. Java skips unknown keys (KafkaConfigBackingStore).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from mm2.core.coordination.query_history import NO_HISTORY, QueryEntry, QueryHistory, QueryText, QueryUse
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

_PREFIX = b"mm2-query-"
_TEXT = re.compile(r"mm2-query-([0-9a-f]{64})")
_HISTORY = re.compile(r"mm2-query-history-(.+)-(\d{1,9})")

Record = tuple[bytes, bytes]
"""Key and value."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def is_query_key(key: bytes | None) -> bool:
    """Return whether the key is that of a query's text or of a partition's history."""
    return key is not None and key.startswith(_PREFIX)


def encode_query(query: QueryText) -> Record:
    """Return the record of a query's text."""
    return _PREFIX + query.sha256.encode(), _json({"query": query.text})


def encode_history(partition: TopicPartition, history: QueryHistory) -> Record:
    """Return the record of a partition's history."""
    key = f"mm2-query-history-{partition.topic}-{partition.partition}"
    entries = [[one.offset, one.sha256, one.at_ms] for one in history.entries]
    return key.encode(), _json({"id": None if history.topic_id is None else str(history.topic_id), "entries": entries})


class QueriesUnreadableError(Exception):
    """The histories of a flow cannot be returned; ``is_unknown``: there is no such flow."""

    def __init__(self, reason: str, *, is_unknown: bool = False) -> None:
        super().__init__(reason)
        self.is_unknown = is_unknown


class QueryHistories:
    """The histories of all partitions, and the texts of their queries, from records in the order of the topic.

    ``revision`` increases with each change.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._texts: dict[str, QueryText] = {}
        self._histories: dict[TopicPartition, QueryHistory] = {}

    @property
    def texts(self) -> Mapping[str, QueryText]:
        """The query of each known digest."""
        return MappingProxyType(self._texts)

    @property
    def histories(self) -> Mapping[TopicPartition, QueryHistory]:
        """The history of each partition to which a query has applied."""
        return MappingProxyType(self._histories)

    def of(self, partition: TopicPartition) -> QueryHistory:
        """Return the history of a partition."""
        return self._histories.get(partition, NO_HISTORY)

    def lacks(self, use: QueryUse) -> bool:
        """Return whether the history of the partition changes if this is added to it."""
        before = self.of(use.partition)
        return before.merged(use) is not before

    def take(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply one record; return whether it is a change. A null value deletes. Raises FormatError."""
        text = (key or b"").decode(errors="replace")
        if found := _TEXT.fullmatch(text):
            changed = _put(self._texts, found[1], None if value is None else _decode_query(found[1], value))
        elif found := _HISTORY.fullmatch(text):
            partition = TopicPartition(found[1], int(found[2]))
            changed = _put(self._histories, partition, None if value is None else _decode_history(partition, value))
        else:
            raise FormatError(f"cannot read query history: invalid key: {key!r:.200}")
        self.revision += changed
        return changed

    def due(self, uses: Iterable[QueryUse], queries: Mapping[str, QueryText]) -> Iterator[list[Record]]:
        """Yield for each partition the records to write, so that its history contains these ``uses``.

        ``queries``: by digest. Texts are in the same list as the first history that needs them, before it.
        """
        changed: dict[TopicPartition, QueryHistory] = {}
        for use in uses:
            before = changed.get(use.partition) or self.of(use.partition)
            after = before.merged(use)
            if after is not before:
                changed[use.partition] = after
        written = set(self._texts)
        for partition, history in sorted(changed.items(), key=lambda one: one[0]):
            needed = {one.sha256 for one in history.entries if one.sha256 is not None} - written
            written |= needed
            texts = [encode_query(queries[digest]) for digest in sorted(needed & queries.keys())]
            yield [*texts, encode_history(partition, history)]


def _put(into: dict[Key, Value], key: Key, value: Value | None) -> bool:
    """Set or delete an item; return whether that is a change."""
    before = into.get(key)
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value
    return before != value


def _decode_query(digest: str, value: bytes) -> QueryText:
    match decode_json(value, "query"):
        case {"query": str(text)}:
            return QueryText(text=text, sha256=digest)
    raise FormatError(f"cannot read query: not {{query}}: {value!r:.200}")


def _decode_history(partition: TopicPartition, value: bytes) -> QueryHistory:
    try:
        message = decode_json(value, "query history")
        return QueryHistory(
            tuple(decode_entry(offset, digest, at) for offset, digest, at, *_ in message["entries"]),
            None if message["id"] is None else UUID(message["id"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read query history of {partition}: {error!r}: {value!r:.200}") from None


def decode_entry(offset: object, digest: object, at_ms: object) -> QueryEntry:
    """Return an entry from its JSON values. Raises TypeError."""
    if not (digest is None or isinstance(digest, str)):
        raise TypeError(f"{digest!r:.200} is not a string")
    return QueryEntry(as_int(offset), digest, as_int(at_ms))


def _json(message: object) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
