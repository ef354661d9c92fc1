"""Packed ranges: what they contain, how small they are, and where an offset in them is."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.packed_ranges import LIMITS, PackedRanges, TargetOffset, read_packed
from mm2.core.wire.formats import FormatError, encode_unsigned

Shape = Callable[[random.Random], tuple[int, int, int]]
"""Return the hole before a range, the target offsets skipped before it, and its records."""


def geometric(rng: random.Random) -> int:
    number = 1
    while rng.random() < 0.5:
        number += 1
    return number


def ranges(count: int, shape: Shape, *, upstream: int = 0, downstream: int = 0, seed: int = 1) -> list[CopiedRange]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        hole, skipped, records = shape(rng)
        upstream, downstream = upstream + hole, downstream + skipped
        found.append(CopiedRange(upstream, downstream, records, hole))
        upstream, downstream = found[-1].upstream_end, found[-1].downstream_end
    return found


SHAPES: dict[str, tuple[Shape, float]] = {
    "a marker after a constant number of records": (lambda _: (0, 1, 100), 0.3),
    "a marker after 80 to 120 records": (lambda rng: (0, 1, rng.randint(80, 120)), 6.5),
    "a marker after about 1,000 records": (lambda rng: (0, 1, int(rng.gauss(1_000, 32))), 8.2),
    "a marker after any number of records": (lambda rng: (0, 1, rng.randint(1, 10**6)), 27.0),
    "markers of both sides": (lambda rng: (*rng.choice([(1, 0), (0, 1), (1, 1)]), rng.randint(30, 60)), 8.5),
    "every second record dropped": (lambda _: (1, 0, 1), 0.3),
    "half of the records dropped": (lambda rng: (geometric(rng), 0, geometric(rng)), 5.6),
    "compacted": (lambda rng: (rng.randint(1, 400), 0, geometric(rng)), 15.6),
    "mostly compacted": (lambda rng: (rng.randint(1, 10**9), 0, 1), 45.0),
}


@pytest.mark.parametrize(("shape", "bits"), SHAPES.values(), ids=SHAPES)
def test_size_and_content(shape: Shape, bits: float) -> None:
    """``bits`` for each range, at most."""
    expected = ranges(1_200, shape, upstream=2**40, downstream=2**41)
    packed = PackedRanges.of(expected[:24])
    for start in range(24, 1_200, 24):
        packed = packed.extended(expected[start : start + 24])
    assert list(packed.ranges()) == expected
    assert len(packed.deflated) * 8 / 1_200 < bits
    assert packed.clean
    assert read_packed(packed.encode()) == packed
    for copied in expected[1:]:
        assert packed.find(copied.upstream) == place(copied.downstream)
        assert packed.find(copied.upstream_end - 1) == place(copied.downstream_end - 1)
        into_hole = copied.hole // 2
        assert packed.find(copied.upstream - into_hole) == place(copied.downstream, hole=into_hole > 0)


def place(offset: int, *, hole: bool = False) -> TargetOffset:
    return TargetOffset(offset, offset, 0, exact=True, hole=hole)


def test_equal_ranges_are_counted() -> None:
    few, many = ranges(7, SHAPES["every second record dropped"][0]), ranges(1_000, lambda _: (1, 0, 1))
    assert PackedRanges.of(few).tokens == 7
    packed = PackedRanges.of(many)
    assert packed.tokens < 30
    assert list(packed.ranges()) == many


def test_full_by_bytes_or_by_tokens() -> None:
    small = ranges(600, lambda rng: (0, 1, rng.randint(80, 120)))
    assert not PackedRanges.of(small).is_full()
    assert PackedRanges.of(ranges(1_900, lambda rng: (0, 1, rng.randint(80, 120)))).is_full()
    alternating = iter([(1, 0, 1), (1, 0, 2)] * LIMITS.tokens)
    packed = PackedRanges.of(ranges(LIMITS.tokens, lambda _: next(alternating)))
    assert packed.is_full()
    assert len(packed.deflated) < 100


def test_repeated_ranges_and_unexplained_gaps_are_not_clean() -> None:
    first = CopiedRange(100, 50, 10, 3)
    assert PackedRanges.of([first]).clean
    for other in (
        CopiedRange(105, 60, 10),  # repeated
        CopiedRange(115, 60, 10, 4),  # one offset is not a hole
        CopiedRange(110, 63, 2),  # three target offsets, two records
    ):
        packed = PackedRanges.of([first, other, CopiedRange(200, 100, 1, 1)])
        assert not packed.clean
        assert list(packed.ranges()) == [first, other, CopiedRange(200, 100, 1, 1)]
        assert not packed.follows(CopiedUpTo())
        assert packed.progress_after(CopiedUpTo()) == CopiedUpTo().after(first).after(other).after(
            CopiedRange(200, 100, 1, 1)
        )


def test_what_packed_ranges_can_follow() -> None:
    packed = PackedRanges.of([CopiedRange(100, 50, 10, 3), CopiedRange(111, 61, 5, 1)])
    for reach in (CopiedUpTo(), CopiedUpTo(97, 50), CopiedUpTo(100, 49), CopiedUpTo(90, 42)):
        assert packed.follows(reach)
        assert packed.progress_after(reach) == CopiedUpTo(116, 66)
    for reach in (CopiedUpTo(101, 50), CopiedUpTo(97, 48), CopiedUpTo(97, 50, 1)):
        assert not packed.follows(reach)


def test_an_unexplained_gap_bounds_its_offsets() -> None:
    packed = PackedRanges.of([CopiedRange(0, 0, 10), CopiedRange(30, 25, 5, 4)])
    assert packed.find(20) == TargetOffset(10, 25, 10, exact=False)
    assert packed.find(26) == place(25, hole=True)


def test_ranges_before_an_offset() -> None:
    regular = ranges(100, lambda _: (1, 0, 2))
    packed = PackedRanges.of([*ranges(20, lambda rng: (rng.randint(1, 9), 1, 4)), CopiedRange(1_000, 500, 10)])
    for whole in (packed, PackedRanges.of(regular), packed.extended([CopiedRange(1_010, 510, 0), *shifted(regular)])):
        expected = list(whole.ranges())
        for upstream in range(whole.upstream + 1, whole.upstream_end + 3):
            kept = whole.before(upstream)
            assert list(kept.ranges()) == [
                one._replace(records=min(one.records, upstream - one.upstream))
                for one in expected
                if one.upstream < upstream
            ]


def shifted(found: list[CopiedRange]) -> list[CopiedRange]:
    return [one._replace(upstream=one.upstream + 1_010, downstream=one.downstream + 510) for one in found]


def test_incomplete_data_is_rejected() -> None:
    encoded = PackedRanges.of([CopiedRange(100, 50, 10, 3)]).encode()
    with pytest.raises(FormatError, match="packed ranges: base"):
        read_packed(encoded[:1])


def forged(columns: bytes, *, tokens: int = 1, base: int = 10, source: int = 20, target: int = 10) -> PackedRanges:
    """A pack from offset 5 on both sides that others wrote."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -12)
    deflated = deflate.compress(columns) + deflate.flush()
    numbers = (tokens, base, 5, 5, 0, 2 * source, target)
    return read_packed(b"".join(map(encode_unsigned, numbers)) + deflated)


