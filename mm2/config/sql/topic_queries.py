"""Selects the query of a flow that applies to a topic."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.plugins.filters import NamePattern
from mm2.core.settings.row_query import RowQuery, RowTransform


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuery:
    """The keys of one name: what is done with each record of the ``topics``.

    ``hides_values``: contents of records that cannot be copied are not shown.
    """

    name: str
    topics: NamePattern
    action: RowQuery | RowTransform
    hides_values: bool = False

    def __str__(self) -> str:
        """Return what is done, for messages."""
        does = str(self.action) if isinstance(self.action, RowQuery) else f"calls {self.action}"
        return f"{self.name} {does}"


@dataclass(frozen=True, slots=True)
class TopicQueries:
    """The queries of a flow, in the order of the file."""

    in_order: tuple[TopicQuery, ...] = ()

    def of_topic(self, topic: str) -> TopicQuery | None:
        """Return the query for a topic of the source: the first that matches its name; None: it is copied as it is."""
        return next((query for query in self.in_order if query.topics(topic)), None)


NO_QUERIES = TopicQueries()
