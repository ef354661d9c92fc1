"""What is written, and how it is counted and compared afterwards."""

from __future__ import annotations

import json
import zlib

import pytest

from tests.bench.digests import Digest, differences
from tests.bench.log_files import count_batches
from tests.bench.payloads import events
from tests.bench.workloads import FEWEST, WORKLOADS

NOW_MS = 1_717_200_000_000


@pytest.mark.parametrize("size", [100, 1_000])
def test_events_are_json_of_the_wanted_size_with_key_partition_and_timestamp(size: int) -> None:
    found = list(events(200, value_bytes=size, partitions=4, now_ms=NOW_MS))
    assert {len(one.value or b"") for one in found} == {size}
    assert {one.partition for one in found} == {0, 1, 2, 3}
    assert [one.timestamp_ms for one in found] == list(range(NOW_MS - 199, NOW_MS + 1))
    for one in found:
        customer = json.loads(one.value or b"")["customer"]
        assert one.key == b"customer-%d" % customer
        assert one.partition == customer % 4


def test_events_are_the_same_each_time_and_others_with_another_seed() -> None:
    once, again = (list(events(50, value_bytes=100, partitions=4, now_ms=NOW_MS)) for _ in range(2))
    assert once == again
    assert once != list(events(50, value_bytes=100, partitions=4, now_ms=NOW_MS, seed=1))


def test_events_compress_like_text_not_like_padding_or_noise() -> None:
    text = b"".join(one.value or b"" for one in events(500, value_bytes=1_000, partitions=4, now_ms=NOW_MS))
    assert 2 < len(text) / len(zlib.compress(text, 1)) < 4


def test_a_scale_leaves_enough_to_measure() -> None:
    large = WORKLOADS[0].backlog
    assert large.scaled(1.0) == large
    assert large.scaled(0.01).records == 10_000
    assert large.scaled(0.000_001).records == FEWEST


def test_batches_in_a_segment_are_counted_by_their_lengths() -> None:
    batch = b"\0" * 8 + (61).to_bytes(4) + b"\0" * 61
    assert count_batches(b"") == 0
    assert count_batches(batch * 3) == 3


def test_a_copy_is_judged_partition_by_partition() -> None:
    source = {0: Digest(3, "aa"), 1: Digest(2, "bb"), 2: Digest(1, "cc")}
    assert not differences(source, dict(source))
    remote = {0: Digest(2, "xx"), 1: Digest(2, "yy")}
    assert differences(source, remote) == [
        "partition 0: 2 records instead of 3",
        "partition 1: 2 records, but not the same, or in another order",
        "partition 2: 0 records instead of 1",
    ]
