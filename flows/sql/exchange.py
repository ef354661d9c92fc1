"""The lane runner's side of a query: frames go out to the feeder, rows come back through Spark."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from flows.batch.decoded import MAX_RECORD
from flows.batch.target_batch import WrittenBatch
from flows.sql.feeder_link import GATHERED_S, FeederLink, QueuedFrame
from flows.sql.frames import NO_LIMIT, lead
from flows.sql.rows import NO_FRAME, offset_of_error
from flows.sql.written import PART_BYTES, FailedRow, FrameRows, RowColumns
from mm2.core.lanes.query_trials import NO_TRIAL, FrameSpan, QueryTrial

LATE_S = 20.0
"""After a question about a record that was not answered, or awaited no longer, Spark can still be evaluating the
record, and end by it. While it is not known which record ends Spark, nothing else is evaluated for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTimes:
    """Limits of what a lane waits for, in seconds."""

    feeder_within_s: float = 60.0
    """Time for the feeder's process to start."""
    stuck_after_s: float = 15.0
    """If a query returns nothing for this long although frames are in it, a process of it is suspended or has failed:
    as long as a lease is valid. A query that works returns padding at least, also within a frame
    (`flows.sql.rows`)."""
    close_within_s: float = 1.0
    """Time for the query to end after its connection was closed; then its feeder is killed."""
    gathered_s: float = GATHERED_S
    """Frames that are sent within this time after others were written are written together."""
    room_check_s: float = 0.02
    """How often it is asked whether a partition takes more of a frame: a part takes longer to be read and written."""
    late_s: float = LATE_S
    """How long a turn lasts after its task was cancelled in it."""


_TIMES = QueryTimes()


class QueryFailed(Exception):
    """The query, or the worker that feeds it, has ended or does not answer."""


class QueryInput(NamedTuple):
    """What Spark gives to the worker that runs the lane.

    ``rows`` come out of the query. The feeder connects to ``path``, a Unix socket, and sends ``token``.
    """

    rows: Iterator[pa.RecordBatch]
    path: str
    token: str


class RowsOfFrame(NamedTuple):
    """The result for a frame. ``batch`` None: the query has dropped all records, or those before the ``failed`` one.

    ``is_part``: more of the frame follows. ``undecodable``: why the feeder could not decode a batch of the frame; there
    is no other result then.
    """

    batch: WrittenBatch | None = None
    failed: FailedRow | None = None
    undecodable: str | None = None
    is_part: bool = False


class _Waiting(NamedTuple):
    place: str
    codec: int
    level: int | None
    is_wanted: Callable[[], bool]
    takes_more: Callable[[], bool]
    done: Callable[[RowsOfFrame], None]


