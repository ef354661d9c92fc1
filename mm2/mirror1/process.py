"""One run of ``kafka-mirror-maker``."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from mm2.config.regex.java_regex import compile_java
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings
from mm2.core.mirror1.user_class import new_instance
from mm2.core.naming.names import Flow
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.mirror1.engine import MirrorEngine
from mm2.mirror1.stream import Stream, dead_letter_topic
from mm2.mirror1.topics import SourceTopics, TargetTopics
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.program.logs import set_up

log = logging.getLogger("mm2.mirror1")

ENDED, ABORTED, SECOND_SIGNAL = 0, 1, 130
"""Exit codes: after a signal, after a record that could not be written, and after a second signal."""

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 60.0
RETRY_S = 1.0


def run(settings: MirrorSettings) -> int:
    """Mirror until a signal, or until a record cannot be written and --abort.on.send.failure is true.

    Returns the exit code.
    """
    set_up(secrets=_secrets(settings))
    return asyncio.run(_Mirror(settings).run())


def _secrets(settings: MirrorSettings) -> set[str]:
    """Return all passwords and private keys of the files, which no log line may contain."""
    found: set[str | None] = set()
    for client in (settings.target, *(consumer.client for consumer in settings.consumers)):
        found |= {client.tls.key_password, client.tls.key_pem}
        found.update(client.sasl.secrets if client.sasl is not None else ())
    return {secret for secret in found if secret}


class _Mirror:
    def __init__(self, settings: MirrorSettings) -> None:
        self._settings = settings
        streams = settings.streams * len(settings.consumers)
        self._engine = MirrorEngine(
            lanes=max(1, min(streams, os.cpu_count() or 1)),
            buffer_bytes=settings.lane_buffer_bytes,
            spark=settings.spark,
            name="kafka-mirror-maker",
        )
        self._target = Cluster(settings.target, client_id=f"{settings.target.client_id}-admin")
        self._signalled = asyncio.Event()
        self._streams: list[Stream] = []
        self._topics: list[SourceTopics] = []
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        self._take_signals()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._target)
            await stack.enter_async_context(self._engine)
            listener = new_instance(self._settings.listener) if self._settings.listener is not None else None
            for consumer in self._settings.consumers:
                await self._add(consumer, stack, listener)
            running = [asyncio.create_task(stream.run(), name=str(stream.flow)) for stream in self._streams]
            self._background.append(asyncio.create_task(self._speak(), name="log lines"))
            code = await self._watch(running)
            await cancel_and_wait(self._background)
            for stream in self._streams:
                stream.stop()
            await asyncio.gather(*running)
            if code == ENDED:
                log.info("stopped: no records are in flight, and all offsets are committed")
        return code

    async def _add(self, consumer: ConsumerSettings, stack: AsyncExitStack, listener: object) -> None:
        source = await stack.enter_async_context(
            Cluster(consumer.client, client_id=f"{consumer.group.group_id}-topics")
        )
        topics = SourceTopics(source, self._matches(), exclude_internal=consumer.exclude_internal_topics)
        self._topics.append(topics)
        if not self._settings.abort_on_send_failure:
            name = dead_letter_topic(consumer.group.group_id)
            await self._until_done(
                lambda: create_topics(self._target, [NewTopic(name=name, partitions=1, replication_factor=-1)]),
                f"create {name}",
            )
        await self._until_done(topics.refresh, "list the topics of the source")
        members: list[Stream] = []
        for number in range(self._settings.streams):
            name = f"{consumer.group.group_id}-{number}"
            members.append(
                Stream(
                    self._settings,
                    consumer,
                    flow=Flow(name, "target"),
                    client_id=name,
                    leases=self._engine.leases,
                    topics=topics,
                    targets=TargetTopics(self._target, self._settings.partitions),
                    listener=listener,
                )
            )
        self._streams += members
        interval = consumer.client.metadata_max_age_ms / 1000
        watch = restart_on_error(lambda: self._follow_topics(topics, members, interval), "topics")
        self._background.append(asyncio.create_task(watch, name="topics"))

    def _matches(self) -> Callable[[str], bool]:
        include, exclude = self._settings.include, self._settings.exclude
        pattern = compile_java(include if include is not None else exclude or "")
        return lambda topic: (pattern.fullmatch(topic) is not None) is (include is not None)

    async def _until_done(self, step: Callable[[], Awaitable[object]], what: str) -> None:
        """Repeat a request until the cluster answers, or a signal."""
        said = ""
        while True:
            try:
                await step()
            except ClusterError as error:
                if self._signalled.is_set():
                    return
                if str(error) != said:
                    log.warning("cannot %s yet: %s", what, error)
                said = str(error)
                await asyncio.sleep(RETRY_S)
            else:
                return

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
        """Wait for a signal, or for a record that cannot be written."""
        while not self._signalled.is_set():
            for task in running:
                if task.done():
                    task.result()
            if self._settings.abort_on_send_failure:
                stopped = next(filter(None, (stream.stopped_by() for stream in self._streams)), None)
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
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)

    def _signal(self, number: int) -> None:
        if not self._signalled.is_set():
            log.info("%s received: completing the records in flight", signal.Signals(number).name)
            self._signalled.set()
            return
        self._engine.kill()
        os._exit(SECOND_SIGNAL)

    async def _speak(self) -> None:
        """Log what each stream does, once a minute, and when it changes why it does not copy."""
        said: dict[Stream, str | None] = {}
        next_line = 0.0
        loop = asyncio.get_running_loop()
        while True:
            for stream in self._streams:
                trouble = stream.trouble() or self._engine.trouble
                if trouble != said.get(stream):
                    said[stream] = trouble
                    if trouble is not None:
                        log.warning("%s: %s", stream.flow, trouble)
            if loop.time() >= next_line:
                next_line = loop.time() + LINE_EVERY_S
                for stream in self._streams:
                    log.info("%s: %s", stream.flow, _line(stream))
            await asyncio.sleep(RETRY_S)


def _line(stream: Stream) -> str:
    progress = stream.progress()
    records = sum(one.records_total for one in progress.values())
    lags = [one.end_offset - one.position for one in progress.values() if one.position >= 0 and one.end_offset >= 0]
    dropped = sum(one.dead_letters_total for one in progress.values())
    left_out = f", {dropped} dead letters" if dropped else ""
    return f"{len(progress)} partitions, {records} records copied, {sum(lags)} to copy{left_out}"
