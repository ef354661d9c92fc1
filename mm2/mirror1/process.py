"""One run of ``kafka-mirror-maker``."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from mm2.config.plugins.filters import NamePattern
from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings
from mm2.core.mirror1.user_class import UserClassError, new_instance
from mm2.core.naming.names import Flow
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.member_requests import unless
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.mirror1.engine import MirrorEngine
from mm2.mirror1.monitoring import Problems, StreamState, monitoring_app, problems_of
from mm2.mirror1.stream import TIMES, Stream
from mm2.mirror1.stream_leases import dead_letter_topic
from mm2.mirror1.topics import SourceTopics, TargetTopics
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.program.logs import set_up
from mm2.rest.server.allowed_hosts import own_names
from mm2.rest.server.listeners import Listener, ListenerError
from mm2.rest.server.server import close_listeners, open_listeners

log = logging.getLogger("mm2.mirror1")

ENDED, ABORTED, MISTAKE, SECOND_SIGNAL = 0, 1, 2, 130
"""Exit codes: after a signal; after a record that could not be written, or a signal with what could not be completed;
for a user's class that cannot be created; and after a second signal."""

END_WITHIN_S = TIMES.drain_within_s + TIMES.lanes_stop_within_s + TIMES.last_commit_s + 5.0
"""Time for streams to end: what each of them may take, and to leave the group."""

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 60.0
RETRY_S = 1.0


def run(settings: MirrorSettings) -> int:
    """Mirror until a signal, or until a record cannot be written and --abort.on.send.failure is true.

    Returns the exit code.
    """
    set_up()
    return asyncio.run(_Mirror(settings).run())


