"""Stores the histories of queries in ``mm2-configs.*``, from what the owners of source tasks report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from mm2.core.coordination.query_history_records import Record
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.naming.names import Flow
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

WRITTEN_AT_ONCE = 512 * 1024
"""About as many bytes are written in one transaction: other records of the leader must not wait long. The histories of
1,000 partitions to which a query applies for the first time have less than half of it."""


class QueryHistoryWriter:
    """Adds every reported use of a query to the history of its partition.

    (A) Only the leader writes, fenced like all its records, after it has read what earlier leaders wrote: an entry that
        a history contains is never overwritten by one that the leader has not seen.
    (B) A use remains reported until the history that contains it was read back. A leader that is replaced in between
        therefore loses nothing: its successor merges the same report again, which is idempotent (`QueryHistory`).
    (C) Copying does not wait for this, and an error does not end the leader's term: it is shown and retried.
    """

    def __init__(
        self,
        flow: Flow,
        configs: ConfigStore,
        reported: ReportedQueryUses,
        put: Callable[[Sequence[Record]], Awaitable[None]],
    ) -> None:
        """``put`` writes records atomically to the config topic; it raises ClusterErrors."""
        self._flow = flow
        self._configs = configs
        self._reported = reported
        self._put = put
        self._due = asyncio.Event()
        self._due.set()  # what was reported before this term
        self.error = CurrentError(log, flow)

    def take_reported(self) -> None:
        """A use was reported."""
        self._due.set()

    async def run(self) -> None:
        """Write what is due until cancelled. Raises Fenced if another node is the leader."""
        while True:
            await self._due.wait()
            self._due.clear()
            await keep_trying(self._attempt, self.error, "record which queries apply", expected=(_Failed,))

    async def _attempt(self) -> None:
        try:
            await self.write_due()
        except Fenced:
            raise
        except ClusterError as error:
            raise _Failed(str(error)) from error

    async def write_due(self) -> None:
        """Write what the histories lack. Raises ClusterError."""
        histories = self._configs.query_histories
        self._reported.keep(histories.lacks)
        for some in _parts(list(histories.due(self._reported.uses, self._reported.queries))):
            await self._put(some)
            await self._configs.catch_up()
        self._reported.keep(histories.lacks)


def _parts(due: Iterable[Sequence[Record]]) -> Iterator[list[Record]]:
    """Yield the records in parts of at least `WRITTEN_AT_ONCE`, except for the last; each of ``due`` is in one part."""
    part: list[Record] = []
    size = 0
    for records in due:
        part += records
        size += sum(len(key) + len(value) for key, value in records)
        if size >= WRITTEN_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


class _Failed(Exception):
    """The histories could not be written, for a reason that does not end the leader's term."""
