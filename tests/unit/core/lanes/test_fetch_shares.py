"""The division of mm2.max.bytes.per.second: the letters are those of `divide`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.lanes.fetch_shares import (
    HELD_UP,
    IDLE,
    KEPT_PERCENT,
    KEY,
    FetchShares,
    FetchTotals,
    FetchUse,
    decode_shares,
    differs,
    divide,
    encode_shares,
    share_of,
    use_of,
)
from mm2.core.wire.formats import FormatError

LIMIT = 1_000_000


def settled(loads: Mapping[int, int], partitions: Mapping[int, int], rounds: int, limit: int = LIMIT) -> dict[int, int]:
    """Return the shares after so many divisions, if source tasks fetch their ``loads``, or their shares."""
    shares = divide(limit, partitions, {}).shares
    for _ in range(rounds):
        totals = {one: FetchTotals(bytes=10 * min(loads[one], share)) for one, share in shares.items()}
        waits = {
            one: FetchTotals(bytes=totals[one].bytes, limited_s=8.0 * (loads[one] > shares[one])) for one in shares
        }
        uses = {one: use_of(FetchTotals(), waits[one], 10.0, shares[one]) for one in shares}
        shares = divide(limit, partitions, uses).shares
    return dict(shares)


def test_without_uses_partitions_decide() -> None:
    assert divide(LIMIT, {0: 3, 1: 1, 2: 0}, {}) == FetchShares(LIMIT, {0: 750_000, 1: 250_000})
    assert divide(LIMIT, {}, {}) == FetchShares(LIMIT, {})


def test_what_idle_source_tasks_do_not_use_goes_to_those_that_can() -> None:
    shares = divide(LIMIT, {0: 1, 1: 1, 2: 2}, {0: HELD_UP, 1: IDLE, 2: IDLE}).shares
    assert shares == {0: LIMIT - 12_500 - 25_000, 1: 12_500, 2: 25_000}


def test_a_source_task_that_is_not_held_up_keeps_its_use_and_some_headroom() -> None:
    shares = divide(LIMIT, {0: 1, 1: 1}, {0: HELD_UP, 1: FetchUse(300_000, False)}).shares
    assert shares == {0: 670_000, 1: 330_000}
    assert divide(LIMIT, {0: 1, 1: 1}, {0: HELD_UP, 1: FetchUse(480_000, False)}).shares == {0: 500_000, 1: 500_000}


def test_if_nothing_is_held_up_what_is_left_is_divided_by_partitions() -> None:
    uses = {0: FetchUse(100_000, False), 1: IDLE}
    shares = divide(LIMIT, {0: 1, 1: 1}, uses).shares
    assert sum(shares.values()) == LIMIT
    assert shares[0] - shares[1] == 110_000 - 25_000


@pytest.mark.parametrize(
    ("fetched", "limited_s", "use"),
    [
        (0, 0.0, IDLE),
        (5_000_000, 0.9, FetchUse(500_000, False)),
        (5_000_000, 1.0, FetchUse(500_000, True)),  # waited for a tenth of the time
        (9_600_000, 0.0, FetchUse(960_000, False)),
        (9_700_000, 0.0, FetchUse(970_000, True)),  # never waited, since requests take long
    ],
)
def test_use_between_two_reports(fetched: int, limited_s: float, use: FetchUse) -> None:
    before = FetchTotals(bytes=7, limited_s=3.0)
    assert use_of(before, FetchTotals(bytes=7 + fetched, limited_s=3.0 + limited_s), 10.0, LIMIT) == use


def test_a_burst_of_an_idle_source_task_gets_its_part_in_the_next_division() -> None:
    idle = settled({0: 5 * LIMIT, 1: 0}, {0: 1, 1: 1}, 3)
    assert idle == {0: 975_000, 1: 25_000}
    uses = {0: FetchUse(975_000, True), 1: FetchUse(25_000, True)}
    assert divide(LIMIT, {0: 1, 1: 1}, uses).shares == {0: 500_000, 1: 500_000}


@given(
    st.integers(1_024, 10**12),
    st.dictionaries(
        st.integers(0, 40), st.tuples(st.integers(1, 500), st.integers(0, 10**12)), min_size=1, max_size=12
    ),
)
def test_any_loads(limit: int, tasks: dict[int, tuple[int, int]]) -> None:
    """(A), (B), and what the key promises: what can be used is used but for a tenth, and nobody has more than those
    that are held up."""
    partitions = {one: count for one, (count, _) in tasks.items()}
    loads = {one: load for one, (_, load) in tasks.items()}
    total = sum(partitions.values())
    for rounds in range(6):
        shares = settled(loads, partitions, rounds, limit)
        assert sum(shares.values()) <= max(limit, len(shares)), "(A)"
        assert sum(shares.values()) >= limit - len(shares), "(A)"
        assert all(
            share >= max(1, limit * KEPT_PERCENT * partitions[one] // (100 * total)) for one, share in shares.items()
        )
    used = sum(min(loads[one], share) for one, share in shares.items())
    assert used >= 0.85 * min(limit, sum(loads.values())) - len(shares)


def test_shares_reach_source_tasks_that_have_none_yet_and_files_that_have_changed() -> None:
    published = FetchShares(LIMIT, {0: 700_000, 1: 300_000})
    partitions = {0: 2, 1: 1, 2: 1}
    assert share_of(LIMIT, 0, partitions, published) == 700_000
    assert share_of(2 * LIMIT, 0, partitions, published) == 1_400_000, "the limit in this node's file is newer"
    assert share_of(1, 1, partitions, published) == 1, "never 0"
    assert share_of(LIMIT, 2, partitions, published) == 250_000
    assert share_of(LIMIT, 0, partitions, None) == 500_000
    assert share_of(LIMIT, 7, {}, None) == LIMIT, "the only source task, whose list is not known yet"


def test_small_changes_are_not_published() -> None:
    before = FetchShares(LIMIT, {0: 700_000, 1: 300_000})
    assert not differs(before, before)
    assert not differs(before, FetchShares(LIMIT, {0: 719_999, 1: 280_001}))
    assert differs(before, FetchShares(LIMIT, {0: 720_000, 1: 280_000}))
    assert differs(before, FetchShares(LIMIT, {0: 700_000}))
    assert differs(before, FetchShares(LIMIT + 1, before.shares))
    assert differs(None, before)


def test_encoded_record() -> None:
    value = b'{"limit":1000000,"shares":{"0":700000,"12":300000}}'
    assert KEY == b"mm2-fetch-shares"
    assert encode_shares(FetchShares(LIMIT, {12: 300_000, 0: 700_000})) == value
    assert decode_shares(value) == FetchShares(LIMIT, {0: 700_000, 12: 300_000})
    assert decode_shares(None) is None


@pytest.mark.parametrize(
    "value",
    [b"", b"[]", b"{}", b'{"limit":0,"shares":{}}', b'{"limit":5,"shares":{"x":1}}', b'{"limit":5,"shares":[1]}'],
)
def test_unreadable_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read fetch shares"):
        decode_shares(value)