class RowExchange:
    """Sends frames and reports their results in order; frames are numbered here.

    The rows are read in a thread, since Spark's iterator blocks.

    (A) A frame whose rows take more than ``part_bytes`` is reported in parts. While its partition does not take more,
        nothing is read, so that Spark and the feeder wait, too.
    (B) While ``trial`` orders it, each frame is announced to the node, and is alone in the query.
    (C) Every turn is given back to the node, also if the task that took it is cancelled. Tasks of the exchange do that,
        which end with it.

    ``announce`` waits until the node knows a frame and lets it pass; None: nothing is in the query any more.
    """

    def __init__(
        self,
        query: QueryInput,
        announce: Callable[[FrameSpan | None], Coroutine[Any, Any, None]],
        *,
        times: QueryTimes = _TIMES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._query = query
        self._announce = announce
        self.trial: QueryTrial = NO_TRIAL
        self._alone: tuple[int, asyncio.Event] | None = None
        self._turn = asyncio.Lock()
        self._times = times
        self._part_bytes = part_bytes
        self._waits_for_room = False
        self._waits_for_turn = False
        self._turn_tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        self._link = FeederLink(query.path, query.token, self._left_out, self, gathered_s=times.gathered_s)
        self._next = 0
        self._waiting: dict[int, _Waiting] = {}
        self._rows_at = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def feeder_pid(self) -> int | None:
        """The process of the feeder; None: it is not connected, or the system does not tell."""
        return self._link.feeder_pid

    async def open(self) -> None:
        """Listen for the feeder and start to read rows."""
        await self._link.open()
        threading.Thread(target=self._read, name="rows", daemon=True).start()

    async def close(self) -> None:
        """End the query: the feeder ends when its connection is closed, and is killed if it does not."""
        self._closed.set()
        self._link.close()
        for task in self._turn_tasks:
            task.cancel()
        await asyncio.gather(*self._turn_tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(self._times.close_within_s):
                await asyncio.shield(self._ended)
        except TimeoutError:
            self._link.kill_feeder()
        except QueryFailed:
            pass

    async def run(self) -> None:
        """Watch the query until cancelled. Raises QueryFailed when it has ended, or does not answer."""
        began, times = time.monotonic(), self._times
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.shield(self._ended)
                    raise QueryFailed("the query has ended")
            now, connected_at = time.monotonic(), self._link.connected_at
            if connected_at is None:
                if now - began > times.feeder_within_s:
                    raise QueryFailed(
                        f"the worker that feeds the query has not started in {times.feeder_within_s:.0f} s"
                    )
            elif (
                self._waiting
                and not (self._waits_for_room or self._waits_for_turn)
                and now - max(self._rows_at, connected_at) > times.stuck_after_s
            ):
                oldest = next(iter(self._waiting.values())).place
                raise QueryFailed(f"the query has returned nothing for {times.stuck_after_s:.0f} s; it is at {oldest}")

    def send(
        self,
        topic: str,
        partition: int,
        batches: Sequence[memoryview],
        *,
        wanted: int,
        until: int = NO_LIMIT,
        topic_id: str | None = None,
        codec: int,
        level: int | None,
        max_record: int = MAX_RECORD,
        is_wanted: Callable[[], bool],
        takes_more: Callable[[], bool],
        done: Callable[[RowsOfFrame], None],
    ) -> None:
        """Pass the records of batches from source offset ``wanted`` up to, not including, ``until`` through the query.

        ``topic_id``: of the source topic, if it is known. ``max_record``: bytes of memory that one record may take.
        ``done`` is called with the result, whose batch is compressed by ``codec``, or with parts of it and then the
        last one; not if the frame ``is_wanted`` no more when it is its turn. After a part, the next one is awaited
        until its partition ``takes_more``.
        """
        if not self._waiting:
            self._rows_at = time.monotonic()
        number, self._next = self._next, self._next + 1
        self._waiting[number] = _Waiting(
            f"{topic}-{partition} offset {wanted}", codec, level, is_wanted, takes_more, done
        )
        size = sum(map(len, batches))
        pieces: list[bytes | memoryview] = [
            lead(number, wanted, topic, partition, size, max_record=max_record, until=until),
            *batches,
        ]
        span = FrameSpan(topic=topic, partition=partition, first=wanted, until=until, topic_id=topic_id)
        self._link.send(QueuedFrame(number, pieces, is_wanted, span))

    # -- FrameTurns

    @property
    def is_ordered(self) -> bool:
        return self.trial.announced

    @contextlib.asynccontextmanager
    async def turn(self, span: FrameSpan) -> AsyncIterator[None]:
        """While `is_ordered`, announce what is about to be evaluated, alone. A span without records is not announced.

        Not only frames take turns: so does the evaluation of a failed record for Spark's message. If that is cancelled,
        the turn lasts `QueryTimes.late_s` longer.
        """
        if not self.is_ordered or span.first == span.until:
            yield
            return
        if not span.is_asked:
            self._waits_for_turn = True  # no frame is in the query: they are written one after the other
        await self._turn.acquire()
        announced = self._start(self._announce(span))
        late_s = 0.0
        try:
            await asyncio.shield(announced)
            if not span.is_asked:
                self._waits_for_turn, self._rows_at = False, time.monotonic()
            late_s = self._times.late_s
            yield
            late_s = 0.0
        finally:
            given_back = self._start(self._give_back(announced, late_s))
        await asyncio.shield(given_back)

    async def _give_back(self, announced: asyncio.Task[None], late_s: float) -> None:
        """End a turn ``late_s`` seconds after the node has allowed it, unless the lane ends: then no other follows."""
        if self._closed.is_set():
            return
        try:
            await asyncio.wait({announced})
            await asyncio.sleep(late_s)
            await self._announce(None)
        finally:
            if not self._closed.is_set():
                self._turn.release()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do this in a task of the exchange, which continues when the one that waits for it is cancelled."""
        task = asyncio.create_task(work, name="turn")
        self._turn_tasks.add(task)
        task.add_done_callback(self._turn_tasks.discard)
        return task

    async def returned(self, number: int) -> None:
        if number in self._waiting:
            event = asyncio.Event()
            self._alone = number, event
            await event.wait()

    def _left_out(self, number: int) -> None:
        del self._waiting[number]

    # -- in the thread

    def _read(self) -> None:
        rows = FrameRows()
        try:
            for batch in self._query.rows:
                self._rows_at = time.monotonic()
                columns = RowColumns(batch)
                first = 0
                for filler in columns.fillers:
                    rows.add(columns, first, filler.at)
                    first = filler.at + 1
                    if filler.frame != NO_FRAME:
                        self._finish(filler.frame, rows, filler.error)
                        rows = FrameRows()
                if first < len(columns.offsets):
                    rows.add(columns, first, len(columns.offsets))
                    if rows.taken >= self._part_bytes:
                        self._report_part(columns.frame_of(first), rows)
        except Exception as error:  # noqa: BLE001 whatever it is, the query has ended
            self._call(self._end, QueryFailed(f"{type(error).__name__}: {error}"))
        else:
            self._call(self._end, None)

    def _finish(self, number: int, rows: FrameRows, error: str | None) -> None:
        waiting = self._waiting[number]
        offset, message = (None, None) if error is None else offset_of_error(error)
        if error is not None and offset is None:
            result = RowsOfFrame(undecodable=message)
        else:
            if rows.failed is None and offset is not None:
                rows.failed = FailedRow(offset, message, too_large=True)
            result = RowsOfFrame(rows.batch(waiting.codec, waiting.level), rows.failed)
        self._call(self._done, number, result)

    def _report_part(self, number: int, rows: FrameRows) -> None:
        """Report the rows so far, and wait until the partition takes more."""
        waiting = self._waiting[number]
        part = RowsOfFrame(rows.batch(waiting.codec, waiting.level), is_part=True)
        rows.clear()
        work = self._part_done(waiting, part)
        try:
            reported = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise
        rows.is_wanted = reported.result()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- in the loop

    async def _part_done(self, waiting: _Waiting, part: RowsOfFrame) -> bool:
        """Report a part, and wait until the partition takes more. Return whether it wants more of the frame."""
        self._waits_for_room = True
        try:
            waiting.done(part)
            while waiting.is_wanted() and not waiting.takes_more() and not self._closed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._times.room_check_s):
                        await self._closed.wait()
            return waiting.is_wanted()
        finally:
            self._waits_for_room, self._rows_at = False, time.monotonic()

    def _done(self, number: int, result: RowsOfFrame) -> None:
        self._waiting.pop(number).done(result)
        if self._alone is not None and self._alone[0] == number:
            self._alone[1].set()
            self._alone = None

    def _end(self, error: QueryFailed | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
            self._ended.exception()  # is raised by `run`, if that still runs
