"""Requests of a discovery round (tests/bench measures its cost), and errors of topics that it cannot create."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.node.leader.remote_topics import ALL_TOPICS_FROM
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.leader import leading
from tests.lab.loop_blocks import loop_blocks
from tests.lab.settings import one_flow
from tests.lab.waiting import until

MANY = 2 * ALL_TOPICS_FROM
LONGEST_BLOCK = 0.4  # seconds of CPU: eight times the limit of a match
METADATA_WITHIN = 60.0  # seconds until a broker has the metadata of a thousand new topics


@pytest.mark.long  # tests/integration/kafka/test_topic_configs.py counts requests, too
async def test_many_topics_cost_few_requests(start_cluster: StartCluster, requests: list[str]) -> None:
    """Uses separate clusters, since so many topics would slow down other tests."""
    a, b = start_cluster("many-a"), start_cluster("many-b")
    async with connected(a, request_timeout_ms=60_000) as source:
        new = [NewTopic(name=f"orders-{number}", partitions=1, replication_factor=1) for number in range(MANY)]
        await create_topics(source, new)

        async def known() -> bool:
            return len((await source.metadata(None)).topics) == MANY

        condition: Callable[[], bool | Awaitable[bool]] = known
        await until(condition, METADATA_WITHIN, f"the source has metadata of its {MANY} topics")

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
        assert requests == ["MetadataRequest", "MetadataRequest"], (
            "one request to each cluster, none for configurations"
        )


async def test_two_aliases_of_one_cluster_do_not_copy_topics_onto_themselves(start_cluster: StartCluster) -> None:
    """Uses a separate cluster without heartbeats of other tests."""
    one = start_cluster("one")
    for name in ("orders", "heartbeats"):
        one.create_topic(name)
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    async with leading(one_flow(one, one, topics="orders") | identity, at_work=False) as leader:
        for _ in range(2):
            found = {topic.topic: topic for topic in (await leader.discovery.look()).topics}
            assert found.keys() == {"heartbeats", "orders"}, (
                "A.heartbeats is not replicated, as it is a remote topic of this flow"
            )
            assert found["heartbeats"].error is None
            assert "A and B are the same cluster" in (found["orders"].error or "")
        latest = await leader.discovery.wait()
        assert {partition.topic for partition in latest.partitions} == {"heartbeats"}
        assert latest.remote_topics == {"heartbeats": "A.heartbeats"}

    async with leading(
        one_flow(one, one, topics=".*"), at_work=False
    ) as leader:  # here remote topics are recognised by name
        for _ in range(2):
            discovery = await leader.discovery.look()
            assert discovery.remote_topics == {"heartbeats": "A.heartbeats", "orders": "A.orders"}
            assert {topic.error for topic in discovery.topics} == {None}


async def test_copies_of_this_flow_that_come_back_are_not_copied_again(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Another installation calls B remote, and copies what this flow has written there back to A (KAFKA-9914)."""
    stem = unique("circled")
    heartbeats = f"{stem}.A.heartbeats"
    for name in (stem, f"A.{stem}", f"remote.A.{stem}", f"remote.A.{stem}-another", heartbeats):
        cluster_a.create_topic(name)
    if "A.heartbeats" not in cluster_b.admin.list_topics(timeout=10).topics:
        cluster_b.create_topic("A.heartbeats")
    properties = one_flow(cluster_a, cluster_b, topics=f".*{stem}.*") | {"heartbeats.replication.enabled": "false"}
    async with leading(properties, at_work=False) as leader:
        for _ in range(2):  # in the first round, no remote topic exists yet
            found = await leader.discovery.look()
            assert set(found.remote_topics) == {stem, f"A.{stem}", f"remote.A.{stem}-another"}
            assert {topic.error for topic in found.topics} == {None}
        assert set(found.returned) == {f"remote.A.{stem}", heartbeats}
        (reason,) = leader.discovery.warnings
        assert "more topic" not in reason, "heartbeats are no reason to worry"
        assert f"remote.A.{stem} is a copy of A.{stem}" in reason
        assert "A->B.mm2.copy.returned.topics = true" in reason
        assert caplog.text.count(reason) == 1
    async with leading(properties | {"A->B.mm2.copy.returned.topics": "true"}, at_work=False) as leader:
        found = await leader.discovery.look()
        assert found.remote_topics[f"remote.A.{stem}"] == f"A.remote.A.{stem}"
        assert leader.discovery.warnings == []


async def test_a_topic_for_which_a_regular_expression_takes_too_long_has_an_error(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """Whoever may create topics holds up neither the event loop, which renews leases, nor other topics."""
    stem = unique("fine")
    kept = [cluster_a.create_topic(f"{stem}-{number}") for number in range(2)]
    slow = [cluster_a.create_topic(f"{stem}-{'a' * 200}{number}x") for number in range(10)]
    properties = one_flow(cluster_a, cluster_b, topics=rf"{stem}-[0-9]|{stem}-(a|aa)+([0-9]x)?y")
    properties |= {"heartbeats.replication.enabled": "false"}
    async with leading(properties, at_work=False) as leader:
        for _ in range(2):
            with loop_blocks() as blocks:
                found = await leader.discovery.look()
            assert blocks.longest < LONGEST_BLOCK, blocks.callback
            assert set(found.remote_topics) == set(kept)
            errors = {one.topic: one.error for one in found.topics}
            assert errors.keys() == {*kept, *slow}
            assert [errors[topic] for topic in kept] == [None, None]
            assert all(
                f"takes more than 50 ms for the name {topic}, so it is unknown" in (errors[topic] or "")
                for topic in slow
            )


async def test_error_of_a_topic_that_cannot_be_created_names_the_key(
    cluster_3: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """And with that key, it is created."""
    topic = cluster_3.create_topic(
        unique("vintage"), config={"message.downconversion.enable": "false"}
    )  # not in Kafka 4
    properties = one_flow(cluster_3, cluster_b, topics=f"{topic}.*") | {"heartbeats.replication.enabled": "false"}
    long = cluster_3.create_topic(topic + "-" * (249 - len(topic)))

    async def errors(**changes: str) -> dict[str, str | None]:
        changed = {f"A->B.{key.replace('_', '.')}": value for key, value in changes.items()}
        async with leading(properties | changed, at_work=False) as leader:
            return {one.topic: one.error for one in (await leader.discovery.look()).topics}

    found = await errors()
    assert "; add message.downconversion.enable to A->B.config.properties.exclude" in (found[topic] or "")
    assert "INVALID_TOPIC_EXCEPTION" in (found[long] or "")
    assert f"A->B.topics.exclude leaves {long} out" in (found[long] or "")
    excluded = {"config_properties_exclude": "message.downconversion.enable", "topics_exclude": ".*--.*"}
    found = await errors(**excluded, replication_factor="2")
    assert "; set A->B.replication.factor, which is 2, to at most the number of brokers of B" in (found[topic] or "")
    assert await errors(**excluded, replication_factor="-1") == {topic: None}
