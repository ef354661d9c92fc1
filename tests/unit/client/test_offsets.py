from __future__ import annotations

import logging

import pytest

from mm2.client import OffsetAndMetadata, TopicPartition
from mm2.client.offsets import CheckpointFold
from mm2.kafka.logs.stored_records import StoredRecord

# Java's bytes: group g1, A.t partition 0, upstream 10, downstream 12, no metadata.
KEY = bytes.fromhex("000267310003412e7400000000")
VALUE = bytes.fromhex("0000000000000000000a000000000000000c0000")
LATER = bytes.fromhex("000000000000000000140000000000000015") + b"\0\x04note"
OTHER_GROUP = b"\0\2g2" + KEY[4:]
OTHER_PARTITION = KEY[:-1] + b"\1"
A_T = TopicPartition("A.t", 0)


def folded(*records: tuple[bytes | None, bytes | None], groups: str = "g1 g2") -> CheckpointFold:
    fold = CheckpointFold(lambda group: group in groups.split())
    for offset, (key, value) in enumerate(records):
        fold.add(StoredRecord(partition=0, offset=offset, key=key, value=value, timestamp=0))
    return fold


def test_last_checkpoint_of_a_partition() -> None:
    fold = folded((KEY, VALUE), (KEY, LATER), (OTHER_PARTITION, VALUE))
    expected = {A_T: OffsetAndMetadata(21, "note"), TopicPartition("A.t", 1): OffsetAndMetadata(12)}
    assert fold.offsets() == {"g1": expected}


def test_only_requested_groups_are_returned_separately() -> None:
    records = [(KEY, VALUE), (OTHER_GROUP, LATER)]
    assert folded(*records).offsets().keys() == {"g1", "g2"}
    assert folded(*records, groups="g2").offsets() == {"g2": {A_T: OffsetAndMetadata(21, "note")}}
    assert folded(*records, groups="g3").offsets() == {}


def test_null_value_removes_the_checkpoint() -> None:
    assert folded((KEY, VALUE), (OTHER_GROUP, VALUE), (KEY, None)).offsets().keys() == {"g2"}
    assert folded((KEY, VALUE), (KEY, None), (KEY, LATER)).offsets() == {"g1": {A_T: OffsetAndMetadata(21, "note")}}
    assert folded((KEY, None)).offsets() == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (None, None),
        (b"", VALUE),
        (b"garbage", VALUE),
        (KEY, b""),
        (KEY, b"garbage"),
        (KEY, b"\0\1" + VALUE[2:]),  # a future version
        (KEY, VALUE[:-1]),
    ],
)
def test_invalid_checkpoints_are_skipped_and_logged(
    key: bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    fold = folded((KEY, VALUE), (key, value), (key, value))
    assert fold.offsets() == {"g1": {A_T: OffsetAndMetadata(12)}}, "the valid checkpoint before it is kept"
    with caplog.at_level(logging.WARNING):
        fold.report("A.checkpoints.internal")
    assert "A.checkpoints.internal: skipped 2 records, the first at offset 1: cannot read checkpoint" in caplog.text


def test_nothing_is_logged_if_nothing_was_skipped(caplog: pytest.LogCaptureFixture) -> None:
    fold = folded((KEY, VALUE), (KEY, None))
    with caplog.at_level(logging.WARNING):
        fold.report("A.checkpoints.internal")
    assert not caplog.text


def test_a_batch_that_cannot_be_read_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    fold = folded((KEY, VALUE))
    fold.add(StoredRecord(partition=0, offset=7, key=None, value=None, timestamp=-1, problem="the batch is broken"))
    with caplog.at_level(logging.WARNING):
        fold.report("A.checkpoints.internal")
    assert "A.checkpoints.internal: skipped 1 records, the first at offset 7: the batch is broken" in caplog.text
