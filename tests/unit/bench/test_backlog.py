"""Written backlogs, and how copies are counted and compared."""

from __future__ import annotations

import zlib

from tests.bench.digests import Digest, differences
from tests.bench.log_files import count_batches
from tests.bench.payloads import events

NOW_MS = 1_717_200_000_000


def test_events_compress_like_text() -> None:
    text = b"".join(one.value or b"" for one in events(500, value_bytes=1_000, partitions=4, now_ms=NOW_MS))
    assert 2 < len(text) / len(zlib.compress(text, 1)) < 4


def test_batches_in_a_segment_are_counted_by_their_lengths() -> None:
    batch = b"\0" * 8 + (61).to_bytes(4) + b"\0" * 61
    assert count_batches(b"") == 0
    assert count_batches(batch * 3) == 3


def test_copies_are_compared_by_partition() -> None:
    source = {0: Digest(3, "aa"), 1: Digest(2, "bb"), 2: Digest(1, "cc")}
    assert not differences(source, dict(source))
    remote = {0: Digest(2, "xx"), 1: Digest(2, "yy")}
    assert differences(source, remote) == [
        "partition 0: 2 records instead of 3",
        "partition 1: 2 records, but different or in another order",
        "partition 2: 0 records instead of 1",
    ]
