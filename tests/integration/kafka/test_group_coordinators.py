"""Finding and querying group coordinators of real brokers: few requests, and retries until they respond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError, ClusterError, Unreachable
from mm2.kafka.groups.group_coordinators import ask_coordinators
from mm2.kafka.groups.groups import commit_offsets, committed_offsets, group_states, list_groups
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected
from tests.integration.kafka.group_clients import (
    CONSUMER_GROUP_DESCRIBE,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_FETCH,
    CountedCluster,
    at,
    code,
    commit,
    made,
    member,
)
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.jars import KAFKA_3

IMPATIENT_MS = 500
PATIENT_MS = 3_000  # for a broker that answers, on a busy machine
SHARED = "shared"  # a topic that both brokers of the pair have in their metadata
OLD = {FIND_COORDINATOR: 3, LIST_GROUPS: 3, OFFSET_FETCH: 7}  # API versions of brokers before 2.6, without API 69


@pytest.fixture(scope="module")
def pair() -> Iterator[KafkaCluster]:
    """Two older brokers that each coordinate some of the groups."""
    patient = {"broker.session.timeout.ms": "60000"}  # a frozen broker keeps its groups, however long it takes
    with KafkaCluster("pair", version=KAFKA_3, brokers=2, properties=patient) as cluster:
        made(cluster, SHARED)
        yield cluster


async def test_empty_group_name(pair: KafkaCluster, unique: Callable[[str], str]) -> None:
    """Old clients can commit under the empty name, and brokers keep such offsets."""
    topic = SHARED
    async with connected(pair) as cluster:
        assert await group_states(cluster, [""]) == {"": None}
        assert await commit_offsets(cluster, "", {TopicPartition(topic, 0): at(3)}) == {TopicPartition(topic, 0): None}
        assert await committed_offsets(cluster, [""]) == {"": {TopicPartition(topic, 0): at(3)}}
        assert await group_states(cluster, [""]) == {"": "Empty"}


async def test_hundreds_of_groups_in_few_requests(pair: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, stem = SHARED, unique("many")
    groups = [f"{stem}-{number}" for number in range(300)]
    commit(pair, groups, topic, 5)
    expected = {group: {TopicPartition(topic, 0): at(5)} for group in groups}
    async with CountedCluster(pair) as cluster:
        assert await committed_offsets(cluster, [*groups, *groups]) == expected
        assert set(cluster.group_coordinators.values()) == {1, 2}
        led = Counter(cluster.group_coordinators.values())
        assert cluster.requests(FIND_COORDINATOR) == 1
        assert cluster.requests(OFFSET_FETCH) == sum(-(-count // 100) for count in led.values()) <= 4
        assert await group_states(cluster, groups) == dict.fromkeys(groups, "Empty")
        assert {one.group for one in await list_groups(cluster)} >= set(groups)
        assert cluster.requests(LIST_GROUPS) == 2 * 2  # once per broker and call
        await commit_offsets(cluster, groups[0], {TopicPartition(topic, 0): at(6)})
        assert cluster.requests(FIND_COORDINATOR) == 1  # cached


async def test_requests_to_older_brokers(pair: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, stem, busy = SHARED, unique("old"), unique("busy")
    groups = [f"{stem}-{number}" for number in range(10)]
    commit(pair, groups, topic, 5)
    async with CountedCluster(pair, OLD) as cluster, member(pair, busy, topic, "classic"):
        found = await committed_offsets(cluster, [*groups, "absent"])
        assert found == {**{group: {TopicPartition(topic, 0): at(5)} for group in groups}, "absent": {}}
        assert cluster.requests(OFFSET_FETCH) == 11
        assert cluster.requests(CONSUMER_GROUP_DESCRIBE) == 0
        states = await group_states(cluster, [*groups, busy, "absent"])
        assert states == {**dict.fromkeys(groups, "Empty"), busy: "Stable", "absent": None}
        listed = {one.group: one for one in await list_groups(cluster)}
        assert listed.keys() >= {*groups, busy}
        assert (listed[busy].protocol_type, listed[busy].state, listed[busy].kind) == ("consumer", None, None)


async def test_moved_coordinator_is_found_again(pair: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, group = SHARED, unique("g")
    partition = TopicPartition(topic, 0)
    async with CountedCluster(pair) as cluster:
        for wrong in (1, 2, 99):  # one of 1 and 2 is not the coordinator, and 99 does not exist
            cluster.group_coordinators[group] = wrong
            assert await commit_offsets(cluster, group, {partition: at(wrong)}) == {partition: None}
            assert cluster.group_coordinators[group] in (1, 2)
            cluster.group_coordinators[group] = wrong
            assert await committed_offsets(cluster, [group]) == {group: {partition: at(wrong)}}
            cluster.group_coordinators["absent"] = wrong
            assert await group_states(cluster, ["absent"]) == {"absent": None}


async def test_retries_end_at_the_deadline_with_the_last_error(pair: KafkaCluster) -> None:
    async with connected(pair) as cluster:

        async def ask(node_id: int, some: Collection[str]) -> dict[str, str | ClusterError]:
            return {one: BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"ask {one}") for one in some}

        found = await ask_coordinators(cluster, ["g"], ask, groups_a_request=1, timeout_ms=IMPATIENT_MS)
        assert code(found["g"]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_hung_broker_affects_only_its_own_groups(pair: KafkaCluster, unique: Callable[[str], str]) -> None:
    groups = [f"{unique('hang')}-{number}" for number in range(20)]
    commit(pair, groups, SHARED, 5)
    async with connected(pair, request_timeout_ms=1_000) as cluster:
        await committed_offsets(cluster, groups)
        stuck = {group for group in groups if cluster.group_coordinators[group] == 2}
        assert 0 < len(stuck) < len(groups)
        freeze(pair.broker(2).process)
        try:
            found = await committed_offsets(cluster, groups, timeout_ms=PATIENT_MS)
            with pytest.raises(ClusterError):
                await list_groups(cluster, timeout_ms=IMPATIENT_MS)
        finally:
            thaw(pair.broker(2).process)
        assert {group for group, answer in found.items() if isinstance(answer, ClusterError)} == stuck
        expected = {group: {TopicPartition(SHARED, 0): at(5)} for group in groups}
        assert await committed_offsets(cluster, groups) == expected
        assert {one.group for one in await list_groups(cluster)} >= set(groups)


async def test_unreachable_cluster(unique: Callable[[str], str]) -> None:
    kafka = KafkaCluster("gone")
    group, partition = unique("g"), TopicPartition("t", 0)
    try:
        async with connected(kafka) as cluster:
            with pytest.raises(Unreachable):
                await list_groups(cluster, timeout_ms=IMPATIENT_MS)
            assert isinstance((await group_states(cluster, [group], timeout_ms=IMPATIENT_MS))[group], Unreachable)
            assert isinstance((await committed_offsets(cluster, [group], timeout_ms=IMPATIENT_MS))[group], Unreachable)
            outcome = await commit_offsets(cluster, group, {partition: at(1)}, timeout_ms=IMPATIENT_MS)
            assert isinstance(outcome[partition], Unreachable)
            assert await group_states(cluster, []) == {}
            assert await committed_offsets(cluster, []) == {}
    finally:
        kafka.close()
