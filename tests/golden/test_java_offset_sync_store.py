"""Histories of offset syncs that Java's OffsetSyncStore went through: the same slots and translations here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mm2.core.formats import OffsetSync
from mm2.core.names import TopicPartition
from mm2.core.offset_sync_store import OffsetSyncStore
from mm2.core.offset_translation import NoSync, NotReady, TooOld, Translated
from tests.golden.vectors import java_vectors

HISTORIES: list[dict[str, Any]] = java_vectors("offset-sync-store")
TP = TopicPartition("t", 0)


def syncs_of(rows: Sequence[Sequence[int]]) -> Iterator[OffsetSync]:
    """A row is upstream and downstream offset of one sync, and for several their step and count."""
    for upstream, downstream, *rest in rows:
        step, count = rest or (0, 1)
        for number in range(count):
            yield OffsetSync(
                topic_partition=TP,
                upstream_offset=upstream + number * step,
                downstream_offset=downstream + number * step,
            )


def in_javas_words(store: OffsetSyncStore, position: int) -> int | None:
    match store.translate(TP, position):
        case Translated(offset=offset):
            return offset
        case TooOld():
            return -1
        case NoSync() | NotReady():
            return None


def looks_of(store: OffsetSyncStore, look: dict[str, Any]) -> dict[str, Any]:
    return {
        "applied": look["applied"],
        "slots": [[slot, sync.upstream_offset, sync.downstream_offset] for slot, sync in store.syncs(TP).items()],
        "translated": [[position, in_javas_words(store, position)] for position, _ in look["translated"]],
    }


@pytest.mark.parametrize(
    "history", HISTORIES, ids=lambda history: f"{history['kind']}, {history['must_read_to_end']}, {history['loaded']}"
)
def test_same_slots_and_translations(history: dict[str, Any]) -> None:
    store = OffsetSyncStore(must_read_to_end=history["must_read_to_end"])
    looks = iter(history["looks"])
    expected = next(looks, None)
    syncs = list(syncs_of(history["syncs"]))
    for applied in range(len(syncs) + 1):
        if applied:
            store.apply(syncs[applied - 1])
        ready_next = applied == history["loaded"]
        while expected is not None and expected["applied"] == applied:  # before, and once the start is over
            assert looks_of(store, expected) == expected
            expected = next(looks, None)
            if ready_next:
                store.read_to_end()
                ready_next = False
        if ready_next:
            store.read_to_end()
    assert expected is None, "not every look of Java's was compared"


def test_the_histories_have_what_matters() -> None:
    answers = {answer for history in HISTORIES for look in history["looks"] for _, answer in look["translated"]}
    largest = max(slot[1] for history in HISTORIES for look in history["looks"] for slot in look["slots"])
    assert {None, -1} < answers
    assert largest > 2**63 - 2**10
    assert {history["must_read_to_end"] for history in HISTORIES} == {True, False}
    assert {history["kind"] for history in HISTORIES} > {"random gaps", "rewinds", "repeats", "huge offsets"}
