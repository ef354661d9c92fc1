"""Is a topic still the one that was copied so far? Told by its id (KIP-516), which no other topic ever has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

from flows.bookkeeping import Bookkeeping
from flows.copy import PartitionCopy
from mm2.core.made_anew import remote_made_anew, source_made_anew
from mm2.core.names import Flow
from mm2.kafka.cluster import Cluster

log = logging.getLogger("mm2.identity")

MadeAnew = Callable[[PartitionCopy, UUID], None]


class Identities:
    """Compares what the clusters' metadata says with what each copy began with.

    (A) An id that was left is never gone back to: a broker that lags behind still names it.
    (B) An id that is not known, because a broker is older than 2.8, is equal to any.
    """

    def __init__(self, flow: Flow, source: Cluster, target: Cluster, books: Bookkeeping, made_anew: MadeAnew) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._books = books
        self._made_anew = made_anew
        self._gone: set[UUID] = set()
        self.warnings: list[str] = []

    def is_gone(self, topic_id: UUID | None) -> bool:
        """Whether a topic of this id was there and is not any more."""
        return topic_id in self._gone

    def same_source(self, copy: PartitionCopy) -> bool:
        """Whether the source topic is the same as ever, by what was last heard. If not, the copy is over."""
        now = _id_of(self._source, copy.source.topic)
        before = copy.topic_ids.source
        if now is None or now == before or now in self._gone:
            return True
        if before is None:
            copy.topic_ids = copy.topic_ids._replace(source=now)
            self._books.identified(copy)
            return True
        self._left(before, source_made_anew(copy.source.topic, self._flow.source))
        self._made_anew(copy, now)
        return False

    def check(self, copies: Iterable[PartitionCopy]) -> None:
        """Look at both sides of these, by what was last heard."""
        for copy in copies:
            if self.same_source(copy):
                self._check_remote(copy)

    def _check_remote(self, copy: PartitionCopy) -> None:
        now = _id_of(self._target, copy.target.topic)
        before = copy.topic_ids.remote
        if now is None or now == before or now in self._gone:
            return
        copy.topic_ids = copy.topic_ids._replace(remote=now)
        if before is not None:
            self._left(before, remote_made_anew(copy.target.topic, self._flow.target))
            log.info(
                "%s is made anew: records of %s before offset %d are not in it",
                copy.target,
                copy.source,
                copy.headway.position,
            )
        self._books.identified(copy)

    def _left(self, topic_id: UUID, sentence: str) -> None:
        """Say so once for all partitions of the topic, each time it is made anew."""
        if topic_id in self._gone:
            return
        self._gone.add(topic_id)
        log.warning("%s: %s", self._flow, sentence)
        if sentence not in self.warnings:
            self.warnings.append(sentence)


def _id_of(cluster: Cluster, topic: str) -> UUID | None:
    info = cluster.cached_topic(topic)
    return None if info is None else info.topic_id
