"""Letters refer to the invariants of OffsetSyncEmission."""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_emission import AckedRun, DueSyncs, OffsetSyncEmission
from mm2.core.wire.formats import OffsetSync

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))


def sync(topic_partition: TopicPartition, upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(topic_partition=topic_partition, upstream_offset=upstream, downstream_offset=downstream)


def run(upstream: int, downstream: int, count: int = 1) -> AckedRun:
    return AckedRun(upstream=upstream, downstream=downstream, count=count)


def test_cases_of_java() -> None:
    due = DueSyncs(lag_max=50)
    records = [
        ((0, 100), True),
        ((2, 102), True),  # upstream gap
        ((3, 152), False),
        ((4, 153), True),  # 50 beyond the translation of the last
        ((5, 154), False),
        ((6, 203), False),
        ((7, 204), True),
        ((2, 206), True),  # upstream moved back
        ((3, 207), False),
        ((4, 3), True),  # downstream truncated
        ((5, 4), False),
    ]
    assert [(record, bool(due.acked(run(*record)))) for record, _ in records] == records


def test_without_lag_every_record_is_due() -> None:
    due = DueSyncs(lag_max=0)
    assert due.acked(run(7, 70, 4)) == range(70, 74)
    assert due.acked(run(11, 74, 2)) == range(74, 76)


def test_work_does_not_depend_on_the_length_of_a_run() -> None:
    due = DueSyncs(lag_max=100)
    assert due.acked(run(0, 5, 10**15)) == range(5, 5 + 10**15, 101)


def test_run_sends_up_to_the_limit_and_keeps_the_last_sync() -> None:
    emission = OffsetSyncEmission(lag_max=9, in_flight_max=3)
    assert emission.acked(T0, run(0, 100, 100)) == [sync(T0, 0, 100), sync(T0, 10, 110), sync(T0, 20, 120)]
    assert emission.acked(T1, run(0, 0)) == []  # A
    assert emission.acked(T0, run(100, 200, 10)) == []  # replaces 190 by 200, in its place (B)
    assert emission.completed() == [sync(T0, 100, 200)]
    assert emission.completed(2) == [sync(T1, 0, 0)]
    assert not emission.idle
    assert emission.completed(2) == []
    assert emission.commit() == [sync(T0, 109, 209)]  # C
    assert emission.completed() == []
    assert emission.idle


def test_due_sync_replaces_a_delayed_one() -> None:
    emission = OffsetSyncEmission(lag_max=2)
    assert emission.acked(T0, run(0, 0, 3)) == [sync(T0, 0, 0)]
    assert emission.acked(T0, run(3, 3)) == [sync(T0, 3, 3)]
    assert emission.commit() == []  # C


def test_removed_partition_sends_nothing_and_starts_over() -> None:
    emission = OffsetSyncEmission(lag_max=100, in_flight_max=1)
    assert emission.acked(T0, run(0, 0)) == [sync(T0, 0, 0)]
    assert emission.acked(T1, run(0, 0, 2)) == []
    emission.forget(T1)
    emission.forget(T2)
    assert emission.completed() == []
    assert emission.commit() == []
    assert emission.acked(T1, run(2, 2)) == [sync(T1, 2, 2)]
