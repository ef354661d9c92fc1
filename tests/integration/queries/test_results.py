"""What queries make of records, against what they are expected to make of them."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN
from tests.lab.history import Content
from tests.lab.records import Outgoing, every_shape, plain
from tests.lab.verify import wait_until_copied

NOW_MS = int(time.time() * 1000)  # not in the past: brokers delete records by their timestamps, after seven days
KEPT = {"retention.ms": "-1"}


def order(number: int) -> Outgoing:
    value = {"n": number, "card": f"4111-{number:04}-1111-1111", "test": number % 10 == 0, "pad": "x" * 200}
    return Outgoing(key=b"%d" % number, value=json.dumps(value).encode(), partition=number % 3)


@pytest.mark.parametrize("codec", ["none", "lz4", pytest.param("zstd", marks=pytest.mark.long)])  # as lz4
def test_values_are_masked_and_records_dropped(queried: Queried, codec: str) -> None:
    flow = queried.flow
    topic = flow.create("orders", 3)
    flow.write(topic, map(order, range(3_000)), codec=codec)
    flow.wait_passed(queried.node, topic)
    for partition, records in flow.written(topic).items():
        expected: list[Content] = []
        for record in records:
            key, value, headers, timestamp = record.content
            assert value is not None
            if not json.loads(value)["test"]:
                expected.append((key, re.sub(rb"\d{4}-\d{4}-\d{4}", b"****", value), headers, timestamp))
        assert [record.content for record in flow.copied(topic)[partition]] == expected
    labels = {"source": flow.a, "target": flow.b, "topic": flow.remote(topic)}
    assert queried.node.metric("mm2_source_records_total", **labels) == 2_700


@pytest.mark.parametrize(
    "codec",  # tests/unit/flows/batch has each
    ["none", "zstd", *(pytest.param(one, marks=pytest.mark.long) for one in ("gzip", "snappy", "lz4"))],
)
def test_what_is_not_set_is_preserved(queried: Queried, rng: random.Random, codec: str) -> None:
    flow = queried.flow
    topic = flow.create("same", 3)
    flow.write(topic, every_shape(rng, 900, partitions=3, now_ms=NOW_MS), codec=codec)
    flow.wait_passed(queried.node, topic)  # the lane of the query may have to start
    source, remote = (flow.source.bootstrap, topic), (flow.target.bootstrap, flow.remote(topic))
    assert wait_until_copied(source, remote, 60.0).exact


def test_key_timestamp_and_headers_are_set(queried: Queried, rng: random.Random) -> None:
    flow = queried.flow
    topic = flow.create("parts", 2)
    flow.write(topic, every_shape(rng, 300, partitions=2, now_ms=NOW_MS))
    flow.wait_passed(queried.node, topic)
    for partition, records in flow.written(topic).items():
        expected: list[Content] = []
        for record in records:
            key, value, headers, timestamp = record.content
            place = f"{topic}-{partition}@{record.offset}".encode()
            expected.append(
                (
                    None if key is None else hashlib.sha256(key).hexdigest().encode(),
                    value,
                    (*headers, ("from", place)),
                    timestamp + 3_600_000,
                )
            )
        assert [record.content for record in flow.copied(topic)[partition]] == expected


def test_tombstones_are_dropped_or_made(queried: Queried, rng: random.Random) -> None:
    flow = queried.flow
    live, deleted = flow.create("live"), flow.create("deleted")
    for topic in (live, deleted):
        flow.write(topic, every_shape(rng, 200))
        flow.wait_passed(queried.node, topic)
    kept = [record.content for record in flow.written(live)[0] if record.value is not None]
    assert 0 < len(kept) < 200
    assert [record.content for record in flow.copied(live)[0]] == kept
    keys = [record.key for record in flow.written(deleted)[0]]
    assert [(record.key, record.value) for record in flow.copied(deleted)[0]] == [(key, None) for key in keys]


def test_a_function_of_the_user_returns_columns(queried: Queried) -> None:
    flow = queried.flow
    topic = flow.create("own")
    flow.write(topic, [Outgoing(key=key, value=b"value") for key in (b"k", None, b"")])
    flow.wait_passed(queried.node, topic)
    assert [(record.key, record.value) for record in flow.copied(topic)[0]] == [(b"k", b"VALUE"), (b"", b"VALUE")]


def test_other_topics_of_the_flow_pass_through(queried: Queried, rng: random.Random) -> None:
    flow = queried.flow
    topic = flow.create("plain", 2)
    flow.write(topic, every_shape(rng, 400, partitions=2))
    source, remote = (flow.source.bootstrap, topic), (flow.target.bootstrap, flow.remote(topic))
    assert wait_until_copied(source, remote, 60.0).exact


def test_a_record_arrives_within_a_second(queried: Queried) -> None:
    """A record that is followed by nothing is not held back in a buffer."""
    flow = queried.flow
    topic = flow.create("same")
    for number in range(5):
        flow.write(topic, plain(1, first=number))
        flow.wait_passed(queried.node, topic, timeout=30 if number else SEEN)
    remote = flow.copied(topic)[0]
    assert [record.content for record in remote] == [record.content for record in flow.written(topic)[0]]
