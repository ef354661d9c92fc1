"""Writes the demo's records at a steady rate, in a thread of its own."""

from __future__ import annotations

import random
import threading
import time

from tests.demo.events import STREAMS, Stream
from tests.lab.records import Writer

TICK = 0.05  # seconds: short enough for a steady rate, long enough for batches of more than one record
SHORT_LINGER = {"linger.ms": 5}  # typical for producers that need low latency
ENDS_WITHIN = 60.0  # seconds: the last records may wait for a busy broker


class EventWriter:
    """Between `start` and `stop` every stream gets its number of records per second."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._writers = {
            stream.topic: Writer(bootstrap, codec=stream.codec, settings=SHORT_LINGER) for stream in STREAMS
        }
        self._sent = dict.fromkeys(self._writers, 0)
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

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            while not self._ending.wait(TICK):
                elapsed = time.monotonic() - begun
                for stream in STREAMS:
                    self._catch_up(stream, elapsed)
            for writer in self._writers.values():
                writer.flush()
        except Exception as problem:  # noqa: BLE001 raised again by `check`
            self._failure = problem

    def _catch_up(self, stream: Stream, elapsed: float) -> None:
        due = int(elapsed * stream.rate)
        for number in range(self._sent[stream.topic], due):
            self._writers[stream.topic].send(stream.topic, stream.event(self._rng, number))
        self._sent[stream.topic] = due
