from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow
from mm2.core.wire.formats import FormatError
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.store.skipped_records import LOG_EVERY_S, SkippedRecords


def test_the_first_is_logged_and_then_one_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    skipped = SkippedRecords(Flow("A", "B"), "mm2-offset-syncs.B.internal", clock=lambda: now)

    def skip(count: int) -> None:
        for offset in range(count):
            record = StoredRecord(partition=0, offset=offset, key=b"k", value=None, timestamp=0)
            skipped.skip(record, FormatError("it is null"))

    skip(1000)
    assert skipped.count == 1000
    (line,) = caplog.messages
    assert "A->B: skipped a record of mm2-offset-syncs.B.internal, partition 0 offset 0: it is null (1 s" in line
    now += LOG_EVERY_S - 0.1
    skip(1)
    assert len(caplog.messages) == 1
    now += 0.2
    skip(1)
    assert "(1002 skipped so far)" in caplog.messages[-1]
    assert len(caplog.messages) == 2
