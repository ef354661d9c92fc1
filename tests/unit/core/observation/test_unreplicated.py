from __future__ import annotations

from mm2.core.observation.unreplicated import Unreplicated, unreplicated
from tests.contract.samples import partition, unheard


def test_no_partitions() -> None:
    assert unreplicated([]) is None


def test_sum_of_records_and_oldest_age() -> None:
    found = unreplicated([partition(0, lag_records=10, lag_seconds=1.5), partition(1, lag_records=5, lag_seconds=3.0)])
    assert found == Unreplicated(partitions=2, unknown_partitions=0, records=15, seconds=3.0)
    assert found.is_complete


def test_an_age_that_is_unknown() -> None:
    found = unreplicated(
        [partition(0), partition(1, lag_records=5, lag_seconds=None), partition(2, lag_records=0, lag_seconds=0.0)]
    )
    assert found == Unreplicated(partitions=3, unknown_partitions=0, records=15, seconds=None)


def test_unknown_partitions_are_counted_with_what_was_last_known() -> None:
    silent = [
        unheard(1, observed=2_000, last_lag_records=4),
        unheard(2, observed=1_000, last_lag_records=3),
        partition(3, position=None),
    ]
    found = unreplicated([partition(0), *silent])
    assert found == Unreplicated(
        partitions=4, unknown_partitions=3, records=10, seconds=1.5, last_records=7, observed=1_000
    )
    assert not found.is_complete
    alone = unreplicated(silent)
    assert alone is not None
    assert (alone.records, alone.seconds) == (0, None), "nothing is known, so 0 is no age"
