"""Divides ``mm2.max.bytes.per.second`` between the source tasks of a flow, and publishes their shares."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.lanes.fetch_shares import IDLE, KEY, FetchUse, differs, divide, encode_shares
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

DIVIDE_EVERY_S = 10.0
"""How often the limit is divided by use: source tasks report theirs every five seconds."""

LOOK_EVERY_S = 1.0
"""How soon the limit is divided again after source tasks, their partitions or their owners have changed."""


class FetchShareWriter:
    """Divides the limit of one leader's term (`mm2.core.lanes.fetch_shares.divide`).

    (A) The shares go through the config topic, so that they also reach nodes that cannot reach the leader. A node
        without a leader, or without a connection to the target, keeps the last ones.
    (B) An error does not end the leader's term: it is shown and retried, and the last shares apply meanwhile.
    """

    def __init__(
        self,
        settings: FlowSettings,
        configs: ConfigStore,
        *,
        reports: Mapping[int, SourceTaskReport],
        owners: Callable[[], Mapping[int, str]],
        put: Callable[[Sequence[tuple[bytes, bytes | None]]], Awaitable[None]],
    ) -> None:
        """``reports``: the newest of each source task. ``owners`` returns the members that own source tasks. ``put``
        writes records to the config topic; it raises ClusterErrors."""
        self._limit = settings.own.max_bytes_per_second
        self._configs = configs
        self._reports = reports
        self._owners = owners
        self._put = put
        self._divided: tuple[Mapping[int, int], Mapping[int, str]] | None = None  # partitions, owners
        self._divided_at = float("-inf")
        self.error = CurrentError(log, settings.flow)

    async def run(self) -> None:
        """Divide whenever it is due until cancelled. Raises Fenced if another node is the leader."""
        while True:
            await keep_trying(self._attempt, self.error, "divide mm2.max.bytes.per.second", expected=(_Failed,))
            await asyncio.sleep(LOOK_EVERY_S)

    async def _attempt(self) -> None:
        try:
            await self.write_due(time.monotonic())
        except Fenced:
            raise
        except ClusterError as error:
            raise _Failed(str(error)) from error

    async def write_due(self, now: float) -> None:
        """Publish other shares if they are due at ``now`` monotonic seconds. Raises ClusterError."""
        published = self._configs.fetch_shares
        if self._limit is None:
            if published is not None:
                await self._put([(KEY, None)])
                await self._configs.catch_up()
            return
        basis = self._configs.partition_counts, self._owners()
        if basis == self._divided and now - self._divided_at < DIVIDE_EVERY_S:
            return
        shares = divide(self._limit, basis[0], self._uses(*basis))
        if differs(published, shares):
            await self._put([(KEY, encode_shares(shares))])
            await self._configs.catch_up()
        self._divided, self._divided_at = basis, now

    def _uses(self, partitions: Mapping[int, int], owners: Mapping[int, str]) -> Mapping[int, FetchUse]:
        """Return the known uses. One that a former owner has reported tells nothing about the present one."""
        uses = {}
        for source_task in partitions:
            owner, report = owners.get(source_task), self._reports.get(source_task)
            if owner is None:
                uses[source_task] = IDLE
            elif report is not None and report.use is not None and report.member == owner:
                uses[source_task] = report.use
        return uses


class _Failed(Exception):
    """The shares could not be published, for a reason that does not end the leader's term."""
