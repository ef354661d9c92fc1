"""Java's OffsetSyncStoreTest and golden vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated
from mm2.core.wire.formats import FormatError, OffsetSync

TP = TopicPartition("topic1", 2)


def sync(store: OffsetSyncStore, upstream: int, downstream: int) -> None:
    store.apply(OffsetSync(topic_partition=TP, upstream_offset=upstream, downstream_offset=downstream))


def same_offsets(store: OffsetSyncStore, upstream: Iterable[int]) -> None:
    for offset in upstream:
        sync(store, offset, offset)


def ready_store(*, must_read_to_end: bool = True, before: Iterable[int] = ()) -> OffsetSyncStore:
    store = OffsetSyncStore(must_read_to_end=must_read_to_end)
    same_offsets(store, before)
    store.read_to_end()
    return store


def shape(store: OffsetSyncStore) -> str:
    return " ".join(f"{slot}:{sync.upstream_offset}" for slot, sync in store.syncs(TP).items())


def translated(store: OffsetSyncStore, upstream: int) -> int | None:
    """Return Java's result: -1 for too old."""
    match store.translate(TP, upstream):
        case Translated(offset=offset):
            return offset
        case TooOld():
            return -1
        case _:
            return None


def test_translation_is_at_most_one_past_the_last_sync() -> None:
    store = ready_store()
    sync(store, 100, 200)
    assert store.translate(TP, 150) == Translated(offset=201, behind=49)
    assert store.translate(TP, 5) == TooOld(first=100)
    assert store.translate(TP, 101) == Translated(offset=201, behind=0)
    assert Translated(offset=201, behind=0).exact
    assert not Translated(offset=201, behind=49).exact
    sync(store, 150, 251)
    assert store.translate(TP, 150) == Translated(offset=251, behind=0)
    sync(store, 200, 10)  # the remote topic was recreated
    assert translated(store, 200) == 10
    sync(store, 20, 20)  # the source topic was recreated
    assert translated(store, 20) == 20
    assert shape(store) == "0:20"


def test_no_translation_before_the_topic_is_read_to_its_end() -> None:
    store = OffsetSyncStore(must_read_to_end=True)
    assert not store.ready
    for _ in range(2):
        assert [store.translate(TP, offset) for offset in (0, 100, 200)] == [NOT_READY] * 3
        sync(store, 100, 200)
    store.read_to_end()
    assert store.ready
    assert [translated(store, offset) for offset in (0, 100, 200)] == [-1, 200, 201]


def test_partition_without_syncs() -> None:
    assert ready_store().translate(TP, 0) is NO_SYNC
    assert shape(ready_store()) == ""


def test_invalid_records_are_rejected() -> None:
    with pytest.raises(FormatError, match="negative offset"):
        sync(ready_store(), -1, 0)
    with pytest.raises(FormatError, match="negative offset"):
        sync(ready_store(), 0, -1)


def test_d_last_sync_at_the_start_is_the_earliest_without_old_checkpoints() -> None:
    store = ready_store(before=range(0, 1001, 10))
    assert shape(store) == "0:1000"
    same_offsets(store, range(1010, 10001, 10))
    assert shape(store) == ("0:10000 5:9990 6:9970 7:9940 8:9880 9:9640 10:9160 11:8680 12:6760 13:4840 14:1000")
    answers = {999: -1, 1000: 1000, 4839: 1001, 4840: 4840, 9999: 9991, 10000: 10000, 20000: 10001}
    assert {offset: translated(store, offset) for offset in answers} == answers
    sync(store, 1500, 11000)
    answers = {1499: -1, 1500: 11000, 2000: 11001}
    assert {offset: translated(store, offset) for offset in answers} == answers


def test_history_is_kept_with_old_checkpoints() -> None:
    store = ready_store(must_read_to_end=False, before=range(0, 1001, 10))
    assert shape(store) == "0:1000 5:990 6:960 7:900 8:840 9:720 10:480 11:0"
    same_offsets(store, range(1000, 10001, 10))
    assert shape(store) == "0:10000 5:9990 6:9960 7:9900 8:9840 9:9600 10:9120 11:8640 12:7680 13:3840 14:0"


@pytest.mark.parametrize(
    ("last", "slots"),
    [
        (4, "0:4 1:3 2:2 3:0"),
        (8, "0:8 1:7 2:6 3:4 4:0"),
        (12, "0:12 1:11 2:10 3:8 4:0"),
        (16, "0:16 1:15 2:14 3:12 4:8 5:0"),
        (19, "0:19 1:18 2:16 3:12 4:8 5:0"),
    ],
)
def test_spacing_doubles(last: int, slots: str) -> None:
    store = ready_store()
    same_offsets(store, range(last + 1))
    assert shape(store) == slots


def test_largest_offsets() -> None:
    store = ready_store()
    end = 2**63 - 1
    for upstream in (0, 1, 2**62, end - 1, end):
        sync(store, upstream, upstream)
    assert shape(store) == f"0:{end} 1:{end - 1} 63:{2**62}"  # more than 2^62 apart, so 0 was dropped: B
    assert translated(store, end) == end
    assert translated(store, end - 1) == end - 1
    assert translated(store, end - 2) == 2**62 + 1
    assert translated(store, 2**62 - 1) == -1


def test_equal_syncs_are_stored_once() -> None:
    store = ready_store()
    same_offsets(store, range(0, 1_000_000, 101))
    slots = store._slots[TP]
    different = {id(sync): sync for sync in slots}.values()
    numbers = {id(number): number for sync in different for number in sync}.values()
    size = sum(sys.getsizeof(thing) for things in ([slots], different, numbers) for thing in things)
    assert len(different) < 20
    assert size < 3_500
