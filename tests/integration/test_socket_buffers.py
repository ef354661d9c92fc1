"""Sizes of socket buffers of a node and of its lanes: granted by the kernel, and logged once for each client."""

from __future__ import annotations

import re
from collections import Counter

from tests.integration.shared_node import RECEIVE_BUFFER, SEEN, SEND_BUFFER, SharedNode
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

LINE = re.compile(r"INFO +\S+ (?:INFO mm2\.sockets )?cluster (?P<alias>\S+): client (?P<client>\S+): (?P<report>.*)")


def test_node_and_lanes_log_what_they_were_granted(shared: SharedNode) -> None:
    flow = shared.unusual
    topic = flow.create("buffered")
    flow.wait_state(topic, "RUNNING")  # only records written from now on are copied
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_copied(topic)

    def logged() -> Counter[tuple[str, str, str]]:
        text = flow.node.process.output()
        return Counter((one["alias"], one["client"], one["report"]) for one in LINE.finditer(text))

    def of_source_tasks() -> set[tuple[str, str]]:
        return {(alias, report) for alias, client, report in logged() if "MirrorSourceConnector-" in client}

    received = f"receive.buffer.bytes: asked for {RECEIVE_BUFFER}, the kernel granted {2 * RECEIVE_BUFFER}"
    sent = f"send.buffer.bytes: asked for {SEND_BUFFER}, the kernel granted {2 * SEND_BUFFER}"
    wait_until(
        lambda: of_source_tasks() == {(flow.source_alias, received), (flow.target_alias, sent)},
        SEEN,
        "source and target are logged",
    )
    for (_, client, report), count in logged().items():
        # the node fences the producers of its lanes
        assert count <= (2 if client.startswith("connector-producer-MirrorSourceConnector-") else 1), (client, report)
    assert {report for _, _, report in logged()} == {received, sent}
