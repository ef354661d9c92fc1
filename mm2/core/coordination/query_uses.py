"""Reports about the queries that source tasks apply, from the nodes that run them to the leader, in ``mm2-status.*``.

    mm2-query-use-<source task>    {"sha256":"<digest>","query":"SELECT … FROM records",
                                    "partitions":{"orders":[[0,1042,1763740900000],…]},
                                    "ids":{"orders":"<source topic id>"}}

The source task copies partition 0 of the topic from source offset 1042 on through this query; the last number is the
time in epoch milliseconds at which that was granted. ``sha256`` and ``query`` null: as it is, although a query applied
before. The leader adds this to the histories in ``mm2-configs.*`` (`query_history_records`). Java skips these records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mm2.core.coordination.query_history import QueryText, QueryUse
from mm2.core.coordination.query_history_records import Record, decode_entry
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

USES_REPORTED = 1_000
"""Maximum number of partitions in a record, so that it remains small; the others are reported after these."""

_PREFIX = "mm2-query-use-"
_KEY = re.compile(r"mm2-query-use-\d{1,9}")


def is_query_use_key(key: bytes | None) -> bool:
    """Return whether the key is that of a report about queries."""
    return key is not None and key.startswith(_PREFIX.encode())


def encode_query_uses(source_task: int, query: QueryText | None, uses: Sequence[QueryUse]) -> Record:
    """Return the record of a source task. All ``uses`` are of the same ``query``; None: records are copied as they
    are."""
    partitions: dict[str, list[list[int]]] = {}
    ids: dict[str, str] = {}
    for use in uses:
        one = use.partition
        partitions.setdefault(one.topic, []).append([one.partition, use.entry.offset, use.entry.at_ms])
        if use.topic_id is not None:
            ids[one.topic] = str(use.topic_id)
    message = {
        "sha256": query.sha256 if query is not None else None,
        "query": query.text if query is not None else None,
        "partitions": partitions,
        "ids": ids,
    }
    return f"{_PREFIX}{source_task}".encode(), json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


class ReportedQueryUses:
    """What owners of source tasks have reported, until it is known to be in the histories.

    (A) A report stays due although a later owner of the source task replaces its record, so that a new leader adds
        what the former leader did not.
    """

    def __init__(self) -> None:
        self._uses: dict[QueryUse, None] = {}
        self._queries: dict[str, QueryText] = {}

    @property
    def uses(self) -> Sequence[QueryUse]:
        """The uses in the order of their reports."""
        return tuple(self._uses)

    @property
    def queries(self) -> Mapping[str, QueryText]:
        """The query of each reported digest."""
        return MappingProxyType(self._queries)

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Raises FormatError."""
        if not _KEY.fullmatch((key or b"").decode(errors="replace")):
            raise FormatError(f"cannot read report about queries: invalid key: {key!r:.200}")
        query, uses = _decode(value)
        if query is not None:
            self._queries[query.sha256] = query
        for use in uses:
            self._uses[use] = None

    def keep(self, is_due: Callable[[QueryUse], bool]) -> None:
        """Forget the uses that are not due."""
        self._uses = {use: None for use in self._uses if is_due(use)}


def _decode(value: bytes | None) -> tuple[QueryText | None, Iterable[QueryUse]]:
    try:
        message = decode_json(value, "report about queries")
        digest, text = message["sha256"], message["query"]
        query = None if digest is None else QueryText(text=_text(text), sha256=_text(digest))
        ids = {topic: UUID(one) for topic, one in message["ids"].items()}
        uses = [
            QueryUse(TopicPartition(topic, as_int(number)), decode_entry(offset, digest, at), ids.get(topic))
            for topic, some in message["partitions"].items()
            for number, offset, at, *_ in some
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read report about queries: {error!r}: {value!r:.200}") from None
    return query, uses


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.200} is not a string")
    return value
