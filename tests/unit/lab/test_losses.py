"""Tests of the account of losses: what is neither copied nor on record is found, offset by offset."""

from __future__ import annotations

from tests.lab.history import Record
from tests.lab.losses import RecordedLoss, account


def record(offset: int, text: str = "") -> Record:
    return Record(0, offset, (b"k", (text or f"v{offset}").encode(), (), 1000))


def loss(first: int, last: int, *, partition: int = 0) -> RecordedLoss:
    return RecordedLoss(topic="t", partition=partition, first=first, last=last, kind="retention", reason="", time=1)


WRITTEN = {0: [record(offset) for offset in range(10)]}


def test_everything_copied() -> None:
    found = account(WRITTEN, WRITTEN, [])
    assert found.settled
    assert (found.copied, found.recorded) == (10, 0)


def test_missing_records_are_on_record() -> None:
    found = account(WRITTEN, {0: WRITTEN[0][:4] + WRITTEN[0][7:]}, [loss(4, 5), loss(6, 6)])
    assert found.settled
    assert (found.copied, found.recorded) == (7, 3)


def test_one_offset_too_few_on_record() -> None:
    remote = {0: WRITTEN[0][:4] + WRITTEN[0][7:]}
    assert [one.offset for one in account(WRITTEN, remote, [loss(4, 5)]).missing] == [6]
    assert [one.offset for one in account(WRITTEN, remote, [loss(5, 6)]).missing] == [4]
    assert [one.offset for one in account(WRITTEN, remote, [loss(4, 6, partition=1)]).missing] == [4, 5, 6]


def test_partition_without_copies() -> None:
    assert len(account(WRITTEN, {}, []).missing) == 10


def test_records_that_the_source_lost_after_they_were_copied() -> None:
    source = {0: [*WRITTEN[0][:6], record(6, "new")]}
    remote = {0: [*WRITTEN[0], record(6, "new")]}
    assert account(WRITTEN, remote, [loss(6, 9)], still_there=source).settled
    found = account(WRITTEN, remote, [loss(6, 8)], still_there=source)
    assert [one.offset for one in found.unexplained] == [9]
    assert "1 unexplained" in str(found)
