from __future__ import annotations

import pytest

from mm2.core.offsets.leader_epochs import (
    MAX_EPOCHS,
    UNKNOWN_EPOCH,
    EpochEnd,
    EpochStart,
    EpochStarts,
    appended,
    before,
    common_end,
    last_epoch,
    replaced_from,
)

EPOCHS: EpochStarts = (EpochStart(2, 0), EpochStart(5, 400), EpochStart(6, 900))


def test_a_batch_of_the_same_epoch_changes_nothing() -> None:
    assert appended(EPOCHS, 6, 1_000) is EPOCHS


def test_a_later_epoch_is_added() -> None:
    assert appended(EPOCHS, 8, 1_000) == (*EPOCHS, EpochStart(8, 1_000))
    assert appended((), 0, 7) == (EpochStart(0, 7),)


def test_an_earlier_epoch_voids_what_contradicts_it() -> None:
    """Also an epoch that begins before the known ones: the source has other records there now."""
    assert appended(EPOCHS, 4, 1_000) == (EpochStart(2, 0), EpochStart(4, 1_000))
    assert appended(EPOCHS, 8, 400) == (EpochStart(2, 0), EpochStart(8, 400))


def test_an_unknown_epoch_voids_all() -> None:
    assert appended(EPOCHS, -1, 1_000) == ()


def test_the_newest_epochs_are_kept() -> None:
    epochs: EpochStarts = ()
    for epoch in range(MAX_EPOCHS + 3):
        epochs = appended(epochs, epoch, 10 * epoch)
    assert len(epochs) == MAX_EPOCHS
    assert epochs[0] == EpochStart(3, 30)


def test_epochs_before_an_offset() -> None:
    assert before(EPOCHS, 901) is EPOCHS
    assert before(EPOCHS, 900) == EPOCHS[:2]
    assert before(EPOCHS, 0) == before((), 5) == ()
    assert [last_epoch(before(EPOCHS, offset)) for offset in (0, 1, 400, 401)] == [UNKNOWN_EPOCH, 2, 2, 5]


@pytest.mark.parametrize(
    ("end", "offset"),
    [
        (EpochEnd(6, 950), 950),  # the same leader's records end earlier
        (EpochEnd(5, 700), 700),  # the broker never had records of epoch 6
        (EpochEnd(5, 930), 900),  # it has more of epoch 5 than we
        (EpochEnd(3, 450), 400),  # it has records of an epoch between ours
        (EpochEnd(2, 300), 300),
    ],
)
def test_where_the_logs_part(end: EpochEnd, offset: int) -> None:
    assert common_end(EPOCHS, end) == offset


def test_records_replaced_by_those_of_a_later_epoch() -> None:
    now = (EpochStart(2, 0), EpochStart(7, 500))
    assert replaced_from(EPOCHS, now, 450, 950) == 500
    assert replaced_from(EPOCHS, now, 600, 950) == 600
    assert replaced_from(EPOCHS, now, 450, 500) is None, "they were not sent"
    assert replaced_from(EPOCHS, EPOCHS, 0, 950) is None
    assert replaced_from((), now, 0, 950) is None, "what was there is unknown"
    assert replaced_from(EPOCHS, (EpochStart(2, 0),), 0, 950) is None, "compaction removed the later ones"
