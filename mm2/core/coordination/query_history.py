"""From which source offset which query applied to a source partition, and how the entries of several owners merge."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.row_query import RowQuery, RowTransform

ENTRIES_KEPT = 100
"""Entries kept for each partition, the last ones: a record of the history then has at most about 10 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryText:
    """The ``text`` of a query as it can be stored and shown, or ``module:function`` of a transform.

    ``sha256`` is the digest of the text in hexadecimal. Of a transform it does not change with the function's code.
    """

    text: str
    sha256: str

    @classmethod
    def of(cls, action: RowQuery | RowTransform) -> QueryText:
        """Return the text of what is done with each record."""
        if isinstance(action, RowQuery):
            return cls(text=action.text, sha256=action.sha256)
        return cls(text=str(action), sha256=sha256(str(action).encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """From source offset ``offset`` on, the query with the digest ``sha256`` applied; None: records were copied as they
    are. ``at_ms``: epoch milliseconds at which the lease was granted."""

    offset: int
    sha256: str | None
    at_ms: int

    @property
    def age(self) -> tuple[int, int, str]:
        """Orders entries by time; entries of the same time in any fixed order."""
        return self.at_ms, self.offset, self.sha256 or ""


@dataclass(frozen=True, slots=True)
class QueryUse:
    """One entry for a partition, as its owner reports it. ``topic_id`` is that of the source topic, if it is known."""

    partition: TopicPartition
    entry: QueryEntry
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """The ``entries`` of one partition. An empty history says that all records were copied as they are.

    Invariants:
    (A) Offsets and times increase. What is copied again from an earlier offset, under a later lease, replaces what was
        said about that offset and all later ones.
    (B) `merged` gives the same result in whichever order entries arrive and however often. So an entry that is sent
        again, to the next leader or by a former owner that was stopped in between, never replaces a later one.
    (C) A recreated topic begins again, and entries of the deleted topic are ignored from then on, if topic IDs are
        known.
    """

    entries: tuple[QueryEntry, ...] = ()
    topic_id: UUID | None = None

    @property
    def last_at_ms(self) -> int:
        """Time of the last entry; -1 if there is none."""
        return self.entries[-1].at_ms if self.entries else -1

    def says(self, use: QueryUse) -> bool:
        """Return whether the query of ``use`` applied from its offset on, and no other one since."""
        offset, query = use.entry.offset, use.entry.sha256
        before = next((one.sha256 for one in reversed(self.entries) if one.offset <= offset), None)
        later = (one.sha256 for one in self.entries if one.offset > offset)
        return self._is_of(use.topic_id) and before == query and all(one == query for one in later)

    def merged(self, use: QueryUse) -> QueryHistory:
        """Return this history with one more entry, or the same object if the entry is known or superseded."""
        new = use.entry
        if not self._is_of(use.topic_id):
            return QueryHistory((new,), use.topic_id) if new.at_ms > self.last_at_ms else self
        earlier = tuple(one for one in self.entries if one.age < new.age and one.offset < new.offset)
        later = tuple(one for one in self.entries if one.age > new.age)
        if later and later[0].offset <= new.offset:
            return self
        merged = QueryHistory((*earlier, new, *later)[-ENTRIES_KEPT:], self.topic_id or use.topic_id)
        return self if merged == self else merged

    def is_known_from(self, offset: int) -> bool:
        """Return whether it is known which query applied to all records from ``offset`` on.

        Of a partition under a query, an empty history is not known yet. The first entries of a long one are not kept.
        """
        return bool(self.entries) and (len(self.entries) < ENTRIES_KEPT or self.entries[0].offset <= offset)

    def _is_of(self, topic_id: UUID | None) -> bool:
        """Return False if this is known to be the history of another topic of the same name."""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


NO_HISTORY = QueryHistory()
