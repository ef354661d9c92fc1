"""Times at which records arrived in a remote topic by partition, to measure pauses."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import wait_until

LOOKS_EVERY = 0.1  # seconds: a tenth of the smallest pause that matters
ANSWERS = 5.0  # seconds for one request


class Arrivals:
    """Reads the end offsets of ``topic`` in a thread while the block runs, and records when each grew. Times are those
    of `time.monotonic`."""

    def __init__(self, cluster: KafkaCluster, topic: str, *, partitions: int) -> None:
        self.topic = topic
        self._bootstrap = cluster.bootstrap
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._grew: defaultdict[int, list[float]] = defaultdict(list)
        self._ends: dict[int, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"arrivals {topic}")

    def gap(self, since: float, until: float | None = None) -> float:
        """Return the longest pause of any partition that ended after ``since`` and started before ``until`` (default:
        now), in seconds."""
        end = time.monotonic() if until is None else until
        return max((self._gap_of(place.partition, since, end) for place in self._places), default=0.0)

    def gaps(self, since: float, until: float) -> dict[int, float]:
        """Return the same for each partition."""
        return {place.partition: round(self._gap_of(place.partition, since, until), 1) for place in self._places}

    def ends(self) -> dict[int, int]:
        """The newest end offset of each partition."""
        return {place.partition: self._ends.get(place.partition, 0) for place in self._places}

    def wait_for_all(self, since: float, timeout: float) -> float:
        """Wait until every partition has grown after ``since``; return the seconds this took. Raises GaveUp."""

        def firsts() -> list[float]:
            found = [self._first_after(place.partition, since) for place in self._places]
            return [one for one in found if one is not None]

        sentence = f"records arrive in all partitions of {self.topic}"
        wait_until(lambda: len(firsts()) == len(self._places), timeout, sentence)
        return max(firsts()) - since

    def _gap_of(self, partition: int, since: float, until: float) -> float:
        grew = list(self._grew[partition])
        before = [moment for moment in grew if moment <= since][-1:] or [since]
        moments = [*before, *(moment for moment in grew if since < moment < until), until]
        return max(later - earlier for earlier, later in pairwise(moments))

    def _first_after(self, partition: int, since: float) -> float | None:
        return next((moment for moment in list(self._grew[partition]) if moment > since), None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        admin: AdminClient | None = None
        while not self._stopping.wait(LOOKS_EVERY):
            if admin is None:  # a client that has nothing queued is false
                admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
            asked = admin.list_offsets({one: OffsetSpec.latest() for one in self._places}, request_timeout=ANSWERS)
            for place, answer in asked.items():
                try:
                    end = answer.result().offset
                except KafkaException:  # no such partition yet, or its broker is down: a pause like any other
                    admin = None  # the client would remember for minutes that there is none
                    continue
                if end > self._ends.get(place.partition, 0):
                    self._grew[place.partition].append(time.monotonic())
                self._ends[place.partition] = end
