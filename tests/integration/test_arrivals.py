"""Tests of how the lab measures pauses, on which the limits of fault tests and the table of the fault matrix depend."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.load import Load
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import wait_until

PARTITIONS, PER_SECOND = 6, 300
PAUSED = 3.0  # seconds: longer than `DEVIATION`
STOPPED = 12.0  # seconds: several times what a new leader takes, so that a measurement that waits for the broker shows
DEVIATION = 2.0  # seconds: the client that measures has to find the new leaders too, on busy cores
DELIVERED = 60.0  # seconds for records in all partitions


def test_a_pause_of_one_partition_is_measured(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic = cluster_a.create_topic(unique("paused"), 2)
    with Arrivals(cluster_a, topic, partitions=2) as arrivals:
        write(cluster_a.bootstrap, topic, plain(2, partitions=2))
        arrivals.wait_for_all(0.0, DELIVERED)
        began = time.monotonic()

        def paused() -> bool:
            write(cluster_a.bootstrap, topic, [Outgoing(value=b"", partition=1)])
            return time.monotonic() > began + PAUSED

        wait_until(paused, 2 * PAUSED + DELIVERED, "only the other partition grows for a while")
        resumed = time.monotonic()
        write(cluster_a.bootstrap, topic, plain(2, partitions=2))
        arrivals.wait_for_all(resumed, DELIVERED)
        gaps = arrivals.gaps(began, time.monotonic())
    assert PAUSED <= gaps[0] < resumed - began + DEVIATION
    assert gaps[1] < gaps[0]


@pytest.mark.long  # twelve seconds without a broker; the test above measures a pause without a fault
def test_pauses_while_a_broker_is_down_agree_with_append_times(start_cluster: StartCluster) -> None:
    """The pause of a partition ends when its new leader accepts records, not when its former leader is back."""
    cluster = start_cluster(brokers=3, properties={"log.message.timestamp.type": "LogAppendTime"})
    topic = cluster.create_topic("orders", PARTITIONS, copies=2)
    with (
        Arrivals(cluster, topic, partitions=PARTITIONS) as arrivals,
        Load(cluster, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        arrivals.wait_for_all(time.monotonic(), DELIVERED)
        victim = cluster.leader(topic)
        began = time.monotonic()
        offset = time.time() - began
        victim.kill()
        wait_until(lambda: time.monotonic() > began + STOPPED, 2 * STOPPED, "the broker was down for a while")
        ended = time.monotonic()
        victim.restart()
        arrivals.wait_for_all(time.monotonic(), DELIVERED)
        load.stop()
        wait_until(
            lambda: sum(arrivals.ends().values()) >= load.acknowledged, DELIVERED, "all acknowledged records arrive"
        )
    pauses = {
        number: longest_pause([record.content[3] / 1000 - offset for record in records], began, ended)
        for number, records in read_topic(cluster.bootstrap, topic).items()
    }
    measured = arrivals.gaps(began, ended)
    print(f"pauses by append time {pauses}, measured {measured}")
    assert max(pauses.values()) < STOPPED - DEVIATION, "leaders have moved while the broker was down"
    assert measured.keys() == pauses.keys()
    assert all(abs(measured[number] - pause) < DEVIATION for number, pause in pauses.items())


def longest_pause(moments: list[float], since: float, until: float) -> float:
    """Return the longest time between two of the sorted ``moments``, or from the last one to ``until``; seconds."""
    last = max(moment for moment in moments if moment <= since)
    inside = [moment for moment in moments if since < moment < until]
    return round(max(later - earlier for earlier, later in pairwise([last, *inside, until])), 1)
