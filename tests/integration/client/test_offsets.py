"""Translated offsets of groups, from checkpoints in Java's format."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import pytest

from mm2.client import (
    AsyncMirrorClient,
    MirrorClient,
    NoCheckpoints,
    OffsetAndMetadata,
    TopicPartition,
    remote_cluster,
    remote_cluster_async,
)
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.positions import positions

WAIT = 30.0  # seconds to read a small topic from a broker on the same machine
GOOD = Checkpoint(group="readers", topic="A.orders", partition=0, upstream=10, downstream=12)
LATER = Checkpoint(group="readers", topic="A.orders", partition=0, upstream=20, downstream=21, metadata="höher")
SECOND = Checkpoint(group="readers", topic="A.orders", partition=1, upstream=7, downstream=7)
ODD = Checkpoint(group="odd, näme.*", topic="A.orders", partition=0, upstream=1, downstream=2)


@pytest.fixture
def remote(kafka: KafkaCluster, unique: Callable[[str], str]) -> str:
    """A cluster alias with an empty checkpoints topic."""
    alias = unique("R")
    kafka.create_topic(f"{alias}.checkpoints.internal", 2)
    return alias


def write(kafka: KafkaCluster, remote: str, *records: Checkpoint | tuple[bytes | None, bytes | None]) -> None:
    write_checkpoints(kafka, f"{remote}.checkpoints.internal", records)


def test_last_checkpoint_of_each_partition(kafka: KafkaCluster, properties: dict[str, str], remote: str) -> None:
    write(kafka, remote, GOOD, ODD, SECOND, LATER)
    expected = positions(LATER, SECOND)
    with MirrorClient(properties) as client:
        assert client.remote_consumer_offsets("readers", remote, WAIT) == expected
        assert client.translate_offsets(remote, "readers", WAIT) == expected
        assert client.remote_consumer_offsets("odd, näme.*", remote, WAIT) == positions(ODD)
        assert client.remote_consumer_offsets("reader", remote, WAIT) == {}
        write(kafka, remote, GOOD)  # the group moved back
        assert client.remote_consumer_offsets("readers", remote, WAIT) == positions(GOOD, SECOND)


async def test_groups_matching_a_pattern(kafka: KafkaCluster, properties: dict[str, str], remote: str) -> None:
    other = Checkpoint(group="readers-2", topic="A.C.orders", partition=0, upstream=1, downstream=1)
    write(kafka, remote, GOOD, other, ODD, LATER)
    readers, second, odd = positions(LATER), positions(other), positions(ODD)
    async with AsyncMirrorClient(properties) as client:

        async def matching(pattern: str) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
            return await client.remote_consumer_offsets(re.compile(pattern), remote, WAIT)

        assert await matching("readers.*") == {"readers": readers, "readers-2": second}
        assert await matching("readers") == {"readers": readers}, "the whole name must match"
        assert await matching(".*") == {"readers": readers, "readers-2": second, "odd, näme.*": odd}
        assert await matching("nobody") == {}
        assert await client.translate_offsets(remote, re.compile("o.*"), WAIT) == {"odd, näme.*": odd}
    everyone = re.compile(r"readers-\d")
    assert remote_cluster.translate_offsets(properties, remote, everyone, WAIT) == {"readers-2": second}
    assert await remote_cluster_async.translate_offsets(properties, remote, everyone, WAIT) == {"readers-2": second}
    assert remote_cluster.translate_offsets(properties, remote, "readers", WAIT) == readers
    assert await remote_cluster_async.translate_offsets(properties, remote, "readers", WAIT) == readers


def test_empty_topic_is_not_an_error(properties: dict[str, str], remote: str) -> None:
    assert remote_cluster.translate_offsets(properties, remote, "readers", WAIT) == {}
    assert remote_cluster.translate_offsets(properties, remote, re.compile(".*"), WAIT) == {}


def test_invalid_records_are_skipped_and_logged(
    kafka: KafkaCluster, properties: dict[str, str], remote: str, caplog: pytest.LogCaptureFixture
) -> None:
    key, value = GOOD.encoded()
    assert key is not None
    assert value is not None
    garbage = [(None, value), (b"?", value), (key, b""), (key, b"\0\7" + value[2:])]
    write(kafka, remote, GOOD, *garbage, SECOND)
    with caplog.at_level(logging.WARNING):
        found = remote_cluster.translate_offsets(properties, remote, "readers", WAIT)
    assert found == positions(GOOD, SECOND)
    assert f"{remote}.checkpoints.internal: skipped 4 records, the first at offset 1: " in caplog.text


def test_only_partition_0_is_read(kafka: KafkaCluster, properties: dict[str, str], remote: str) -> None:
    write(kafka, remote, GOOD)
    write_checkpoints(kafka, f"{remote}.checkpoints.internal", [LATER, SECOND], partition=1)
    assert remote_cluster.translate_offsets(properties, remote, "readers", WAIT) == positions(GOOD)


def test_topic_larger_than_one_fetch(kafka: KafkaCluster, properties: dict[str, str], remote: str) -> None:
    """Half a megabyte in one partition: more than one fetch response contains."""
    written = [
        Checkpoint(
            group=f"g{number % 50}", topic="A.orders", partition=number // 50, upstream=number, downstream=number
        )
        for number in range(10_000)
    ]
    write(kafka, remote, *written)
    found = remote_cluster.translate_offsets(properties, remote, re.compile(".*"), WAIT)
    assert len(found) == 50
    assert found["g49"] == positions(*(one for one in written if one.group == "g49"))


@pytest.mark.parametrize("alias", ["nowhere", "no topic can be called so", ""])
def test_unknown_cluster_raises_no_checkpoints(properties: dict[str, str], alias: str) -> None:
    with pytest.raises(
        NoCheckpoints, match=r"has no topic .*\.checkpoints\.internal: check that .* is the alias of a cluster"
    ):
        remote_cluster.translate_offsets(properties, alias, "readers", WAIT)
