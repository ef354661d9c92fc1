"""Sizes of socket buffers of a node and of its lanes: granted by the kernel, and logged once for each client."""

from __future__ import annotations

import re
from collections import Counter

from tests.integration.shared_node import SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

RECEIVE, SEND = 61_000, 62_000  # bytes
LINE = re.compile(r"INFO +\S+ (?:INFO mm2\.sockets )?cluster (?P<alias>\S+): client (?P<client>\S+): (?P<report>.*)")


def test_node_and_lanes_log_what_they_were_granted(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    flow = f"{a}->{b}"
    topic = cluster_a.create_topic(f"{a}-orders")
    write(cluster_a.bootstrap, topic, plain(100))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "mm2.lanes": "1",
        f"{a}.consumer.receive.buffer.bytes": str(RECEIVE),
        f"{b}.producer.send.buffer.bytes": str(SEND),
        f"{flow}.producer.override.send.buffer.bytes": str(SEND),
    }
    with Node(properties, name="buffers") as node:
        node.wait_running()

        def logged() -> Counter[tuple[str, str, str]]:
            text = (node.directory / "node.log").read_text()
            return Counter((one["alias"], one["client"], one["report"]) for one in LINE.finditer(text))

        consumer = a, f"{flow}|MirrorSourceConnector-0|replication-consumer"
        producer = b, "connector-producer-MirrorSourceConnector-0"
        received = f"receive.buffer.bytes: asked for {RECEIVE}, the kernel granted {2 * RECEIVE}"
        sent = f"send.buffer.bytes: asked for {SEND}, the kernel granted {2 * SEND}"
        wait_until(
            lambda: {(*consumer, received), (*producer, sent)} <= logged().keys(), SEEN, "source and target are logged"
        )
        for (_, client, report), count in logged().items():
            processes = 2 if client == producer[1] else 1  # the node fences the producer of its lane
            assert count <= processes, (client, report)
        assert {report for _, _, report in logged()} == {received, sent}
