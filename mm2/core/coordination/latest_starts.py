"""Decides where partitions without a stored offset start under ``latest`` (mm2.start, else auto.offset.reset).

A flow starts at the ends that its topics have when its leader first plans it. Topics and partitions that are created
later start at their beginning, as nothing before it was left out on purpose. For which topics the ends are stored is a
record of the leader in ``mm2-configs.*``; Java skips its key:

    mm2-latest-starts       {"topics":["orders.*"],"exclude":["orders-tmp"],"filter":"acme.Filter"}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-latest-starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """What selects the topics of a flow: `topics`, `topics.exclude` and the class of the filter."""

    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    filter_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestStarts:
    """Which partitions start at their end, and which at their beginning."""

    at_end: frozenset[TopicPartition]
    at_beginning: frozenset[TopicPartition]


def starts_at_latest(fetch: FetchSettings) -> bool:
    """Return whether partitions without a stored offset start by the rules of this module."""
    return (fetch.auto_offset_reset if fetch.start is None else fetch.start) is OffsetReset.LATEST


def latest_starts(
    missing: Iterable[TopicPartition],
    *,
    listed: Collection[TopicPartition],
    selection: TopicSelection,
    planned: TopicSelection | None,
) -> LatestStarts:
    """Decide about the partitions without a stored offset.

    ``listed`` are those in the lists of source tasks, as they were last published. ``planned``: the selection whose
    ends are stored; None if the flow was never planned under ``latest``.

    A partition was created since if its topic has listed partitions, or the selection is still the same. One that is
    listed itself has lost its offset: an operator has deleted it. A topic of another selection may be as old as any.
    """
    topics = {one.topic for one in listed}
    unchanged = planned == selection
    undecided = frozenset(missing)
    created_since = frozenset(
        one for one in undecided if planned is not None and one not in listed and (unchanged or one.topic in topics)
    )
    return LatestStarts(at_end=undecided - created_since, at_beginning=created_since)


def encode_selection(selection: TopicSelection) -> bytes:
    """Return the record's value."""
    value = {
        "topics": list(selection.topics),
        "exclude": list(selection.exclude),
        "filter": selection.filter_class,
    }
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_selection(value: bytes | None) -> TopicSelection | None:
    """Read the record's value; None if the flow was never planned under ``latest``. Raises FormatError."""
    if value is None:
        return None
    match decode_json(value, "latest starts"):
        case {"topics": list(topics), "exclude": list(exclude), "filter": str(filter_class)} if all(
            isinstance(text, str) for text in (*topics, *exclude)
        ):
            return TopicSelection(topics=tuple(topics), exclude=tuple(exclude), filter_class=filter_class)
    raise FormatError(f"cannot read latest starts: not {{topics, exclude, filter}}: {value!r:.200}")
