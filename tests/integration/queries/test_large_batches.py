"""Small batches with much in them pass through a query in steps, without using up the memory."""

from __future__ import annotations

import json
import random

import pytest

from tests.integration.queries.conftest import Queried
from tests.lab import scratch
from tests.lab.history import read_topic
from tests.lab.records import Outgoing
from tests.lab.stored_batches import stored_batches

MB = 1024 * 1024
ONE_BATCH = {"batch.size": 100 * MB, "batch.num.messages": 100_000, "message.max.bytes": 100 * MB, "linger.ms": 60_000}
"""Settings of librdkafka, with which all records before a flush are one batch, however slow the test is."""

LARGE = Outgoing(key=b"large", value=bytes(20 * MB), partition=0)
"""More than a record may take by default."""


def order(number: int) -> Outgoing:
    """An order of 10 kB, of which 150 bytes remain in a zstd batch."""
    noise = random.Random(number).randbytes(140).hex()
    value = {"n": number, "card": "4111-0000-1111-1111", "noise": noise, "pad": "x" * 9_800}
    return Outgoing(value=json.dumps(value).encode(), partition=0)


def test_a_batch_with_sixty_megabytes_of_json_is_masked(queried: Queried) -> None:
    flow = queried.flow
    topic, since = flow.create("orders"), len(queried.node.process.output())
    flow.write(topic, map(order, range(6_000)), codec="zstd", settings=ONE_BATCH)
    flow.wait_passed(queried.node, topic)
    written, copied = flow.written(topic)[0], flow.copied(topic)[0]
    assert sum(len(record.value or b"") for record in written) > 60_000_000
    (batch,) = stored_batches(flow.source.broker(1).directory / scratch.DATA, topic)
    assert (batch.base_offset, batch.last_offset) == (0, 5_999)
    assert 800_000 < batch.size < MB
    expected = [(record.value or b"").replace(b"4111-0000-1111-1111", b"****-1111") for record in written]
    assert [record.value for record in copied] == expected
    assert "failed; restarting" not in queried.node.process.output()[since:], "a lane"


def test_a_record_that_is_too_large_is_left_out_alone(queried: Queried) -> None:
    flow, node = queried.tolerant, queried.node
    topic = flow.create("numbers")
    small = [Outgoing(value=b"1", partition=0), Outgoing(value=b"2", partition=0)]
    flow.write(topic, [small[0], LARGE, small[1]], codec="zstd", settings=ONE_BATCH)
    flow.wait_passed(node, topic)
    assert [record.value for record in flow.copied(topic)[0]] == [b"2", b"4"]
    letters = read_topic(flow.target.bootstrap, f"mm2-dead-letters.{flow.a}.internal")[0]
    found = [dict(letter.headers) for letter in letters if letter.value is None]
    (headers,) = [one for one in found if one["__connect.errors.topic"] == topic.encode()]
    assert headers["__connect.errors.offset"] == b"1"
    assert b"the record at offset 1 is too large" in (headers["__connect.errors.exception.message"] or b"")


@pytest.mark.long  # test_query_stage.py asks for the limit, with a limit that is raised
def test_a_record_that_its_topic_allows_passes(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("live", config={"max.message.bytes": str(32 * MB)})
    flow.write(topic, [LARGE], codec="zstd", settings=ONE_BATCH)
    flow.wait_passed(node, topic)
    (record,) = flow.copied(topic)[0]
    assert len(record.value or b"") == 20 * MB
