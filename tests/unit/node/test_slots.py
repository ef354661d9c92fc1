from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.names import TopicPartition
from mm2.node.slots import SlotTable

P = [TopicPartition("orders", n) for n in range(6)]


def test_a_new_assignment_is_granted_at_once() -> None:
    table = SlotTable()
    table.assign({0: P[:2], 1: P[2:3]})
    assert table.grants() == {0: frozenset(P[:2]), 1: frozenset(P[2:3])}


def test_a_partition_moves_in_two_steps() -> None:
    table = SlotTable()
    table.assign({0: P[:2], 1: []})
    table.grants()
    table.heard(0, P[:2])
    table.assign({0: P[:1], 1: P[1:2]})
    assert table.grants() == {0: frozenset(P[:1]), 1: frozenset()}, "first it is only taken away"
    assert table.grants()[1] == frozenset(), "the old slot still runs it at its last word"
    table.heard(0, P[:1])
    assert table.grants()[1] == frozenset(P[1:2])


def test_a_slot_whose_lane_is_gone_holds_nothing() -> None:
    table = SlotTable()
    table.assign({0: P[:1]})
    table.grants()
    table.heard(0, P[:1])
    table.assign({1: P[:1]})
    assert table.grants()[1] == frozenset()
    table.heard(0, [])
    assert table.grants()[1] == frozenset(P[:1])


@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.sampled_from(P), st.integers(0, 3)),  # an assignment: partition -> slot
            st.integers(0, 3),  # this slot reports that it carries out its orders
        ),
        max_size=30,
    )
)
def test_never_two_owners(events: list[dict[TopicPartition, int] | int]) -> None:
    """Invariant A, judged from what the slots really run: a slot runs its grants from their giving until it reports."""
    table = SlotTable()
    running: dict[int, frozenset[TopicPartition]] = dict.fromkeys(range(4), frozenset())
    for event in events:
        if isinstance(event, dict):
            table.assign({slot: [p for p, s in event.items() if s == slot] for slot in range(4)})
        else:
            running[event] = table.grants().get(event, frozenset())
            table.heard(event, running[event])
        grants = table.grants()
        for slot, partitions in grants.items():
            for other in range(4):
                if other != slot:
                    assert not partitions & (grants.get(other, frozenset()) | running[other])
            running[slot] |= partitions
