"""A writer that goes on through faults, and tells how far it is: progress of the load is the clock of these tests."""

from __future__ import annotations

import itertools
import threading
from types import TracebackType
from typing import Self

from tests.lab.cluster import KafkaCluster
from tests.lab.records import Writer, plain
from tests.lab.waiting import GaveUp, wait_until

TICK = 0.02  # seconds between two bursts
GOES_ON = 60.0  # seconds for the next records: a killed broker is back after ten on busy cores
STOPS = 90.0  # seconds to hand over what waits, through a broker that is just starting


class Load:
    """Writes numbered records to a topic from a thread of its own, while the block runs or until `stop`."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        partitions: int,
        per_second: int = 2_000,
        value_bytes: int = 200,
        codec: str = "lz4",
    ) -> None:
        self.topic = topic
        self._writer = Writer(cluster.bootstrap, codec=codec)
        self._records = plain(10**9, partitions=partitions, value_bytes=value_bytes)
        self._burst = max(1, round(per_second * TICK))
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"load {topic}")

    @property
    def acknowledged(self) -> int:
        return self._writer.acknowledged

    def wait_for_more(self, records: int) -> None:
        """Until that many more are acknowledged. Raises GaveUp, or what ended the writer."""
        goal = self.acknowledged + records

        def reached() -> bool:
            self._check()
            return self.acknowledged >= goal

        wait_until(reached, GOES_ON, f"{records} more records are written to {self.topic}")

    def stop(self) -> int:
        """Write no more; how many are acknowledged in all."""
        self._stopping.set()
        self._thread.join(STOPS)
        if self._thread.is_alive():
            raise GaveUp(f"the load on {self.topic} does not end")
        self._check()
        return self.acknowledged

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(TICK):
                for record in itertools.islice(self._records, self._burst):
                    self._writer.send(self.topic, record)
            self._writer.flush()
        except RuntimeError as problem:  # a delivery failed: told to whoever waits
            self._failure = problem

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
