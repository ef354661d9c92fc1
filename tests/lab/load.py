"""Writers that keep writing in a thread while a test does something else."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from tests.lab.cluster import KafkaCluster
from tests.lab.losses import Ledger
from tests.lab.records import Outgoing, Writer, every_shape, plain
from tests.lab.waiting import GaveUp, wait_until

TICK = 0.02  # seconds between two bursts
MORE = 60.0  # seconds for further records: a killed broker needs ten to come back on busy cores
STOPS = 90.0  # seconds to deliver what is queued, through a broker that is just starting


class BackgroundWriter:
    """Sends one burst of records every ``tick`` seconds from a thread, while the block runs or until `stop`.

    ``codecs`` are the compression types by topic; ``burst`` returns the next records, each with its topic. With
    ``flush_bursts`` no batch contains records of two bursts. ``ledger`` takes down what is acknowledged.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        codecs: Mapping[str, str],
        burst: Callable[[], Iterable[tuple[str, Outgoing]]],
        *,
        tick: float = TICK,
        flush_bursts: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        self.name = ", ".join(codecs)
        self._writers = {
            topic: Writer(cluster.bootstrap, codec=codec, ledger=ledger) for topic, codec in codecs.items()
        }
        self._burst = burst
        self._tick = tick
        self._flush_bursts = flush_bursts
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"load {self.name}")

    @property
    def acknowledged(self) -> int:
        return sum(writer.acknowledged for writer in self._writers.values())

    def wait_for_more(self, records: int) -> None:
        """Wait until that many more are acknowledged. Raises GaveUp, or the exception that ended the writer."""
        goal = self.acknowledged + records

        def reached() -> bool:
            self._check()
            return self.acknowledged >= goal

        wait_until(reached, MORE, f"{records} more records are written to {self.name}")

    def stop(self) -> int:
        """Stop writing and return the number of acknowledged records. Raises the exception that ended the writer."""
        self._stopping.set()
        self._thread.join(STOPS)
        if self._thread.is_alive():
            raise GaveUp(f"not within {STOPS:g} s: the load on {self.name} ends")
        self._check()
        return self.acknowledged

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.stop()
        else:
            self._stopping.set()
            self._thread.join(STOPS)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._tick):
                for topic, record in self._burst():
                    self._writers[topic].send(topic, record)
                if self._flush_bursts:
                    self._flush()
            self._flush()
        except Exception as failure:  # noqa: BLE001 raised again in the thread that waits
            self._failure = failure

    def _flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


class Load(BackgroundWriter):
    """Numbered records into one topic, at a steady rate."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        partitions: int,
        per_second: int = 2_000,
        value_bytes: int = 200,
        codec: str = "lz4",
        ledger: Ledger | None = None,
        first: int = 0,
    ) -> None:
        self.topic = topic
        records = plain(10**9, partitions=partitions, value_bytes=value_bytes, first=first)
        burst = max(1, round(per_second * TICK))
        super().__init__(
            cluster,
            {topic: codec},
            lambda: ((topic, record) for record in itertools.islice(records, burst)),
            ledger=ledger,
        )


def every_shape_load(
    cluster: KafkaCluster, topics: Mapping[str, tuple[int, str]], rng: random.Random
) -> BackgroundWriter:
    """Records of every shape into ``topics`` (partitions and codec by name): 20 of each in 50 ms, so that a few batches
    are always in flight."""

    def burst() -> Iterable[tuple[str, Outgoing]]:
        now_ms = time.time_ns() // 1_000_000
        for topic, (partitions, _) in topics.items():
            for record in every_shape(rng, 20, partitions=partitions, now_ms=now_ms):
                yield topic, record

    return BackgroundWriter(cluster, {topic: codec for topic, (_, codec) in topics.items()}, burst, tick=0.05)


def mixed_batches_load(cluster: KafkaCluster, topic: str, *, partitions: int, codec: str = "lz4") -> BackgroundWriter:
    """Numbered records in bursts of 1, 20 or 2,000, so that batches of very different sizes lie side by side."""
    rng = random.Random(1)
    numbers = itertools.count()

    def burst() -> Iterable[tuple[str, Outgoing]]:
        for number in itertools.islice(numbers, rng.choice([1, 20, 2_000])):
            yield topic, Outgoing(key=b"%d" % number, value=b"v" * 200, partition=number % partitions)

    return BackgroundWriter(cluster, {topic: codec}, burst, tick=0.01, flush_bursts=True)
