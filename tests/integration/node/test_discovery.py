"""What a round of discovery asks for (what it costs is in tests/bench), and what it says of topics it cannot make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from mm2.kafka.topics import NewTopic, create_topics
from mm2.node.remote_topics import ALL_TOPICS_FROM
from tests.integration.kafka.clients import connected
from tests.lab.fixtures import StartCluster
from tests.lab.leader import leading
from tests.lab.settings import one_flow
from tests.lab.waiting import until

MANY = 2 * ALL_TOPICS_FROM
THERE = 60.0  # seconds for a broker to know a thousand topics just created


async def test_many_topics_cost_few_requests(start_cluster: StartCluster, requests: list[str]) -> None:
    """On clusters of its own, which others would find slow with so many topics."""
    a, b = start_cluster("many-a"), start_cluster("many-b")
    async with connected(a, request_timeout_ms=60_000) as source:
        new = [NewTopic(name=f"orders-{number}", partitions=1, replication_factor=1) for number in range(MANY)]
        await create_topics(source, new)

        async def known() -> bool:
            return len((await source.metadata(None)).topics) == MANY

        condition: Callable[[], bool | Awaitable[bool]] = known
        await until(condition, THERE, f"the source knows its {MANY} topics")

    async with leading(one_flow(a, b, topics=".*"), at_work=False) as leader:
        requests.clear()
        discovery = await leader.discovery.look()
        assert {topic.error for topic in discovery.topics} == {None}
        assert len(discovery.partitions) == MANY
        made = Counter(requests)
        assert made["CreateTopicsRequest"] <= MANY / 100
        assert made["DescribeTopicConfigs"] <= MANY / 500

        requests.clear()
        again = await leader.discovery.look()
        assert again == discovery
        assert requests == ["MetadataRequest", "MetadataRequest"], "one to each cluster, none about configurations"
