"""Slots and translations compared with Java's array of longs, and the invariants for all pairs of slots."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_store import SLOTS, OffsetSyncStore
from mm2.core.offsets.offset_translation import TooOld, Translated
from mm2.core.wire.formats import OffsetSync

TP = TopicPartition("t", 0)
LONG_MAX = 2**63 - 1

# (step upstream, downstream): mostly forward, in steps of every size, sometimes backward
STEPS = st.one_of(st.integers(0, 3), st.integers(0, 300), st.integers(0, 62).map(lambda bits: 2**bits))
HISTORIES = st.lists(
    st.tuples(st.one_of(STEPS, STEPS, STEPS, st.integers(-1000, 0)), st.integers(0, 2000)), min_size=1, max_size=120
)


def wrapped(number: int) -> int:
    """Return ``number`` as a Java long."""
    return (number + 2**63) % 2**64 - 2**63


@dataclass(eq=False)
class JavaSync:
    up: int
    down: int


@dataclass
class JavaArray:
    """OffsetSyncStore.updateSyncArray: every slot finds its replacement before it checks whether it needs one."""

    loading_last_only: bool
    syncs: list[JavaSync] = field(default_factory=list)

    @staticmethod
    def satisfies_b(newer: JavaSync, older: JavaSync, i: int, j: int) -> bool:
        right = wrapped(older.up + wrapped(1 << j) - (1 << i))
        return newer is older or right < 0 or newer.up <= right

    @staticmethod
    def satisfies_c(newer: JavaSync, older: JavaSync, i: int) -> bool:
        right = wrapped(older.up + (1 << max(i - 2, 0)))
        return newer is older or (right >= 0 and newer.up >= right)

    def update(self, new: JavaSync) -> None:
        if not self.syncs or self.loading_last_only or new.up < self.syncs[0].up:
            self.syncs = [new] * 64
            return
        old, now = self.syncs, self.syncs.copy()
        now[0] = new
        replacement, r = new, 0
        for current in range(1, 64):
            more = True
            while more:
                it, before = old[r], now[current - 1]
                b = self.satisfies_b(before, it, current - 1, current)
                c = self.satisfies_c(before, it, current - 1)
                c_next = current == 63 or self.satisfies_c(it, now[current + 1], current)
                duplicate = r < 63 and old[r + 1] is it
                promoted = b and c and c_next
                if promoted:
                    replacement = it
                skip = duplicate or not c
                r += promoted or skip
                more = skip and r < current
            if self.satisfies_b(now[current - 1], now[current], current - 1, current):
                break
            now[current] = replacement
        self.syncs = now

    def translate(self, group: int) -> int:
        found = next((sync for sync in self.syncs if sync.up <= group), self.syncs[63])
        if found.up > group:
            return -1
        return found.down + (found.up != group)


@given(history=HISTORIES, loaded=st.integers(0, 40), only_last=st.booleans(), positions=st.lists(STEPS, max_size=20))
def test_same_slots_and_translations_as_java(
    history: list[tuple[int, int]], loaded: int, only_last: bool, positions: list[int]
) -> None:
    ours, java = OffsetSyncStore(must_read_to_end=only_last), JavaArray(loading_last_only=only_last)
    up = 0
    for number, (step, down) in enumerate(history):
        up = min(max(0, up + step), LONG_MAX)
        if number == loaded:
            ours.read_to_end()
            java.loading_last_only = False
        ours.apply(OffsetSync(topic_partition=TP, upstream_offset=up, downstream_offset=down))
        java.update(JavaSync(up, down))
        slots = java.syncs
        different = {
            slot: (sync.up, sync.down) for slot, sync in enumerate(slots) if slot == 0 or slots[slot - 1] is not sync
        }
        kept = ours.syncs(TP)
        assert {slot: (sync.upstream_offset, sync.downstream_offset) for slot, sync in kept.items()} == different
    ours.read_to_end()
    near = [sync.up + step for sync in java.syncs for step in (-1, 0, 1)]
    for group in (*near, *positions, LONG_MAX):
        match ours.translate(TP, group):
            case Translated(offset=offset):
                assert offset == java.translate(group)
            case other:
                assert other == TooOld(first=java.syncs[63].up)
                assert java.translate(group) == -1


@given(history=HISTORIES)
def test_invariants_for_all_pairs_of_slots(history: list[tuple[int, int]]) -> None:
    store = OffsetSyncStore(must_read_to_end=False)
    earliest = up = 0
    for number, (step, down) in enumerate(history):
        before, up = up, min(max(0, up + step), LONG_MAX)
        if number == 0 or up < before:
            earliest = up
        store.apply(OffsetSync(topic_partition=TP, upstream_offset=up, downstream_offset=down))
        starts = store.syncs(TP)
        u: list[int] = []
        of: list[OffsetSync] = []
        for slot in range(SLOTS):
            of.append(starts[slot] if slot in starts else of[-1])
            u.append(of[-1].upstream_offset)
        assert (u[0], of[0].downstream_offset) == (up, down)  # A
        assert u[-1] == earliest or up - earliest > 2**62  # D, except where B requires otherwise
        for j in range(SLOTS):
            for i in range(j):
                if of[i] is not of[j]:
                    assert u[i] <= u[j] + 2**j - 2**i  # B
                    assert u[i] == u[j] or u[i] >= u[j] + 2 ** max(i - 2, 0)  # C


@given(
    bits=st.integers(0, 50),
    least=st.sampled_from([1, 100, 2**16]),
    even=st.booleans(),
    steps=st.lists(st.integers(0, 2**50), min_size=1, max_size=150),
)
def test_few_syncs_are_dropped_at_a_time(bits: int, least: int, even: bool, steps: list[int]) -> None:
    """Java's own bounds: one sync if their distances are equal, n + 2 if the distances differ by at most n bits."""
    store = OffsetSyncStore(must_read_to_end=False)
    up, count, bound = 0, 0, 1 if even else bits + 2
    for step in steps:
        store.apply(OffsetSync(topic_partition=TP, upstream_offset=up, downstream_offset=up))
        kept = len(store.syncs(TP))
        assert count + 1 - kept <= bound
        count = kept
        up += least if even else least + step % 2**bits
