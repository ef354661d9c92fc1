"""Fencing of lost owners of source tasks by the leader, and the record of the transactional IDs in use (KIP-618)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import TransactionCoordinator
from mm2.kafka.retrying import retried
from mm2.node.common.fencing_errors import FencingFailedError, permanent_fix
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Transactional IDs fenced at the same time."""

FENCING_MS = 30_000
"""Limit for one transactional ID; then the term fails and is started again."""

_FIRST_PAUSE_MS = 20  # as in Java: the time a coordinator needs to write the markers of a transaction
_TRANSACTION_TIMEOUT_MS = 1  # as in Java (Admin.fenceProducers): nothing is written with the producer


class TaskFencer:
    """Does for one term what Java's leader does before it starts source tasks, if its writes are transactional.

    (A) When `fence` returns, no source task of Java, and none without an owner among our nodes, writes any more.
    (B) `due` covers every source task with a list, so that a leader of Java that takes over later fences its owner.
    """

    def __init__(self, settings: FlowSettings, target: Cluster, configs: ConfigStore) -> None:
        self._settings = settings
        self._target = target
        self._configs = configs
        self._retries = replace(target.settings, retry_backoff_ms=_FIRST_PAUSE_MS)
        self._in_use: set[int] = set()  # source tasks whose transactional IDs may be in use, whatever the lists are

    async def fence(self, owners: Mapping[int, str], reports: Iterable[SourceTaskReport]) -> None:
        """Fence the lost owners of source tasks, at the start of a term, when the config topic was read.

        ``owners`` are the members that own source tasks. A source task whose owner has reported its list is never
        fenced. Raises groups of FencingFailedErrors.
        """
        fencing = self._configs.fencing
        confirmed = {one.source_task for one in reports if owners.get(one.source_task) == one.member}
        lost = fencing.to_fence(owners, confirmed, self._configs.source_tasks.records)
        if lost:
            log.info("%s: fencing %d source tasks without an owner", self._settings.flow, len(lost))
        limit = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for source_task in lost:
                tasks.create_task(self._fence(source_task, limit), name=f"{self._settings.flow} fence {source_task}")
        self._in_use = set(owners)

    async def _fence(self, source_task: int, limit: asyncio.Semaphore) -> None:
        transactional_id = f"{self._settings.worker.group_id}-{TaskId(TaskKind.SOURCE, source_task)}"
        coordinator = TransactionCoordinator(
            self._target, transactional_id, timeout_ms=_TRANSACTION_TIMEOUT_MS, purpose="fencing"
        )
        async with limit:
            try:
                await retried(coordinator.init, self._retries, timeout_ms=FENCING_MS)
            except ClusterError as error:
                fix = permanent_fix(error, transactional_id)
                what = f"cannot fence the lost owner of source task {source_task}: {error}"
                raise FencingFailedError(f"{what}; {fix}" if fix else what) from error

    def due(self, lists: Iterable[SourceTaskRecord]) -> list[tuple[bytes, bytes]]:
        """Return the records to write with ``lists``, the newest of each source task; none if they are stored."""
        self._in_use.update(record.source_task for record in lists if record.partitions)
        return self._configs.fencing.records(self._in_use)
