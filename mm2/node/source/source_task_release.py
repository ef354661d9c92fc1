"""The release of a node's source tasks: they drain, and an orderly release is stored for the next owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.source_task_leases import SourceTaskLeases
from mm2.node.source.source_task_reporter import SourceTaskReporter
from mm2.node.source.source_task_run import SourceTaskRun

log = logging.getLogger(__name__)

STORE_RELEASES_S = 2.0
"""How long a node that ends waits until releases are stored; otherwise the next owners fence this node's producers."""


class SourceTaskReleaser:
    """Drains source tasks and releases them.

    (A) A source task is released when the offsets of all acknowledged records are stored; after
        task.shutdown.graceful.timeout.ms, when its lane has stopped it.
    (B) The release of a producer is stored only if nothing can be written with it any more.
    """

    def __init__(self, context: TaskContext, leases: SourceTaskLeases, reporter: SourceTaskReporter) -> None:
        self._context = context
        self._flow = context.settings.flow
        self._lease_service = context.lease_service
        self._leases = leases
        self._reporter = reporter

    def drain(self, run: SourceTaskRun) -> None:
        """Have its lane drain the source task, which is revoked."""
        run.reassigned = False
        if not run.draining:
            run.draining_since = asyncio.get_running_loop().time()
            if run.assigned is not None:
                self._leases.renew(run)

    def release_if_drained(self, run: SourceTaskRun, now: float) -> bool:
        """Release a revoked source task that has drained or has exceeded the timeout; return whether it is released."""
        if run.draining_since is None:
            return False
        key, lane = (self._flow, run.source_task), self._leases.lane_state(run.source_task)
        board = self._lease_service.board
        drained = run.assigned is None or (lane is not None and lane.source_task.drained)
        never_started = lane is None and board.idle(key)
        timeout_s = self._context.settings.worker.task_shutdown_graceful_timeout_ms / 1000
        timed_out = now - run.draining_since > timeout_s
        if drained or never_started or (timed_out and not board.lane_has(key) and not board.runs(key)):
            if timed_out or self._is_stored(run, orderly=drained or not run.used):
                self._leases.forget(run.source_task)
                self._reporter.forget(run.source_task)
                return True
        elif timed_out and board.lane_has(key):
            run.abandoned = True
            log.warning(
                "%s: source task %d did not drain within %.0f s; stopping it, so some of its records will be copied"
                " again",
                self._flow,
                run.source_task,
                timeout_s,
            )
            self._lease_service.remove(key)
        return False

    # -- orderly releases

    def store(self, runs: Iterable[SourceTaskRun]) -> None:
        """Store the orderly release of source tasks that have drained because the node drains."""
        for run in runs:
            lane = self._leases.lane_state(run.source_task)
            drained = lane is not None and lane.source_task.drained
            self._is_stored(run, orderly=drained or not run.used)

    def _is_stored(self, run: SourceTaskRun, *, orderly: bool) -> bool:
        """Store an orderly release, so that the next owner need not fence this one; return whether that is done."""
        producer = self._leases.producer(run.source_task)
        if producer is None or run.abandoned or not orderly:
            return True
        if run.release is None:
            run.release = self._reporter.release(run.source_task, producer)
            if run.release is None:
                return True
            run.release.add_done_callback(lambda _: self._lease_service.wake())
        return run.release.done()

    async def wait(self, runs: Iterable[SourceTaskRun]) -> None:
        """Wait until orderly releases are stored, at most `STORE_RELEASES_S`."""
        releases = [run.release for run in runs if run.release is not None]
        if releases:
            await asyncio.wait(releases, timeout=STORE_RELEASES_S)
