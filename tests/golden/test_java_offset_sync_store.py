"""Histories of offset syncs replayed in Java's OffsetSyncStore: the same slots and translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated
from mm2.core.wire.formats import OffsetSync
from tests.golden.vectors import java_vectors

HISTORIES: list[dict[str, Any]] = java_vectors("offset-sync-store")
TP = TopicPartition("t", 0)


def syncs_of(rows: Sequence[Sequence[int]]) -> Iterator[OffsetSync]:
    """Expand rows of upstream and downstream offsets; rows of several syncs also have a step and a count."""
    for upstream, downstream, *rest in rows:
        step, count = rest or (0, 1)
        for number in range(count):
            yield OffsetSync(
                topic_partition=TP,
                upstream_offset=upstream + number * step,
                downstream_offset=downstream + number * step,
            )


def as_java(store: OffsetSyncStore, position: int) -> int | None:
    match store.translate(TP, position):
        case Translated(offset=offset):
            return offset
        case TooOld():
            return -1
        case NoSync() | NotReady():
            return None


def results_of(store: OffsetSyncStore, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "applied": result["applied"],
        "slots": [[slot, sync.upstream_offset, sync.downstream_offset] for slot, sync in store.syncs(TP).items()],
        "translated": [[position, as_java(store, position)] for position, _ in result["translated"]],
    }


@pytest.mark.parametrize(
    "history", HISTORIES, ids=lambda history: f"{history['kind']}, {history['must_read_to_end']}, {history['loaded']}"
)
def test_same_slots_and_translations_as_java(history: dict[str, Any]) -> None:
    store = OffsetSyncStore(must_read_to_end=history["must_read_to_end"])
    results = iter(history["looks"])
    expected = next(results, None)
    syncs = list(syncs_of(history["syncs"]))
    for applied in range(len(syncs) + 1):
        if applied:
            store.apply(syncs[applied - 1])
        ready_next = applied == history["loaded"]
        while expected is not None and expected["applied"] == applied:  # before and after the store is ready
            assert results_of(store, expected) == expected
            expected = next(results, None)
            if ready_next:
                store.read_to_end()
                ready_next = False
        if ready_next:
            store.read_to_end()
    assert expected is None, "some results of Java were not compared"


def test_histories_cover_relevant_cases() -> None:
    answers = {answer for history in HISTORIES for result in history["looks"] for _, answer in result["translated"]}
    largest = max(slot[1] for history in HISTORIES for result in history["looks"] for slot in result["slots"])
    assert {None, -1} < answers
    assert largest > 2**63 - 2**10
    assert {history["must_read_to_end"] for history in HISTORIES} == {True, False}
    assert {history["kind"] for history in HISTORIES} > {"random gaps", "rewinds", "repeats", "huge offsets"}
