"""What a partition counts and what ails it, for the reports to the node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flows.batch.outgoing import Outgoing, SourceBatch


@dataclass(slots=True)
class Tally:
    """Totals since the lane took the partition. Ages and latencies are seconds, one observation a batch: from its
    largest timestamp to its arrival here, and to the target's acknowledgement."""

    records: int = 0
    stored_bytes: int = 0
    latency_sum: float = 0.0
    latency_count: int = 0
    age_sum: float = 0.0
    age_count: int = 0

    def arrived(self, batches: Iterable[SourceBatch]) -> None:
        """Batches came from the source."""
        for batch in batches:
            timestamp = batch.header.max_timestamp
            if timestamp >= 0:
                self.age_sum += max(0.0, batch.arrived - timestamp / 1000)
                self.age_count += 1

    def copied(self, batch: Outgoing, wall: float) -> None:
        """The target has a batch, at ``wall`` epoch seconds."""
        self.records += batch.count
        self.stored_bytes += batch.source_bytes
        if batch.max_timestamp >= 0:
            self.latency_sum += max(0.0, wall - batch.max_timestamp / 1000)
            self.latency_count += 1


class Trouble:
    """Why a partition does not get on, at the source or at the target. A failure stays until what failed has worked, so
    that it does not flicker while it is tried again; passing trouble is only a sentence, until it lasts: then the
    partition ``waits`` for its source, or for its target."""

    __slots__ = ("_failed_at", "_fetch_failed", "_source_words", "_target_waits", "_target_words", "waits_for_source")

    def __init__(self) -> None:
        self._source_words: str | None = None
        self._target_words: str | None = None
        self._fetch_failed = False
        self._failed_at: int | None = None
        self._target_waits = False
        self.waits_for_source = False

    @property
    def waits(self) -> bool:
        return self.waits_for_source or self._target_waits

    @property
    def failed(self) -> bool:
        return self._fetch_failed or self._failed_at is not None

    @property
    def words(self) -> str | None:
        """The sentence to show: of what failed rather than of what passes."""
        if self._fetch_failed:
            return self._source_words
        return self._target_words if self._failed_at is not None else self._target_words or self._source_words

    def source_passing(self, words: str, *, waits: bool = False) -> None:
        """A fetch did not work this time; ``waits``: nor for so long that it is more than a hiccup."""
        if not self._fetch_failed:
            self._source_words = words
            self.waits_for_source = self.waits_for_source or waits

    def target_passing(self, words: str, *, waits: bool = False) -> None:
        """The target did not take something this time; ``waits``: nor for so long that it is more than a hiccup."""
        if self._failed_at is None:
            self._target_words = words
            self._target_waits = self._target_waits or waits

    def cannot_fetch(self, words: str) -> None:
        """Failed until a fetch works."""
        self._fetch_failed, self._source_words, self.waits_for_source = True, words, False

    def cannot_copy(self, offset: int, words: str) -> None:
        """Failed until the record at source offset ``offset`` is copied."""
        self._failed_at, self._target_words, self._target_waits = offset, words, False

    def fetched(self) -> None:
        """A fetch worked."""
        self._fetch_failed, self._source_words, self.waits_for_source = False, None, False

    def copied_to(self, position: int) -> None:
        """The target took what lies before ``position``."""
        if self._failed_at is not None and position <= self._failed_at:
            return
        self._failed_at, self._target_words, self._target_waits = None, None, False
