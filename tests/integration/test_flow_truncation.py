"""A source log that is truncated while a node is stopped, and while it runs (KIP-320)."""

from __future__ import annotations

import pytest

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import Content, read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.truncated_log import truncate_log
from tests.lab.waiting import wait_until

BATCH = 100  # records; a log is cut between batches


def contents(cluster: KafkaCluster, topic: str) -> list[Content]:
    return [record.content for record in read_topic(cluster.bootstrap, topic)[0]]


def truncate(source: KafkaCluster, topic: str, end: int, *, append: range) -> list[Content]:
    """Truncate the log at ``end``, append other records, and return all from ``end`` on."""
    truncate_log(source.broker(1), topic, end)
    source.broker(1).start()
    source.broker(1).wait_ready()
    write(source.bootstrap, topic, plain(len(append), first=append.start), records_per_batch=BATCH)
    return contents(source, topic)[end:]


@pytest.mark.long  # tests/integration/flows/test_truncation.py has the same with lanes alone
def test_truncated_log(start_cluster: StartCluster, cluster_b: KafkaCluster) -> None:
    source = start_cluster("truncated")
    a, b = unique_name("A"), unique_name("B")
    topic = source.create_topic(f"{a}-orders")
    remote = f"{a}.{topic}"
    properties = one_flow(source, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {"mm2.lanes": "1"}
    write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
    expected = contents(source, topic)

    def wait_copied(node: Node) -> None:
        wait_until(lambda: len(contents(cluster_b, remote)) >= len(expected), COPIED, f"{remote} has all records")
        wait_until(
            lambda: [one["lag_records"] for one in node.topic(f"{a}->{b}", topic)["partitions"]] == [0],
            SEEN,
            "nothing is left to copy",
        )
        assert contents(cluster_b, remote) == expected

    def losses(node: Node) -> list[tuple[int, int, str]]:
        return [(loss["first"], loss["until"], loss["kind"]) for loss in node.flow(f"{a}->{b}")["losses"]]

    with Node(properties, name="truncation") as node:
        node.wait_running()
        wait_copied(node)
        assert node.stop() == 0
        expected += truncate(source, topic, 900, append=range(5_000, 5_350))
        node.start().wait_running()
        wait_copied(node)
        wait_until(lambda: losses(node) == [(900, 1_000, "truncated")], SEEN, "/flows shows the loss")
        expected += truncate(source, topic, 1_200, append=range(9_000, 9_020))
        wait_copied(node)
        both = [(900, 1_000, "truncated"), (1_200, 1_250, "truncated")]
        wait_until(lambda: losses(node) == both, SEEN, "/flows shows both losses")
        since = len(node.process.output())
        node.rewrite(properties | {f"{a}->{b}.producer.override.acks": "1"})
        wait_until(lambda: "new configuration applied" in node.process.output()[since:], SEEN, "the flow restarts")
        assert f"{a}->{b} restarting" in node.process.output()[since:]
        write(source.bootstrap, topic, plain(10, first=10_000))
        expected += contents(source, topic)[-10:]
        wait_copied(node)
        assert set(losses(node)) <= set(both), "a loss is not found again at the stored offsets"
