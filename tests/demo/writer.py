"""Writes the demo's records at a steady rate, in a thread of its own."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from tests.demo.events import Stream
from tests.demo.queried import after_query
from tests.lab.records import Writer

TICK = 0.05  # seconds: short enough for a steady rate, long enough for batches of more than one record
SHORT_LINGER = {"linger.ms": 5}  # typical for producers that need low latency
ENDS_WITHIN = 60.0  # seconds: the last records may wait for a busy broker


class EventWriter:
    """Between `start` and `stop` every stream gets its number of records per second."""

    def __init__(self, bootstrap: str, seed: int, streams: Sequence[Stream]) -> None:
        self._rng = random.Random(seed)
        self._streams = streams
        self._writers = {
            stream.topic: Writer(bootstrap, codec=stream.codec, settings=SHORT_LINGER) for stream in streams
        }
        self._sent = dict.fromkeys(self._writers, 0)
        self._to_drop = dict.fromkeys(self._writers, 0)
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="demo-writer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until everything is acknowledged. Raises the error of the writer, if any."""
        self._ending.set()
        self._thread.join(ENDS_WITHIN)
        if self._thread.is_alive():
            raise TimeoutError(f"the writer did not stop within {ENDS_WITHIN:g} s")
        self.check()

    def check(self) -> None:
        """Raise the error of the writer, if any."""
        if self._failure is not None:
            raise self._failure

    def written(self) -> dict[str, int]:
        """Return the number of acknowledged records by topic."""
        return {topic: writer.acknowledged for topic, writer in self._writers.items()}

    def expected(self) -> dict[str, int]:
        """Return the number of acknowledged records by topic, without those that a query should drop. After `stop`."""
        return {topic: count - self._to_drop[topic] for topic, count in self.written().items()}

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            while not self._ending.wait(TICK):
                elapsed = time.monotonic() - begun
                for stream in self._streams:
                    self._catch_up(stream, elapsed)
            for writer in self._writers.values():
                writer.flush()
        except Exception as problem:  # noqa: BLE001 raised again by `check`
            self._failure = problem

    def _catch_up(self, stream: Stream, elapsed: float) -> None:
        due = int(elapsed * stream.rate)
        for number in range(self._sent[stream.topic], due):
            record = stream.event(self._rng, number)
            if stream.query is not None and after_query(record.value or b"") is None:
                self._to_drop[stream.topic] += 1
            self._writers[stream.topic].send(stream.topic, record)
        self._sent[stream.topic] = due
