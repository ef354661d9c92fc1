from __future__ import annotations

from collections.abc import Sequence

import pytest

from mm2.core.alignment.fingerprints import Sequence61, fingerprint, part

Header = tuple[str, bytes | None]


def of(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: Sequence[Header] = (), timestamp_ms: int | None = 5
) -> int:
    return fingerprint(key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)


@pytest.mark.parametrize(
    "other",
    [
        of(b"kv", b""),
        of(None, b"kv"),
        of(b"k", None),
        of(b"k", b""),
        of(timestamp_ms=6),
        of(timestamp_ms=None),
        of(headers=[("a", b"")]),
        of(headers=[("a", None)]),
        of(headers=[("a", b"1"), ("b", b"2")]),
        of(headers=[("b", b"2"), ("a", b"1")]),
        of(headers=[("a", b"1b"), ("", b"2")]),
    ],
)
def test_records_that_differ(other: int) -> None:
    assert other != of()
    assert 0 <= other < 1 << 64


def test_equal_records_have_the_same_fingerprint_in_every_release() -> None:
    assert of() == of()
    assert of(headers=[("größe", b"\x00"), ("\udce4", None)]) == of(headers=[("größe", b"\x00"), ("\udce4", None)])


def sequence(*records: int) -> Sequence61:
    found = Sequence61()
    for one in records:
        found.add(one)
    return found


def test_a_part_of_a_sequence() -> None:
    """It depends on the records in it and their order, and on nothing before."""
    first, second = sequence(1, 2, 3), sequence(9, 9)
    starts = first.value, second.value
    for one in (7, 8, 5):
        first.add(one)
        second.add(one)
    assert part(starts[0], first.value, 3) == part(starts[1], second.value, 3)
    assert sequence(7, 8, 5).value == part(starts[0], first.value, 3)
    assert sequence(8, 7, 5).value != sequence(7, 8, 5).value
