"""Long histories of commits, offset syncs and restarts: checkpoints increase, except for groups that rewind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints, CommittedOffset, Emit
from mm2.core.offsets.group_offsets import Idle, Write, decide
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.policies import DefaultReplicationPolicy
from mm2.core.wire.formats import Checkpoint, OffsetSync

TP = TopicPartition("t", 0)
REMOTE = TopicPartition("A.t", 0)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), st.integers(1, 150)),
        st.tuples(st.just("commit"), st.integers(-20, 100)),
        st.tuples(st.just("restart"), st.integers(0, 30)),
    ),
    max_size=80,
)


@given(events=EVENTS)
def test_checkpoints_increase_with_the_group(events: list[tuple[str, int]]) -> None:
    topic: list[OffsetSync] = []
    written: list[Checkpoint] = []
    position = copied = 0
    committed_there: int | None = None

    def fresh() -> tuple[OffsetSyncStore, Checkpoints]:
        store = OffsetSyncStore(must_read_to_end=False)
        for sync in topic:
            store.apply(sync)
        store.read_to_end()
        book = Checkpoints(aliases=Flow("A", "B"), policy=DefaultReplicationPolicy(), selects=lambda _: True)
        for checkpoint in written:
            book.remember(checkpoint)
        return store, book

    store, book = fresh()
    for what, number in events:
        if what == "copy":
            copied += number
            topic.append(OffsetSync(topic_partition=TP, upstream_offset=copied, downstream_offset=copied * 2))
            store.apply(topic[-1])
        elif what == "restart":
            topic = topic[number:]  # deleted in the meantime
            store, book = fresh()
        else:
            position = max(0, position + number)
            outcome = book.judge("g", {TP: CommittedOffset(offset=position)}, store.translate)[TP]
            if isinstance(outcome, Emit):
                last = written[-1] if written else None
                assert outcome.checkpoint.upstream_offset == position
                assert (
                    last is None
                    or position < last.upstream_offset
                    or outcome.checkpoint.downstream_offset > last.downstream_offset
                )
                written.append(outcome.checkpoint)
                book.remember(outcome.checkpoint)
            decision = decide(book.of_group("g"), Idle(committed={REMOTE: committed_there}), {REMOTE: copied})
            match decision.get(REMOTE):
                case Write(offset=offset):
                    assert committed_there is None or offset > committed_there
                    assert offset <= copied
                    committed_there = offset
