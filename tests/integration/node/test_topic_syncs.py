"""Syncs of topic configurations and ACLs to targets with problems."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from mm2.core.topics.topic_configs import DeleteConfig, SetConfig
from mm2.kafka.admin.cluster_admin import ClusterAdmin, Refusals
from mm2.kafka.errors import NotSupported, Unreachable
from mm2.kafka.retrying import API_TIMEOUT_MS
from tests.integration.node import user_filters
from tests.lab.cluster import KafkaCluster
from tests.lab.leader import Leader, leading
from tests.lab.listeners import AUTHORIZER
from tests.lab.settings import one_flow
from tests.lab.topic_configs import alter, configs
from tests.lab.waiting import until

SOON = 20.0  # seconds for a few rounds, one a second


def settings(a: KafkaCluster, b: KafkaCluster, topics: str) -> dict[str, str]:
    return one_flow(a, b, topics=topics) | {
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
    }


async def warned(leader: Leader, *words: str) -> str:
    """Wait until a warning contains all ``words``, and return it."""

    def found() -> str:
        return next((one for one in leader.syncs.warnings if all(word in one for word in words)), "")

    return await until(found, SOON, f"the flow warns of {' … '.join(words)}")


async def test_config_unknown_to_the_target(
    cluster_3: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """Kafka 4 removed a config. It is skipped with one warning for all topics; other configs are synced."""
    old, stem = cluster_3, unique("vintage")
    for topic in (f"{stem}-0", f"{stem}-1"):
        old.create_topic(topic, config={"message.downconversion.enable": "false", "retention.ms": "123456"})
        cluster_b.create_topic(f"A.{topic}")
    async with leading(settings(old, cluster_b, f"{stem}-.*")) as leader:
        warning = await warned(leader, "do not support message.downconversion.enable", f"A.{stem}-0 and 1 more topic")
        assert leader.syncs.warnings == [warning]
        for topic in (f"{stem}-0", f"{stem}-1"):
            await _retention_synced(cluster_b, topic)


async def _retention_synced(cluster: KafkaCluster, topic: str) -> None:
    """Wait until the remote topic has the source's value: a broker shows a change after it has acknowledged it."""
    await until(lambda: _retention(cluster, topic) == ("123456", True), SOON, f"the config of {topic} is synced")


def _retention(cluster: KafkaCluster, topic: str) -> tuple[str, bool]:
    return configs(cluster, f"A.{topic}")["retention.ms"]


class FailingAdmin(ClusterAdmin):
    """Fails while the test sets a failure."""

    failure: BaseException | None = None

    async def alter_topic_configs(
        self, changes: Mapping[str, Sequence[SetConfig | DeleteConfig]], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> Refusals:
        if FailingAdmin.failure is not None:
            raise FailingAdmin.failure
        return await super().alter_topic_configs(changes, timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (NotSupported("its brokers are older than 2.3"), "A->B.sync.topic.configs.enabled = false to disable"),
        (Unreachable("nothing listens there"), "sync topic configurations: nothing listens there"),
        (ZeroDivisionError("by a class of the user's own"), "unexpected error (see the log): ZeroDivisionError"),
    ],
)
async def test_failure_is_a_warning_until_resolved(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    words: str,
) -> None:
    topic = cluster_a.create_topic(unique("failing"))
    monkeypatch.setattr(FailingAdmin, "failure", failure)
    async with leading(settings(cluster_a, cluster_b, topic), admin=FailingAdmin) as leader:
        await leader.discovery.wait()
        alter(cluster_a, topic, "retention.ms", "123456")
        await warned(leader, words)
        assert leader.discovery.error.text is None, "topics are discovered, created and copied regardless"
        monkeypatch.setattr(FailingAdmin, "failure", None)
        await until(lambda: not leader.syncs.warnings, SOON, "there is no warning any more")
        await _retention_synced(cluster_b, topic)


async def test_negative_interval_and_false_disable_syncs(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], requests: list[str]
) -> None:
    topic = cluster_a.create_topic(unique("off"))
    off = {"sync.topic.configs.interval.seconds": "-1", "sync.topic.acls.enabled": "false"}
    async with leading(settings(cluster_a, cluster_b, topic) | off) as leader:
        await leader.discovery.wait()
        requests.clear()
        async with asyncio.timeout(SOON):
            await leader.syncs.run()  # nothing to do, so it returns
        assert "DescribeTopicConfigs" not in requests


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A source with ACLs; the node is a super user there."""
    with KafkaCluster("guarded-source", properties=AUTHORIZER) as cluster:
        yield cluster


async def test_target_without_authorizer(
    guarded: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = guarded.create_topic(unique("bare"))
    reads = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with caplog.at_level(logging.WARNING, "mm2.node"):
        async with leading(settings(guarded, cluster_b, topic)) as leader:
            await leader.discovery.wait()
            assert leader.syncs.warnings == [], "no warning, since there are no ACLs to sync"
            for future in guarded.admin.create_acls([reads]).values():
                future.result(30)
            warning = await warned(leader, "1 missing topic ACL on cluster B, which has no authorizer")
            alter(guarded, topic, "retention.ms", "123456")  # its sync shows that further rounds have taken place
            await until(
                lambda: _retention(cluster_b, topic) == ("123456", True), SOON, "further rounds have taken place"
            )
            assert leader.syncs.warnings == [warning]
    assert [record.getMessage() for record in caplog.records].count(f"A->B: {warning}") == 1


async def test_custom_filter_that_raises(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster_a.create_topic(unique("moody"))
    cluster_b.create_topic(f"A.{topic}", config={"retention.ms": "1000"})
    own = {"A->B.config.property.filter.class": f"{user_filters.__name__}:Moody"}
    async with leading(settings(cluster_a, cluster_b, topic) | own) as leader:
        await warned(leader, "sync topic configurations", "Moody", "flush.ms", "not today")
        monkeypatch.setattr(user_filters.Moody, "moody", False)
        await until(lambda: not leader.syncs.warnings, SOON, "there is no warning any more")
        await until(lambda: not _retention(cluster_b, topic)[1], SOON, "the target's default applies again")
