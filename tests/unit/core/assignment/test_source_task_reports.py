from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.assignment.source_task_reports import DEMANDS_REPORTED, SourceTaskReport, decode_report, is_report_key
from mm2.core.lanes.fetch_shares import FetchUse
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

REPORT = SourceTaskReport(
    source_task=3,
    epoch=7,
    version=2,
    member="m-1",
    node="node-1",
    demands={TopicPartition("orders", 2): 9_000, TopicPartition("orders", 0): 12_000, TopicPartition("änderung", 1): 5},
)
VALUE = (
    '{"epoch":7,"version":2,"member":"m-1","node":"node-1",'
    '"demands":{"orders":[[0,12000],[2,9000]],"änderung":[[1,5]]}}'
).encode()


def test_encoded_record() -> None:
    assert (REPORT.key(), REPORT.value()) == (b"mm2-source-task-3", VALUE)
    assert decode_report(REPORT.key(), REPORT.value()) == REPORT


def test_the_use_of_a_share_is_reported_while_there_is_a_limit() -> None:
    report = replace(REPORT, demands={}, use=FetchUse(250_000, True))
    assert report.value() == (
        b'{"epoch":7,"version":2,"member":"m-1","node":"node-1","demands":{},"use":[250000,true]}'
    )
    assert decode_report(report.key(), report.value()) == report
    later = report.value().replace(b"true]", b'false,"later"]')
    assert decode_report(report.key(), later).use == FetchUse(250_000, False)


def test_unknown_keys_are_ignored() -> None:
    value = b'{"epoch":7,"version":2,"member":"m","node":"n","demands":{},"later":[1]}'
    assert decode_report(b"mm2-source-task-0", value) == SourceTaskReport(
        source_task=0, epoch=7, version=2, member="m", node="n"
    )


def test_only_the_busiest_partitions_are_reported() -> None:
    demands = {TopicPartition("t", number): 1 + number % 50 for number in range(2 * DEMANDS_REPORTED)}
    report = SourceTaskReport(source_task=0, epoch=1, version=1, member="m", node="n", demands=demands)
    reported = decode_report(report.key(), report.value()).demands
    assert len(reported) == DEMANDS_REPORTED
    assert min(reported.values()) == 26
    assert report.value() == report.value()


def test_keys_differ_from_those_of_java() -> None:
    assert is_report_key(REPORT.key())
    for key in (None, b"status-connector-MirrorSourceConnector", b"status-task-MirrorSourceConnector-0"):
        assert not is_report_key(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (b"mm2-source-task-x", VALUE),
        (b"mm2-source-task-\xff", VALUE),
        (b"mm2-source-task-1.1", VALUE),
        (b"mm2-source-task-0", None),
        (b"mm2-source-task-0", b"\xff"),
        (b"mm2-source-task-0", b"[]"),
        (b"mm2-source-task-0", b"[" * 100_000),
        (b"mm2-source-task-0", VALUE.replace(b'"epoch":7,', b"")),
        (b"mm2-source-task-0", VALUE.replace(b"12000", b'"much"')),
        (b"mm2-source-task-0", VALUE.replace(b"[0,12000]", b"[0]")),
        (b"mm2-source-task-0", VALUE.replace(b"7", b"null")),
        (b"mm2-source-task-0", VALUE.replace(b"7", b"1e999")),
        (b"mm2-source-task-0", b'{"epoch":7,"version":2,"member":"m","node":"n","demands":[]}'),
    ],
)
def test_invalid_records(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read source task report"):
        decode_report(key, value)
