"""Offset syncs of runs compared with Java's rule applied record by record, for any sequence of events."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_emission import AckedRun, DueSyncs, OffsetSyncEmission

Sync = tuple[int, int, int]  # partition, upstream, downstream
Event = tuple[str, int, int, int, int]

LAGS = st.integers(-1, 12)
STEPS = st.one_of(st.just(0), st.integers(-10, 10))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("acked"), st.integers(0, 3), STEPS, STEPS, st.integers(1, 40)),
        st.tuples(st.just("completed"), st.integers(1, 4), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@dataclass
class JavaPartition:
    """The four conditions of Java's PartitionState.update."""

    lag_max: int
    previous_up: int = -1
    previous_down: int = -1
    last_sync_down: int = -1

    def is_due(self, up: int, down: int) -> bool:
        due = (
            self.last_sync_down == -1
            or down - (self.last_sync_down + 1) >= self.lag_max
            or up - self.previous_up != 1
            or down < self.previous_down
        )
        if due:
            self.last_sync_down = down
        self.previous_up, self.previous_down = up, down
        return due


@dataclass
class JavaWriter:
    """The writer's queue: one record, then as many sends as there are permits."""

    lag_max: int
    room: int
    partitions: dict[int, JavaPartition] = field(default_factory=dict)
    pending: dict[int, Sync] = field(default_factory=dict)
    delayed: dict[int, Sync] = field(default_factory=dict)
    sent: list[Sync] = field(default_factory=list)

    def record(self, partition: int, up: int, down: int) -> None:
        state = self.partitions.setdefault(partition, JavaPartition(self.lag_max))
        if state.is_due(up, down):
            self.pending[partition] = (partition, up, down)
            self.delayed.pop(partition, None)
        else:
            self.delayed[partition] = (partition, up, down)
        self.fire()

    def fire(self) -> None:
        while self.pending and self.room:
            self.sent.append(self.pending.pop(next(iter(self.pending))))
            self.room -= 1

    def commit(self) -> None:
        self.pending.update(self.delayed)
        self.delayed.clear()
        self.fire()


@given(lag_max=LAGS, in_flight_max=st.integers(1, 4), events=EVENTS)
def test_same_offset_syncs_as_java(lag_max: int, in_flight_max: int, events: list[Event]) -> None:
    java = JavaWriter(lag_max, in_flight_max)
    ours = OffsetSyncEmission(lag_max=lag_max, in_flight_max=in_flight_max)
    ends = dict.fromkeys(range(4), (0, 0))  # the next position of each partition if nothing is skipped
    for what, number, up_step, down_step, count in events:
        java.sent.clear()
        if what == "acked":
            up, down = (max(0, end + step) for end, step in zip(ends[number], (up_step, down_step), strict=True))
            for k in range(count):
                java.record(number, up + k, down + k)
            sent = ours.acked(TopicPartition("t", number), AckedRun(upstream=up, downstream=down, count=count))
            ends[number] = (up + count, down + count)
        elif what == "completed":
            done = min(number, in_flight_max - java.room)
            java.room += done
            java.fire()
            sent = ours.completed(done)
        else:
            java.commit()
            sent = ours.commit()
        sent_syncs = [(sync.topic_partition.partition, sync.upstream_offset, sync.downstream_offset) for sync in sent]
        assert sent_syncs == java.sent
        assert ours.idle == (not java.pending and java.room == in_flight_max)


@given(lag_max=LAGS, runs=st.lists(st.tuples(STEPS, STEPS, st.integers(1, 60)), min_size=1, max_size=20))
def test_every_due_record_is_found(lag_max: int, runs: list[tuple[int, int, int]]) -> None:
    java, ours = JavaPartition(lag_max), DueSyncs(lag_max=lag_max)
    up = down = 0
    for up_step, down_step, count in runs:
        up, down = max(0, up + up_step), max(0, down + down_step)
        due = ours.acked(AckedRun(upstream=up, downstream=down, count=count))
        assert list(due) == [down + k for k in range(count) if java.is_due(up + k, down + k)]
        up, down = up + count, down + count
