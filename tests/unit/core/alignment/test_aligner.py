"""Which copies are found; letters are contents, a space is an offset without a record."""

from __future__ import annotations

import pytest

from mm2.core.alignment.aligner import Alignment, RecordOffsets, SourceRecords, TargetAligner
from mm2.core.offsets.copied_ranges import CopiedRange


def aligned(source: str, target: str, *, most_anchors: int = 1_000) -> Alignment:
    known = SourceRecords(most_anchors=most_anchors)
    for offset, content in enumerate(source):
        if content == "?":
            known.add_unreadable(offset)
        elif content != " ":
            known.add(offset, ord(content))
    aligner = TargetAligner(known)
    for offset, content in enumerate(target):
        if content == "?":
            aligner.add_unreadable(offset)
        elif content != " ":
            aligner.add(offset, ord(content))
    return aligner.aligned()


def ranges(source: str, target: str, *, most_anchors: int = 1_000) -> list[tuple[int, ...]]:
    return [tuple(one) for one in aligned(source, target, most_anchors=most_anchors).ranges]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("", "", []),
        ("abc", "", []),
        ("", "abc", []),
        ("abc", "abc", [(0, 0, 3, 0)]),
        ("  abc", "xyabc", [(2, 2, 3, 0)]),  # what is before the first copy is no hole
        ("ab  cd", "abcd", [(0, 0, 2, 0), (4, 2, 2, 2)]),  # a hole on the source
        ("abcd", "ab cd", [(0, 0, 2, 0), (2, 3, 2, 0)]),  # a marker on the target
        ("ab cd", "ab cd", [(0, 0, 2, 0), (3, 3, 2, 1)]),
        ("ab cd", "abxcd", [(0, 0, 2, 0), (3, 3, 2, 0)]),  # x may be a copy of what was deleted in between
        ("abcd", "abxcd", [(0, 0, 2, 0), (2, 3, 2, 0)]),  # x is of others
        ("abXcd", "abcd", [(0, 0, 2, 0), (3, 2, 2, 0)]),  # X is not on the target: no hole
        ("abcd", "ababcd", [(0, 2, 4, 0)]),  # repeated up to the end: the last copies count
        ("abcd", "abcdab", [(0, 0, 4, 0)]),  # not yet repeated up to the end
        ("abcdef", "abcdeabcef", [(0, 0, 4, 0), (4, 8, 2, 0)]),  # the repeat lacks d
        ("abcd", "abcbcabcd", [(0, 5, 4, 0)]),  # a repeat that was repeated
        ("abcdef", "abcdbcbcdef", [(0, 0, 1, 0), (1, 6, 5, 0)]),
        ("abcde", "abcdebdbcde", [(0, 0, 1, 0), (1, 7, 4, 0)]),  # b, which d does not continue
        ("abcdef", "abcdefbcdcdef", [(0, 0, 1, 0), (1, 6, 1, 0), (2, 9, 4, 0)]),  # a repeat that begins again
        ("aXXb", "aXXb", [(0, 0, 4, 0)]),  # equal records in their place
        ("aXXb", "aXb", [(0, 0, 1, 0), (3, 2, 1, 0)]),  # which X is it?
        ("aXX", "aXX", [(0, 0, 1, 0)]),  # nothing behind them tells
        ("a?b", "a?b", [(0, 0, 1, 0), (2, 2, 1, 0)]),  # cannot be read
        ("abc", "bca", [(1, 0, 2, 0)]),  # not yet repeated up to the end
    ],
)
def test_ranges(source: str, target: str, expected: list[tuple[int, ...]]) -> None:
    assert ranges(source, target) == expected


def test_a_repeat_counts_only_when_nothing_hidden_can_be_behind_it() -> None:
    """XX, whose copies cannot be told apart, were copied before cd were repeated, and are not repeated yet."""
    assert ranges("abcdXXef", "abcdXXcd") == [(0, 0, 4, 0)]
    assert ranges("abcdXXef", "abcdXXcdXXef") == [(0, 0, 2, 0), (2, 6, 6, 0)]
    assert ranges("abcdXX", "abcdXXcd") == [(0, 0, 4, 0)], "there is no anchor behind XX"


def test_what_is_reported() -> None:
    found = aligned("abcd e", "abxababcd")
    assert (found.source, found.target, found.explained, found.repeated, found.others) == (5, 9, 4, 4, 1)
    assert found.ranges == (CopiedRange(0, 5, 4),)
    assert not found.reaches_end, "e is not copied"
    assert aligned("abc  ", "ab c").reaches_end
    assert not aligned("abc", "abcx").reaches_end, "x may be a copy of what was deleted behind c"
    assert not aligned("", "").reaches_end


def test_a_large_partition_has_some_anchors() -> None:
    """Those whose fingerprint is even, then every fourth; what is between them is compared as a whole."""
    many = "".join(chr(number) for number in range(0x100, 0x180))
    known = SourceRecords(most_anchors=20)
    for offset, content in enumerate(many):
        known.add(offset, ord(content))
    assert known.every == 8
    assert len(known.anchors()) == 16
    assert ranges(many, many, most_anchors=20) == [(0, 0, 128, 0)]
    changed = many[:41] + "x" + many[42:]  # between the anchors 40 and 48
    assert ranges(many, changed, most_anchors=20) == [(0, 0, 41, 0), (48, 48, 80, 0)]


def test_both_ends_of_a_large_partition_are_compared_one_by_one() -> None:
    many = "".join(chr(number) for number in range(0x101, 0x17F))  # begins and ends between anchors
    (found,) = ranges(many, many, most_anchors=20)
    assert found == (7, 7, 119, 0), "the first records are conservative, the last ones exact"
    twice = many + many[-2] + "z"
    assert ranges(twice, twice, most_anchors=20) == [(7, 7, 117, 0)], "only as long as records differ"
    assert ranges(many, many[:-2], most_anchors=20) == [(7, 7, 117, 0)]


def test_an_ambiguous_anchor_is_none_also_after_others_were_dropped() -> None:
    known = SourceRecords(most_anchors=4)
    for offset, record in enumerate([8, 8, 16, 24, 1, 2, 3, 5, 8]):
        known.add(offset, record)
    assert known.anchor(8) is None
    assert known.anchor(16) is not None
    assert known.anchor(1) is None


def test_the_tail_is_limited() -> None:
    """The last anchor is too far from the end for a comparison one by one."""
    records = [0] + [2 * number + 1 for number in range(1, 5_000)]
    known = SourceRecords(most_anchors=1)
    for offset, record in enumerate(records):
        known.add(offset, record)
    aligner = TargetAligner(known)
    for offset, record in enumerate(records):
        aligner.add(offset, record)
    assert aligner.aligned().ranges == (CopiedRange(0, 0, 1),)


def test_offsets_must_increase() -> None:
    offsets = RecordOffsets()
    for one in (3, 4, 9):
        offsets.add(one)
    assert list(offsets.pieces(0, 3)) == [(3, 2), (9, 1)]
    assert list(offsets.pieces(1, 1)) == [(4, 1)]
    assert list(offsets.pieces(2, 0)) == []
    with pytest.raises(ValueError, match="offset 4 after 9"):
        offsets.add(4)
