"""Times at which records arrived in a remote topic by partition, to measure pauses."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tests.lab.background_thread import BackgroundThread
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import wait_until

LOOKS_EVERY = 0.1  # seconds: a tenth of the smallest pause that matters
AT_ONCE = 10_000  # records taken from the client in one call: more than arrive between two looks

# A pause must not include the time that this client needs to find a new leader or a broker that has restarted.
# ListOffsets requests are no alternative: while the leader that the admin client remembers is down, each takes its
# whole timeout, and its result for the partition is the offset -1001 without an error.
SETTINGS: dict[str, str | int | bool] = {
    "group.id": "lab-arrivals",  # the client wants one; nothing is committed
    "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": 200,  # 5 minutes by default
    "reconnect.backoff.max.ms": 250,  # 10 s by default
    "fetch.error.backoff.ms": 100,
    "socket.timeout.ms": 10_000,  # the minimum; a broker that hangs must not keep the metadata from others
    "fetch.wait.max.ms": round(LOOKS_EVERY * 1000),  # together with the next line: ten small responses a second
    "fetch.min.bytes": 1_000_000,
    "log_level": 0,
}


class Arrivals(BackgroundThread):
    """Reads ``topic`` in a thread while the block runs, and records when records of each partition arrived.

    Times are those of `time.monotonic`. Records that the topic has already arrive with the first response.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, *, partitions: int) -> None:
        self.topic = topic
        self._bootstrap = cluster.bootstrap
        self._numbers = range(partitions)
        self._grew: defaultdict[int, list[float]] = defaultdict(list)
        self._ends: dict[int, int] = {}
        super().__init__(f"arrivals {topic}")

    def gap(self, since: float, until: float | None = None) -> float:
        """Return the longest pause of any partition that ended after ``since`` and started before ``until`` (default:
        now), in seconds."""
        end = time.monotonic() if until is None else until
        return max((self._gap_of(number, since, end) for number in self._numbers), default=0.0)

    def gaps(self, since: float, until: float) -> dict[int, float]:
        """Return the same for each partition."""
        return {number: round(self._gap_of(number, since, until), 1) for number in self._numbers}

    def ends(self) -> dict[int, int]:
        """The newest end offset of each partition."""
        return {number: self._ends.get(number, 0) for number in self._numbers}

    def wait_for_all(self, since: float, timeout: float) -> float:
        """Wait until every partition has grown after ``since``; return the seconds this took. Raises GaveUp."""

        def firsts() -> list[float]:
            found = [self._first_after(number, since) for number in self._numbers]
            return [one for one in found if one is not None]

        sentence = f"records arrive in all partitions of {self.topic}"
        wait_until(lambda: len(firsts()) == len(self._numbers), timeout, sentence)
        return max(firsts()) - since

    def _gap_of(self, partition: int, since: float, until: float) -> float:
        grew = list(self._grew[partition])
        before = [moment for moment in grew if moment <= since][-1:] or [since]
        moments = [*before, *(moment for moment in grew if since < moment < until), until]
        return max(later - earlier for earlier, later in pairwise(moments))

    def _first_after(self, partition: int, since: float) -> float | None:
        return next((moment for moment in list(self._grew[partition]) if moment > since), None)

    def _run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, **SETTINGS})
        try:
            consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in self._numbers])
            while not self._stopping.is_set():
                self._add(consumer.consume(AT_ONCE, timeout=LOOKS_EVERY))
        finally:
            consumer.close()

    def _add(self, messages: Sequence[Message]) -> None:
        now = time.monotonic()
        ends: dict[int, int] = {}
        for message in messages:
            number, offset = message.partition(), message.offset()
            if message.error() is None and number is not None and offset is not None:
                ends[number] = offset + 1
            # an error: no such partition yet, or its broker is down: a pause like any other
        for number, end in ends.items():
            self._grew[number].append(now)
            self._ends[number] = end
