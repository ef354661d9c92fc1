"""Which topics are created on the target, and which keep the partitions of the source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from mm2.core.mirror1.settings import Partitioning
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import Metadata, PartitionInfo, TopicInfo
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.mirror1.topics import NotKnownYet, Prepared, TargetTopics
from tests.lab.tasks import unconnected_cluster

EXISTS = BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "create topic t")
DENIED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "create topic t")
TIMEOUT = BrokerError(ErrorCode.REQUEST_TIMED_OUT, "create topic t")


def topic(name: str, partitions: int, error: int = 0) -> TopicInfo:
    rows = tuple(
        PartitionInfo(partition=number, leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
        for number in range(partitions)
    )
    return TopicInfo(name=name, error=error, topic_id=None, is_internal=False, partitions=rows)


class MetadataOnly(Cluster):
    """A client that only answers what the metadata of ``t`` are, each time with the next of ``answers``."""

    def __init__(self, answers: list[TopicInfo]) -> None:
        super().__init__(unconnected_cluster().settings)
        self._answers = answers

    async def metadata(self, topics: Collection[str] | None) -> Metadata:
        return Metadata(cluster_id=None, controller=None, brokers={}, topics={"t": self._answers.pop(0)})


class Target:
    """A target that has the topic ``t`` with so many partitions, or responds with an error to its metadata.

    ``outcome``: of creating it. ``partitions_then``: what it has when metadata is read again.
    """

    def __init__(
        self,
        partitions: int,
        *,
        error: int = 0,
        outcome: BrokerError | None = None,
        partitions_then: int = 0,
    ) -> None:
        self.created: list[NewTopic] = []
        self._cluster = MetadataOnly([topic("t", partitions, error), topic("t", partitions_then)])
        self._outcome = outcome

    async def prepare(self, on_source: int, partitioning: Partitioning = Partitioning.SAME) -> Prepared:
        return await TargetTopics(self._cluster, partitioning, create=self._create).prepare({"t": on_source})

    async def _create(self, _: Any, new: Sequence[NewTopic]) -> Mapping[str, BrokerError | None]:
        self.created += new
        return {one.name: self._outcome for one in new}


@pytest.mark.parametrize(("on_target", "is_kept"), [(2, False), (3, True), (4, False)])
async def test_the_partition_is_kept_where_both_have_as_many(on_target: int, *, is_kept: bool) -> None:
    target = Target(on_target)
    assert await target.prepare(3) == Prepared(frozenset({"t"} if is_kept else ()), {})
    assert target.created == []


async def test_no_partition_is_kept_with_partitions_key() -> None:
    assert await Target(3).prepare(3, Partitioning.KEY) == Prepared(frozenset(), {})


@pytest.mark.parametrize("partitioning", list(Partitioning))
async def test_a_missing_topic_is_created(partitioning: Partitioning) -> None:
    target = Target(0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    prepared = await target.prepare(3, partitioning)
    assert prepared == Prepared(frozenset({"t"} if partitioning is Partitioning.SAME else ()), {})
    assert target.created == [NewTopic(name="t", partitions=3, replication_factor=-1)]


@pytest.mark.parametrize(("partitions", "is_kept"), [(3, True), (5, False)])
async def test_a_topic_that_another_process_has_just_created(partitions: int, *, is_kept: bool) -> None:
    target = Target(0, outcome=EXISTS, partitions_then=partitions)
    assert await target.prepare(3) == Prepared(frozenset({"t"} if is_kept else ()), {})


async def test_a_new_topic_that_the_broker_does_not_know_yet() -> None:
    with pytest.raises(NotKnownYet):
        await Target(0, outcome=EXISTS).prepare(3)


async def test_topics_that_cannot_be_used() -> None:
    assert await Target(0, outcome=DENIED).prepare(3) == Prepared(frozenset(), {"t": DENIED})
    invisible = await Target(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED).prepare(3)
    assert invisible.kept == frozenset()
    assert "TOPIC_AUTHORIZATION_FAILED; requires DESCRIBE on topic t" in str(invisible.refused["t"])


async def test_errors_that_pass_are_raised() -> None:
    with pytest.raises(BrokerError, match="REQUEST_TIMED_OUT"):
        await Target(0, outcome=TIMEOUT).prepare(3)
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        await Target(0, error=ErrorCode.LEADER_NOT_AVAILABLE).prepare(3)
