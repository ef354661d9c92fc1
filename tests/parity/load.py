"""Records that keep coming while one MirrorMaker hands over to the other."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.lab.cluster import KafkaCluster
from tests.lab.records import Writer, every_shape

CHUNK = 20  # records a topic and round: a few batches are always on their way when a signal comes
PAUSE = 0.05  # seconds between rounds


class Load:
    """Writes records of every shape into ``topics`` (partitions and codec by name) in a thread, until it is left."""

    def __init__(self, cluster: KafkaCluster, topics: Mapping[str, tuple[int, str]], rng: random.Random) -> None:
        self._cluster = cluster
        self._topics = topics
        self._rng = rng
        self._enough = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything written is acknowledged, or RuntimeError says what is not."""
        self._enough.set()
        self._thread.join()
        if self._failure is not None and problem is None:
            raise self._failure

    def _run(self) -> None:
        try:
            writers = {
                topic: Writer(self._cluster.bootstrap, codec=codec) for topic, (_, codec) in self._topics.items()
            }
            while not self._enough.wait(PAUSE):
                for topic, (partitions, _) in self._topics.items():
                    now_ms = time.time_ns() // 1_000_000
                    for record in every_shape(self._rng, CHUNK, partitions=partitions, now_ms=now_ms):
                        writers[topic].send(topic, record)
            for writer in writers.values():
                writer.flush()
        except BaseException as failure:  # noqa: BLE001 it is raised again where the load ends
            self._failure = failure
