"""Records about the orderly release of source tasks."""

from __future__ import annotations

import pytest

from mm2.core.assignment.source_task_releases import SourceTaskRelease, decode_release, is_release_key
from mm2.core.lanes.lease import TaskProducer
from mm2.core.wire.formats import FormatError

RELEASE = SourceTaskRelease(source_task=7, producer_id=4711, epoch=3)


def test_round_trip() -> None:
    assert (RELEASE.key(), RELEASE.value()) == (b"mm2-released-7", b'{"producer":[4711,3]}')
    assert is_release_key(RELEASE.key())
    assert not is_release_key(b"mm2-source-task-7")
    assert not is_release_key(None)
    assert decode_release(RELEASE.key(), RELEASE.value()) == RELEASE


def test_fields_of_a_newer_release_are_ignored() -> None:
    assert decode_release(b"mm2-released-7", b'{"producer":[4711,3,"new"],"at":1}') == RELEASE


@pytest.mark.parametrize(
    ("producer_id", "epoch", "directly"), [(4711, 4, True), (4711, 5, False), (4711, 3, False), (4712, 4, False)]
)
def test_only_the_next_epoch_follows_directly(producer_id: int, epoch: int, *, directly: bool) -> None:
    assert RELEASE.precedes(TaskProducer("A-mm2-MirrorSourceConnector-7", producer_id, epoch)) is directly


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"mm2-released-x", b'{"producer":[1,2]}'),
        (None, b"{}"),
        (b"mm2-released-7", b"{}"),
        (b"mm2-released-7", b'{"producer":[1]}'),
        (b"mm2-released-7", b'{"producer":[1,"2"]}'),
        (b"mm2-released-7", b'{"producer":null}'),
        (b"mm2-released-7", b"\xff"),
        (b"mm2-released-7", None),
    ],
)
def test_invalid_records(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="source task release"):
        decode_release(key, value)