@pytest.mark.parametrize(
    ("columns", "numbers"),
    [
        (b"", {}),
        (b"\x02\x00", {}),
        (b"\x02\x00\x00" * 2, {}),
        (bytes(100_000_000), {}),
        (b"\x00\x00\x00", {}),  # the rest is missing
        (b"\xff\x00\x00" + b"\xff" * 20, {}),
        (b"\x02\x13\x00", {"source": 1, "target": 0}),  # no record
        (b"\x02\xff\x00" + b"\x7f", {"source": 2, "target": 1}),  # less than none
        (b"\x02\x00\x00", {"source": 12}),  # another end
        (b"\x00\x00\x00" + b"\x01\x00\x00", {"source": 9}),  # backwards
    ],
    ids=["empty", "short", "more", "bomb", "rest", "endless", "no record", "below 0", "end", "backwards"],
)
def test_what_is_no_pack_is_a_format_error_that_takes_no_memory(columns: bytes, numbers: dict[str, int]) -> None:
    pack = forged(columns, **numbers)
    tracemalloc.start()
    try:
        for use in (
            lambda: pack.find(6),
            lambda: list(pack.ranges()),
            lambda: pack.before(6),
            lambda: pack.extended([CopiedRange(pack.upstream_end, pack.downstream_end, 1)]).find(6),
        ):
            with pytest.raises(FormatError, match="cannot read packed ranges: "):
                use()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_pack_from_others_that_is_right() -> None:
    assert list(forged(b"\x02\x00\x00", source=11).ranges()) == [CopiedRange(6, 5, 10, 1)]


@pytest.mark.parametrize("tokens", [0, 1 << 17, 1 << 60])
def test_the_number_of_tokens_is_limited(tokens: int) -> None:
    with pytest.raises(FormatError, match=f"cannot read packed ranges: {tokens} tokens"):
        forged(bytes(3), tokens=tokens)


def test_columns_that_are_not_deflated() -> None:
    pack = read_packed(bytes((1, 10, 5, 5, 0, 40, 10)) + b"\xff\xff\xff")
    with pytest.raises(FormatError, match="cannot read packed ranges: Error -3"):
        pack.find(6)
