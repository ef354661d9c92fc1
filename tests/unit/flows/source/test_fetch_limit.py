"""The limit of what a source task fetches, in a world without brokers: the letters are those of `TokenBucket`."""

from __future__ import annotations

import asyncio
import time

import pytest

from flows.source.fetch_limit import FetchLimit, TokenBucket, complete_bytes
from mm2.core.lanes.fetch_shares import FetchTotals
from tests.lab.batches import Batch, Record
from tests.lab.old_formats import message

RATE = 1_000
ROUNDED = 0.001
BATCH = Batch(records=[Record(0, 0, b"k", b"v" * 100)]).encode()


def fetched_in(bucket: TokenBucket, seconds: float, batch: int) -> int:
    """Return what is fetched from a source that always has more, in responses of whole batches."""
    now, count = 0.0, 0
    while (now := now + bucket.wait_s(now) + 0.001) < seconds:
        size = max(1, bucket.available(now) // batch) * batch
        bucket.spend(size, now)
        count += size
    return count


@pytest.mark.parametrize("batch", [1, 100, 700, 4_000])
def test_the_rate_is_kept_whatever_the_size_of_batches(batch: int) -> None:
    assert fetched_in(TokenBucket(RATE, 0.0), 30.0, batch) == pytest.approx(30 * RATE, abs=RATE + batch), "(A)"


def test_a_burst_of_one_second_after_a_pause() -> None:
    bucket = TokenBucket(RATE, 0.0)
    assert (bucket.wait_s(0.0), bucket.available(0.0)) == (0.25, 1), "(C)"
    assert (bucket.wait_s(100.0), bucket.available(100.0)) == (0.0, RATE)


def test_what_a_batch_exceeded_is_paid_off() -> None:
    bucket = TokenBucket(RATE, 0.0)
    bucket.spend(10 * RATE, 1.0)
    assert bucket.wait_s(1.0) == pytest.approx(9.25), "(B)"
    assert bucket.wait_s(10.25) == 0.0


def test_another_rate_keeps_what_is_owed() -> None:
    bucket = TokenBucket(RATE, 0.0)
    bucket.spend(2 * RATE, 0.0)
    bucket.change(4 * RATE, 1.0)
    assert bucket.wait_s(1.0) == pytest.approx(0.5)
    bucket.change(RATE // 2, 10.0)
    assert bucket.available(10.0) == RATE // 2, "a smaller burst"


async def test_without_a_limit_nothing_waits_and_nothing_is_counted() -> None:
    limit = FetchLimit()
    await limit.wait()
    limit.received(BATCH)
    assert (limit.rate, limit.must_wait, limit.totals, limit.request_bytes(1, 3, 5_000)) == (None, False, None, 5_000)


async def test_brokers_divide_what_may_be_fetched_by_their_partitions() -> None:
    now = [0.0]
    limit = FetchLimit(lambda: now[0])
    limit.set_rate(RATE)
    now[0] = 1.0
    assert limit.request_bytes(1, 1, 5_000) == RATE, "the only broker"
    assert limit.request_bytes(2, 3, 5_000) == 750
    assert limit.request_bytes(1, 1, 5_000) == 250
    assert limit.request_bytes(1, 1, 50) == 50, "fetch.max.bytes, or what the buffer has room for"
    assert limit.request_bytes(2, 99, 5_000) == 990
    assert limit.request_bytes(1, 1, 5_000) == RATE // 8
    limit.leave(2)
    assert limit.request_bytes(1, 1, 5_000) == RATE


async def test_waiting_ends_when_the_limit_is_removed_and_is_counted_once_for_all_brokers() -> None:
    limit = FetchLimit()
    limit.set_rate(1_024)
    limit.received(BATCH * 100)
    began = time.monotonic()
    waiting = asyncio.gather(limit.wait(), limit.wait())
    await asyncio.sleep(0.05)
    limit.set_rate(2_048)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    totals = limit.totals
    assert totals is not None
    assert totals.bytes == 100 * len(BATCH)
    assert 0.09 <= totals.limited_s <= time.monotonic() - began + ROUNDED  # timers may fire a little early
    limit.set_rate(None)
    await waiting
    assert limit.totals is None
    limit.set_rate(1_024)
    totals = limit.totals
    assert totals is not None
    assert 0.09 <= totals.limited_s <= time.monotonic() - began + ROUNDED  # timers may fire a little early
    limit.set_rate(1_024)
    assert limit.rate == 1_024


async def test_waiting_ends_when_enough_may_be_fetched() -> None:
    limit = FetchLimit()
    limit.set_rate(1_000_000)
    assert limit.must_wait
    await limit.wait()
    assert not limit.must_wait
    limit.received(BATCH + BATCH[:-1])
    assert limit.totals is not None
    assert limit.totals.bytes == len(BATCH)
    assert limit.totals != FetchTotals()


def test_only_complete_batches_count() -> None:
    """A part of a batch is fetched again."""
    assert complete_bytes(b"") == 0
    assert complete_bytes(BATCH[:11]) == complete_bytes(BATCH[:-1]) == 0
    assert complete_bytes(BATCH) == len(BATCH)
    assert complete_bytes(BATCH + BATCH[:30]) == len(BATCH)
    old = message(7, b"k", b"v", magic=1)
    assert complete_bytes(old + old + old[:-1]) == 2 * len(old)
    assert complete_bytes(BATCH + b"\0" * 8 + b"\xff" * 100) == len(BATCH), "a damaged length"
