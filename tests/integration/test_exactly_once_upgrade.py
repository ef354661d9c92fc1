"""The upgrade of two running nodes to exactly-once and back, node by node (KIP-618)."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

PARTITIONS = 4
SOON = 90.0  # seconds, on a busy machine

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_upgrade_and_downgrade_node_by_node(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    fencing = b"tasks-fencing-MirrorSourceConnector"
    topic = cluster_a.create_topic(unique_name(f"{a}-t"), PARTITIONS)
    common = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "tasks.max": "4",
        "mm2.lanes": "1",
        "emit.heartbeats.enabled": "false",
        f"{a}.consumer.isolation.level": "read_committed",
    }
    with ExitStack() as ends:
        nodes = [Node(common | {"mm2.node.id": f"n{number}"}, name=f"n{number}") for number in (1, 2)]
        for node in nodes:
            ends.push(node)
            node.start()
        for node in nodes:
            node.wait_running()

        def copied() -> None:
            write(cluster_a.bootstrap, topic, plain(200, partitions=PARTITIONS))
            verdict = wait_until_copied((cluster_a.bootstrap, topic), (cluster_b.bootstrap, f"{a}.{topic}"), SOON)
            assert verdict.exact, str(verdict)

        def recorded() -> list[bytes | None]:
            records = read_topic(cluster_b.bootstrap, f"mm2-configs.{a}.internal").values()
            return [one.content[1] for partition in records for one in partition if one.content[0] == fencing]

        def applied(node: Node) -> int:
            return node.process.output().count("new configuration applied")

        copied()
        assert recorded() == []
        for support in ("preparing", "enabled", "preparing", ""):
            for node in nodes:
                own, before = common | {"mm2.node.id": node.name}, applied(node)
                node.rewrite(own | ({f"{b}.exactly.once.source.support": support} if support else {}))
                wait_until(lambda: applied(node) > before, SOON, f"{node.name} applies {support or 'the first file'}")  # noqa: B023
                node.wait_running()
                copied()
            if support:
                assert recorded()[-1] == b'{"task-count":4}'
        for node in nodes:
            assert "writing without" not in node.process.output()
            assert node.process.output().count("exactly-once: records and source offsets are committed together") == 1