class _Mirror:
    def __init__(self, settings: MirrorSettings) -> None:
        self._settings = settings
        streams = settings.streams * len(settings.consumers)
        self._engine = MirrorEngine(
            lanes=max(1, min(streams, os.cpu_count() or 1)),
            buffer_bytes=settings.lane_buffer_bytes,
            spark=settings.spark,
            hidden_spark=settings.hidden_spark,
            inherited=settings.inherited,
            name="kafka-mirror-maker",
        )
        self._target = Cluster(settings.target, client_id=f"{settings.target.client_id}-admin")
        self._signalled = asyncio.Event()
        self._ending = asyncio.Event()  # after a signal or a failure: no stream is started any more
        self._streams: list[Stream] = []
        self._background: list[asyncio.Task[None]] = []
        self._problems = Problems()

    async def run(self) -> int:
        self._take_signals()
        settings = self._settings
        try:
            if settings.handler is not None:
                new_instance(settings.handler)  # each lane creates its own: here only to find mistakes
            listener = new_instance(settings.listener) if settings.listener is not None else None
        except UserClassError as error:
            log.error("%s", error)  # noqa: TRY400 - a mistake of the user, without a traceback
            return MISTAKE
        async with AsyncExitStack() as stack:
            try:
                await self._serve(stack)
            except ListenerError as error:
                log.error("%s", error)  # noqa: TRY400 - as above
                return MISTAKE
            await stack.enter_async_context(self._target)
            await stack.enter_async_context(self._engine)
            running = [
                asyncio.create_task(self._mirror(number, consumer, listener), name=consumer.group.group_id)
                for number, consumer in enumerate(settings.consumers)
            ]
            self._background.append(asyncio.create_task(self._log_progress(), name="log lines"))
            code = await self._watch(running)
            self._ending.set()
            await cancel_and_wait(self._background)
            for stream in self._streams:
                stream.stop()
            if not await self._ended(running):
                code = ABORTED
            if all(stream.all_committed for stream in self._streams):
                log.info("stopped: no records are in flight, and all offsets are committed")
            else:
                log.warning("stopped: some offsets could not be committed, so their records will be copied again")
        return code

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Serve /health and /metrics until the stack is closed. Raises ListenerError."""
        listeners = [Listener.parse(url) for url in self._settings.listeners]
        if not listeners:
            return
        names = await own_names(None, [one.host for one in listeners])
        servers = await open_listeners(monitoring_app(self, self._problems, names, time.time()), listeners)
        stack.push_async_callback(close_listeners, servers)
        log.info("serving /health and /metrics at %s", ", ".join(server.url for server in servers))

    def states(self) -> Sequence[StreamState]:
        """Return the streams as they are now."""
        return [
            StreamState(
                name=str(stream.flow.source),
                problem=stream.reports.failure() or stream.reports.stopped_by() or stream.last_error(),
                partitions=tuple(one for _, one in stream.reports.partitions()),
            )
            for stream in self._streams
        ]

    def engine_problem(self) -> str | None:
        """Return why Spark does not run its lanes; None: it runs them."""
        if self._engine.leases.board.kept_lanes_run:
            return None
        return self._engine.last_error or "waiting for Spark and its lanes"

    async def _ended(self, running: Sequence[asyncio.Task[None]]) -> bool:
        """Wait until the streams have ended; return whether they have completed what was in flight."""
        _, late = await asyncio.wait(running, timeout=END_WITHIN_S)
        if late:
            log.error("not stopped within %.0f s: %s", END_WITHIN_S, ", ".join(task.get_name() for task in late))
            await cancel_and_wait(late)
        errors = [error for task in running if not task.cancelled() and (error := task.exception()) is not None]
        for error in errors:
            log.error("unexpected error", exc_info=error)
        return not late and not errors and all(stream.drained for stream in self._streams)

    async def _mirror(self, index: int, consumer: ConsumerSettings, listener: object) -> None:
        """Run the streams of one source. Two sources can have groups of the same name."""
        group = consumer.group
        async with Cluster(consumer.client, client_id=f"{group.group_id}-topics") as source:
            topics = SourceTopics(source, self._matches(), exclude_internal=consumer.exclude_internal_topics)
            await self._until_lanes_run(group.group_id)
            await self._until_done(topics.refresh, "cannot list the topics of the source yet")
            if self._ending.is_set():
                return
            several = len(self._settings.consumers) > 1
            members: list[Stream] = []
            old_offsets = dict(consumer.old_offsets)
            for number in range(self._settings.streams):
                name = f"{group.group_id}-{number}"
                instance = f"{group.instance_id}-{number}" if group.instance_id is not None else None
                members.append(
                    Stream(
                        self._settings,
                        replace(consumer, group=replace(group, instance_id=instance)),
                        flow=Flow(f"{index}-{name}" if several else name, "target"),
                        client_id=name,
                        leases=self._engine.leases,
                        topics=topics,
                        targets=TargetTopics(self._target, self._settings.partitions),
                        old_offsets=old_offsets,
                        listener=listener,
                    )
                )
            self._streams += members
            interval = consumer.client.metadata_max_age_ms / 1000
            background = [
                asyncio.create_task(restart_on_error(work, name), name=name)
                for work, name in (
                    (lambda: self._follow_topics(topics, members, interval), "topics"),
                    (lambda: self._create_dead_letter_topic(group.group_id), "dead-letter topic"),
                )
            ]
            try:
                await _run_together(members)
            finally:
                await cancel_and_wait(background)

    async def _until_lanes_run(self, group_id: str) -> None:
        """Wait for Spark before joining: other members copy the partitions until then."""
        if self._ending.is_set():
            return
        began = asyncio.get_running_loop().time()
        log.info("waiting for Spark and its lanes (%d) before joining group %s", self._engine.leases.capacity, group_id)
        await unless(self._ending, self._engine.until_lanes_run(), name=f"wait for Spark before joining {group_id}")
        if not self._ending.is_set():
            seconds = asyncio.get_running_loop().time() - began
            log.info("Spark and its lanes run after %.1f s: joining group %s", seconds, group_id)

    async def _create_dead_letter_topic(self, group_id: str) -> None:
        """Create the topic, if there is one, beside copying: only partitions with dead letters wait for it."""
        if self._settings.abort_on_send_failure:
            return
        name = dead_letter_topic(group_id)
        topic = NewTopic(name=name, partitions=1, replication_factor=-1)

        async def create() -> None:
            error = (await create_topics(self._target, [topic]))[name]
            if error is not None and error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

        await self._until_done(create, "a record that cannot be written stops its partition until its topic exists")

    def _matches(self) -> Callable[[str], bool]:
        include, exclude = self._settings.include, self._settings.exclude
        if include is not None:
            return NamePattern.of((include,), "--include")
        excluded = NamePattern.of((exclude or "",), "--blacklist")
        return lambda topic: not excluded(topic)

    async def _until_done(self, step: Callable[[], Awaitable[object]], meanwhile: str) -> None:
        """Repeat a request until it succeeds, or the process ends. ``meanwhile``: what is so until then."""
        said = ""

        async def repeat() -> None:
            nonlocal said
            while True:
                try:
                    await step()
                except ClusterError as error:
                    if str(error) != said:
                        log.warning("%s: %s", meanwhile, error)
                    said = str(error)
                    await asyncio.sleep(RETRY_S if error.retriable else TIMES.refused_topic_s)
                else:
                    return

        await unless(self._ending, repeat(), name=meanwhile)

    async def _follow_topics(self, topics: SourceTopics, members: Sequence[Stream], interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                changed = await topics.refresh()
            except ClusterError as error:
                log.info("cannot list the topics of the source: %s", error)
                continue
            if changed:
                for stream in members:
                    stream.member.resubscribe()

    async def _watch(self, running: Sequence[asyncio.Task[None]]) -> int:
        """Wait for a signal, for a record that cannot be written, or for a source task that has failed."""
        while not self._signalled.is_set():
            if any(task.done() for task in running):
                return ABORTED  # with an error, which the caller logs
            if (failed := _first(stream.reports.failure() for stream in self._streams)) is not None:
                log.error("%s; stopping", failed)
                return ABORTED
            if self._settings.abort_on_send_failure:
                stopped = _first(stream.reports.stopped_by() for stream in self._streams)
                if stopped is not None:
                    log.error("%s; stopping, because --abort.on.send.failure is true", stopped)
                    return ABORTED
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._signalled.wait()
            except TimeoutError:
                continue
        return ENDED

    # -- signals and log lines

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup, as in Java
                loop.add_signal_handler(number, self._signal, number)

    def _signal(self, number: int) -> None:
        if not self._signalled.is_set():
            log.info("%s received: completing the records in flight", signal.Signals(number).name)
            self._signalled.set()
            return
        self._engine.kill()
        os._exit(SECOND_SIGNAL)

    async def _log_progress(self) -> None:
        """Log what each stream does, once a minute, and when it changes why it does not copy."""
        said: dict[Stream, str | None] = {}
        next_line = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._problems.observe(problems_of(self), now=loop.time(), time=time.time())
            for stream in self._streams:
                last_error = stream.last_error() or self._engine.last_error
                if last_error != said.get(stream):
                    said[stream] = last_error
                    if last_error is not None:
                        log.warning("%s: %s", stream.flow, last_error)
            if loop.time() >= next_line:
                next_line = loop.time() + LINE_EVERY_S
                for stream in self._streams:
                    log.info("%s: %s", stream.flow, _line(stream))
                for one in self._engine.leases.board.buffers():
                    log.info("lane %d: %d of %d bytes wait for the target", one.lane, one.used, one.limit)
            await asyncio.sleep(RETRY_S)


async def _run_together(streams: Sequence[Stream]) -> None:
    """Run streams until they end. If one fails, the others complete what is in flight; then its error is raised."""
    running = [asyncio.create_task(stream.run(), name=str(stream.flow)) for stream in streams]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        for stream in streams:
            stream.stop()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    finally:
        await cancel_and_wait(running)
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors[1:]:
        log.error("unexpected error", exc_info=error)
    if errors:
        raise errors[0]


def _first(found: Iterable[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)


def _line(stream: Stream) -> str:
    progress = dict(stream.reports.partitions())
    records = sum(one.counters.records for one in progress.values())
    dropped = sum(one.counters.dead_letters for one in progress.values())
    left_out = f", {dropped} dead letters" if dropped else ""
    return f"{len(progress)} partitions, {records} records copied, {to_copy(progress.values())} to copy{left_out}"


def to_copy(partitions: Collection[PartitionProgress]) -> str:
    """Return how many records are left to copy, as text: a lower bound if that is unknown of some partitions."""
    known = [lag for one in partitions if (lag := one.lag_records) is not None]
    records = sum(known)
    if len(known) == len(partitions):
        return str(records)
    return f"at least {records}" if records else "an unknown number"
