"""Topics that a flow has copied and that were deleted on the source: which they are, and since when.

The remote topics remain. The leader stores what it noticed in ``mm2-configs.*``, one record for each topic, and a
tombstone when the topic exists again or its remote topic was deleted, too; Java skips the keys:

    mm2-deleted-topic-orders        {"noticed":1796000000000,"since":1796000000000}

``since`` is null if the topic was deleted before a leader looked at the source.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from mm2.core.topics.selection import Selection
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

_PREFIX = b"mm2-deleted-topic-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Times in milliseconds since 1970.

    ``noticed_ms``: when a leader first found the topic missing. ``since_ms``: the same if it had found the topic one
    round of discovery earlier; None: unknown.
    """

    noticed_ms: int
    since_ms: int | None


@dataclass(slots=True)
class DeletedTopics:
    """The deletions that are stored, by source topic. Fed with the records of the config topic, in their order."""

    deletions: dict[str, Deletion] = field(default_factory=dict)

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Raises FormatError."""
        topic = _topic_of(key)
        if value is None:
            self.deletions.pop(topic, None)
        else:
            self.deletions[topic] = _decode(value)


def is_deleted_topic_key(key: bytes | None) -> bool:
    """Return whether the key is that of a deleted topic."""
    return key is not None and key.startswith(_PREFIX)


def missing_topics(
    before: Selection,
    copied: Collection[str],
    stored: Collection[str],
    *,
    selected: Collection[str],
    present: Collection[str],
) -> frozenset[str]:
    """Return the topics that were replicated and that the source does not show, for whatever reason.

    ``copied``: topics with a stored source offset; ``stored``: those that are known as deleted.
    """
    return before.selected.union(before.left, copied, stored).difference(selected, present)


def due_deletions(
    stored: Mapping[str, Deletion], gone: Collection[str], *, before: Selection, now_ms: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the records to write: for topics that are ``gone`` now, and for those that are not any more.

    ``before``: the previous round of this leader.
    """
    for topic in sorted(stored.keys() - set(gone)):
        yield _key(topic), None
    for topic in sorted(set(gone) - stored.keys()):
        was_seen = before.present is not None and topic in before.present
        yield _key(topic), _encode(Deletion(noticed_ms=now_ms, since_ms=now_ms if was_seen else None))


def _key(topic: str) -> bytes:
    return _PREFIX + topic.encode()


def _topic_of(key: bytes | None) -> str:
    try:
        return (key or b"").removeprefix(_PREFIX).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"cannot read the name of a deleted topic: {key!r:.200}") from error


def _encode(deletion: Deletion) -> bytes:
    return json.dumps({"noticed": deletion.noticed_ms, "since": deletion.since_ms}, separators=(",", ":")).encode()


def _decode(value: bytes) -> Deletion:
    match decode_json(value, "a deleted topic"):
        case {"noticed": int(noticed), "since": int(since)}:
            return Deletion(noticed_ms=noticed, since_ms=since)
        case {"noticed": int(noticed), "since": None}:
            return Deletion(noticed_ms=noticed, since_ms=None)
    raise FormatError(f"cannot read a deleted topic: not {{noticed, since}}: {value!r:.200}")
