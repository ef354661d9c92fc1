"""Many copied ranges in about one byte each, for partitions whose offsets have gaps everywhere.

Gaps come from transaction markers of the source and of the target, from compaction, and from records that are dropped.
Ranges are encoded as steps from the end of the previous one, in columns that are deflated together:

    gaps     one byte per token: 2 * hole + 1 if one target offset is skipped. The hole ends where the previous range
             ends. ESCAPE: the rest has what is missing to the number. IRREGULAR: the rest has step, hole and ahead.
    sizes    one byte per token: records minus ``base``, as zigzag. ESCAPE as above.
    repeats  one byte per token: how many more ranges of the same gap and size follow
    rest     numbers as `formats.Fields.unsigned`, in the order of the tokens, the one of the gap first

    zigzag   2s, or -2s-1 for a number below 0
    step     from the end of the previous range to the first source offset, zigzag; ahead: the same for the target

A constant column takes some bytes in all, a varying one little more than its entropy: a target marker after 80 to 120
records about 6 bits, a filter that drops half of the records at random about 1.2 bits for each source offset, one that
drops every second record next to nothing.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.wire.formats import Fields, FormatError, encode_unsigned

PACK_BYTES = 1_200
"""A pack of this size is full. The last one is written again with every commit of a transaction, so it is small."""

MOST_TOKENS = 1 << 16
"""A pack from others may have as many tokens: sixteen times what is packed here."""

_TOKEN_BYTES = 43  # of the columns at most: three, and four numbers of ten bytes in the rest

ESCAPE = 255
IRREGULAR = 0
_MOST_REPEATS = 254

_WINDOW_BITS = -12  # raw, 4 KB
_MEMORY = 5  # for deflate, small since the input is: 20 µs instead of 60 µs
_DECODED_PACKS = 32  # kept, of 150 KB each, at most 500 KB


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingLimits:
    """How many ranges are packed together."""

    tokens: int = 4_096
    """A pack with this many tokens is full, too: decoding them takes about 2 ms."""
    alike: int = 8
    """Equal ranges that become one token with repeats; fewer are shorter one by one."""
    journal_kept: int = 8
    """Ranges of a segment that stay unpacked when the others are packed, which takes about 100 µs: so it is done once
    for 24 ranges."""
    unpacked: int = 64
    """Ranges in memory that are not packed. More are packed, which takes about 4 µs for each."""
    kept: int = 16
    """Ranges in memory that stay unpacked then."""


LIMITS = PackingLimits()


class Token(NamedTuple):
    """``times`` ranges of ``records`` records. Before each, ``step`` source offsets and ``ahead`` target offsets are
    skipped; the last ``hole`` of the source offsets carry no record."""

    step: int
    hole: int
    ahead: int
    records: int
    times: int


class TargetOffset(NamedTuple):
    """Where a source offset is on the target: at ``most``, if ``exact``. Otherwise records between ``least`` and
    ``most`` may belong to it or to the ``behind`` source offsets before it. ``hole``: it is in a hole, and ``most`` is
    the first record after it."""

    least: int
    most: int
    behind: int
    exact: bool
    hole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRanges:
    """Ranges in the order of their acknowledgement; never empty. ``upstream``, ``downstream`` and ``hole`` are those of
    the first one, ``upstream_end`` and ``downstream_end`` those of the last one.

    ``clean``: each range after the first one starts behind the previous one, with a hole in between or none, and skips
    no more target offsets than it has records. So no record is repeated within, and none is in doubt at its end.
    """

    upstream: int
    downstream: int
    hole: int
    upstream_end: int
    downstream_end: int
    clean: bool
    tokens: int
    base: int
    deflated: bytes

    @classmethod
    def of(cls, ranges: Iterable[CopiedRange], limits: PackingLimits = LIMITS) -> PackedRanges:
        """Pack at least one range."""
        builder = _Builder(limits)
        builder.extend(ranges)
        return builder.packed()

    def is_full(self, limits: PackingLimits = LIMITS) -> bool:
        """Return whether the next range belongs into another pack."""
        return len(self.deflated) >= PACK_BYTES or self.tokens >= limits.tokens

    def extended(self, ranges: Iterable[CopiedRange], limits: PackingLimits = LIMITS) -> PackedRanges:
        """Return a pack of these and more ranges."""
        builder = _Builder(limits, self)
        builder.extend(ranges)
        return builder.packed()

    def ranges(self) -> Iterator[CopiedRange]:
        """Yield all ranges."""
        upstream, downstream = self.upstream, self.downstream
        for token in decoded(self).tokens:
            for copied in _ranges(token, upstream, downstream):
                yield copied
                upstream, downstream = copied.upstream_end, copied.downstream_end

    def follows(self, reach: CopiedUpTo) -> bool:
        """Return whether the ranges continue ``reach`` without repeated or doubtful records."""
        if not self.clean or reach.doubt or self.upstream < reach.upstream:
            return False
        by_others = max(0, self.upstream - self.hole - reach.upstream)
        return reach.downstream < 0 or self.downstream - reach.downstream - by_others <= 1

    def progress_after(self, reach: CopiedUpTo) -> CopiedUpTo:
        """Return the progress after ``reach`` and these ranges."""
        if self.follows(reach):
            return CopiedUpTo(self.upstream_end, self.downstream_end)
        for copied in self.ranges():
            reach = reach.after(copied)
        return reach

    def before(self, upstream: int, limits: PackingLimits = LIMITS) -> PackedRanges:
        """Return the ranges before source offset ``upstream``, which is after the first one. They must be in order."""
        builder = _Builder(limits)
        known = decoded(self)
        at = min(bisect_left(known.upstream, upstream), len(known.tokens)) - 1
        builder.add_tokens(known, 0, at)
        for copied in _ranges(known.tokens[at], known.upstream[at], known.downstream[at]):
            if copied.upstream < upstream:
                builder.add(copied._replace(records=min(copied.records, upstream - copied.upstream)))
        return builder.packed()

    def find(self, upstream: int) -> TargetOffset:
        """Return the place of a source offset between the first and the end of the last range, which are in order."""
        known = decoded(self)
        at = bisect_right(known.upstream, upstream) - 1
        step, hole, ahead, records, _ = known.tokens[at]
        earlier, into = divmod(upstream - known.upstream[at], step + records)
        end = known.downstream[at] + earlier * (ahead + records)
        if into >= step - hole:
            place = end + ahead + max(0, into - step)
            return TargetOffset(place, place, 0, exact=True, hole=into < step)
        return TargetOffset(end, end + ahead, into, exact=False)

    def encode(self) -> bytes:
        """Return the form that `read_packed` reads. The ranges must be clean."""
        return b"".join(
            (
                encode_unsigned(self.tokens),
                encode_unsigned(self.base),
                encode_unsigned(self.upstream),
                encode_unsigned(self.downstream),
                encode_unsigned(self.hole),
                encode_unsigned(_zigzag(self.upstream_end - self.upstream)),
                encode_unsigned(self.downstream_end - self.downstream),
                self.deflated,
            )
        )


def read_packed(data: bytes) -> PackedRanges:
    """Read what `PackedRanges.encode` returned.

    The columns are decoded later, if they are used: what uses them raises FormatError, too. Raises FormatError.
    """
    fields = Fields("packed ranges", data)
    tokens, base = fields.unsigned("number of tokens"), fields.unsigned("base")
    if not 0 < tokens <= MOST_TOKENS:
        raise FormatError(f"cannot read packed ranges: {tokens} tokens; 1 to {MOST_TOKENS} are possible")
    upstream, downstream = fields.unsigned("first source offset"), fields.unsigned("first target offset")
    return PackedRanges(
        upstream=upstream,
        downstream=downstream,
        hole=fields.unsigned("first hole"),
        upstream_end=upstream + _signed(fields.unsigned("source offsets")),
        downstream_end=downstream + fields.unsigned("target offsets"),
        clean=True,
        tokens=tokens,
        base=base,
        deflated=fields.raw("columns", fields.left),
    )


class DecodedPack(NamedTuple):
    """``upstream`` and ``downstream`` are the offsets at which each token starts, and the end of the last one."""

    tokens: list[Token]
    upstream: list[int]
    downstream: list[int]


@lru_cache(_DECODED_PACKS)
def decoded(packed: PackedRanges) -> DecodedPack:
    """Decode a pack: about half a microsecond per token. Raises FormatError if others wrote it, and it is no pack."""
    tokens = list(_Columns(LIMITS, packed).tokens())
    known = DecodedPack(
        tokens,
        list(accumulate(((one.step + one.records) * one.times for one in tokens), initial=packed.upstream)),
        list(accumulate(((one.ahead + one.records) * one.times for one in tokens), initial=packed.downstream)),
    )
    ends = known.upstream[-1], known.downstream[-1]
    if packed.clean and (ends != (packed.upstream_end, packed.downstream_end) or not all(map(_is_forward, tokens))):
        raise FormatError("cannot read packed ranges: they do not lead from their first to their last offset")
    return known


def _is_forward(token: Token) -> bool:
    return token.step >= 0 <= token.ahead and token.records > 0


def _ranges(token: Token, upstream: int, downstream: int) -> Iterator[CopiedRange]:
    step, hole, ahead, records, times = token
    for _ in range(times):
        yield CopiedRange(upstream + step, downstream + ahead, records, hole)
        upstream += step + records
        downstream += ahead + records


def _inflated(packed: PackedRanges) -> bytes:
    inflater = zlib.decompressobj(_WINDOW_BITS)
    try:
        columns = inflater.decompress(packed.deflated, packed.tokens * _TOKEN_BYTES)
    except zlib.error as error:
        raise FormatError(f"cannot read packed ranges: {error}") from None
    if not inflater.eof or len(columns) < 3 * packed.tokens:
        raise FormatError(f"cannot read packed ranges: {packed.tokens} tokens do not take {len(columns)} bytes")
    return columns


class _Columns:
    __slots__ = ("_earlier", "base", "gaps", "repeats", "rest", "sizes")

    def __init__(self, limits: PackingLimits, packed: PackedRanges | None = None) -> None:
        self._earlier = limits.alike - 1
        self.base = 0
        self.gaps, self.sizes, self.repeats, self.rest = bytearray(), bytearray(), bytearray(), bytearray()
        if packed is not None:
            count = packed.tokens
            columns = _inflated(packed)
            self.base = packed.base
            self.gaps += columns[:count]
            self.sizes += columns[count : 2 * count]
            self.repeats += columns[2 * count : 3 * count]
            self.rest += columns[3 * count :]

    def add(self, step: int, hole: int, ahead: int, records: int, times: int = 1) -> None:
        regular = 0 <= step == hole and 0 <= ahead <= 1 and step + ahead > 0 and records > 0
        gap = 2 * hole + ahead if regular else IRREGULAR
        size = _zigzag(records - self.base)
        if times == 1 and regular and max(gap, size) < ESCAPE and self._repeated(gap, size):
            return
        if not regular:
            self.rest += encode_unsigned(_zigzag(step)) + encode_unsigned(hole) + encode_unsigned(ahead)
        self._append(self.gaps, gap)
        self._append(self.sizes, size)
        self.repeats.append(times - 1)

    def tokens(self) -> Iterator[Token]:
        rest = Fields("packed ranges", bytes(self.rest))
        for gap, size, repeats in zip(self.gaps, self.sizes, self.repeats, strict=True):
            if gap == IRREGULAR:
                step, hole, ahead = _signed(rest.unsigned("step")), rest.unsigned("hole"), rest.unsigned("ahead")
            else:
                number = gap if gap < ESCAPE else ESCAPE + rest.unsigned("gap")
                step = hole = number >> 1
                ahead = number & 1
            number = size if size < ESCAPE else ESCAPE + rest.unsigned("size")
            yield Token(step, hole, ahead, self.base + _signed(number), repeats + 1)

    def deflated(self) -> bytes:
        """Return the shorter of two forms: with a code for each column, or with repeated sequences replaced."""
        columns = self.gaps, self.sizes, self.repeats, self.rest
        codes = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, _MEMORY, zlib.Z_RLE)
        by_column = b"".join(codes.compress(column) + codes.flush(zlib.Z_BLOCK) for column in columns) + codes.flush()
        sequences = zlib.compressobj(4, zlib.DEFLATED, _WINDOW_BITS, _MEMORY)
        as_one = sequences.compress(b"".join(columns)) + sequences.flush()
        return min(by_column, as_one, key=len)

    def _append(self, column: bytearray, number: int) -> None:
        column.append(min(number, ESCAPE))
        if number >= ESCAPE:
            self.rest += encode_unsigned(number - ESCAPE)

    def _repeated(self, gap: int, size: int) -> bool:
        """Count the range as a repetition of the last one, if it is one and there are enough of them."""
        if not self.gaps or gap != self.gaps[-1] or size != self.sizes[-1]:
            return False
        if 0 < self.repeats[-1] < _MOST_REPEATS:
            self.repeats[-1] += 1
            return True
        earlier = self._earlier
        if not (
            self.gaps.endswith(bytes([gap]) * earlier)
            and self.sizes.endswith(bytes([size]) * earlier)
            and self.repeats.endswith(bytes(earlier))
        ):
            return False
        for column in (self.gaps, self.sizes, self.repeats):
            del column[1 - earlier :]
        self.repeats[-1] = earlier
        return True


class _Builder:
    __slots__ = ("_clean", "_columns", "_first", "_next")

    def __init__(self, limits: PackingLimits, packed: PackedRanges | None = None) -> None:
        self._columns = _Columns(limits, packed)
        self._clean = True
        self._first: CopiedRange | None = None
        self._next = 0, 0
        if packed is not None:
            self._clean = packed.clean
            self._first = CopiedRange(packed.upstream, packed.downstream, 0, packed.hole)
            self._next = packed.upstream_end, packed.downstream_end

    def extend(self, ranges: Iterable[CopiedRange]) -> None:
        ranges = list(ranges)
        if self._first is None:
            self._columns.base = sorted(copied.records for copied in ranges)[len(ranges) // 2]
        for copied in ranges:
            self.add(copied)

    def add(self, copied: CopiedRange) -> None:
        if self._first is None:
            self._start(copied)
        upstream, downstream = self._next
        step, ahead = copied.upstream - upstream, copied.downstream - downstream
        if copied is not self._first:
            self._clean &= step == copied.hole and ahead <= copied.records
        self._columns.add(step, copied.hole, ahead, copied.records)
        self._next = copied.upstream_end, copied.downstream_end

    def add_tokens(self, known: DecodedPack, start: int, end: int) -> None:
        """Add the tokens from ``start`` to before ``end``."""
        for at in range(start, end):
            token = known.tokens[at]
            upstream, downstream = known.upstream[at], known.downstream[at]
            if self._first is None:
                for copied in _ranges(token, upstream, downstream):
                    self.add(copied)
                continue
            self._clean &= token.step == token.hole and token.ahead <= token.records
            self._columns.add(*token)
            self._next = known.upstream[at + 1], known.downstream[at + 1]

    def packed(self) -> PackedRanges:
        assert self._first is not None
        return PackedRanges(
            upstream=self._first.upstream,
            downstream=self._first.downstream,
            hole=self._first.hole,
            upstream_end=self._next[0],
            downstream_end=self._next[1],
            clean=self._clean,
            tokens=len(self._columns.gaps),
            base=self._columns.base,
            deflated=self._columns.deflated(),
        )

    def _start(self, copied: CopiedRange) -> None:
        self._first = copied
        self._next = copied.upstream, copied.downstream
        if not self._columns.base:
            self._columns.base = copied.records


def _zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _signed(zigzag: int) -> int:
    return -(zigzag + 1) // 2 if zigzag % 2 else zigzag // 2
