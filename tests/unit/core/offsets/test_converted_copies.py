from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.offsets.converted_copies import ComparedRecord, RecordPart, changed_parts

SOURCE = [
    ComparedRecord(key=b"k%d" % number, value=b"v%d" % number, headers=(), timestamp_ms=1_000 + number)
    for number in range(5)
]
JSON = b'{"schema":{"type":"bytes","optional":false},"payload":"djI="}'


def test_equal_records() -> None:
    assert changed_parts(SOURCE[2], SOURCE, reaches_end=True) == frozenset()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"value": JSON}, {RecordPart.VALUE}),
        ({"key": JSON}, {RecordPart.KEY}),
        ({"key": JSON, "value": JSON}, {RecordPart.KEY, RecordPart.VALUE}),
        ({"headers": (("h", b"1"),)}, {RecordPart.HEADERS}),
    ],
)
@pytest.mark.parametrize("reaches_end", [True, False])
def test_converted_records(changes: dict[str, object], parts: set[RecordPart], reaches_end: bool) -> None:
    copy = replace(SOURCE[2], **changes)  # type: ignore[arg-type]
    assert changed_parts(copy, SOURCE, reaches_end=reaches_end) == parts


def test_a_record_that_is_not_among_the_originals_is_unknown() -> None:
    copy = replace(SOURCE[2], value=JSON)
    assert changed_parts(copy, SOURCE[3:], reaches_end=True) == frozenset()
    assert changed_parts(copy, [], reaches_end=True) == frozenset()


def test_a_record_that_can_be_behind_the_originals_is_unknown() -> None:
    """Several records can have one timestamp, and those that were read may lack some of them."""
    last = replace(SOURCE[4], value=JSON)
    assert changed_parts(last, SOURCE, reaches_end=False) == frozenset()
    assert changed_parts(last, SOURCE, reaches_end=True) == {RecordPart.VALUE}


def test_several_originals_with_one_timestamp() -> None:
    twins = [replace(one, timestamp_ms=1_000) for one in SOURCE]
    assert changed_parts(twins[3], twins, reaches_end=True) == frozenset()
    assert changed_parts(replace(twins[3], value=JSON), twins, reaches_end=True) == {RecordPart.VALUE}


def test_records_without_timestamp_are_unknown() -> None:
    """Batches that cannot be read appear as one such record, without key and value."""
    old = [replace(one, timestamp_ms=-1) for one in SOURCE]
    assert changed_parts(replace(old[2], key=None, value=None), old, reaches_end=True) == frozenset()
