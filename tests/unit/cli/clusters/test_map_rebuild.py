"""``mm2 map rebuild``: what it refuses, and how it reads and writes; with brokers: test_flow_exact_offsets.py."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from pathlib import Path

import pytest

from mm2.cli.clusters.map_rebuild import Pace, Rebuilt, _add, _confirmed, _finished, map_command
from mm2.cli.errors import UsageError
from mm2.core.alignment.aligner import Alignment, SourceRecords, TargetAligner
from mm2.core.alignment.rebuilt_map import StoredMap
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange
from mm2.kafka.logs.stored_records import StoredRecord

FLOW = (
    "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
    "A->B.enabled = true\nA->B.topics = orders.*\n"
)


def record(offset: int, *, value: bytes = b"v", timestamp: int = 5, problem: str | None = None) -> StoredRecord:
    return StoredRecord(
        partition=0, offset=offset, key=b"k", value=value, timestamp=timestamp, headers=(("h", b"1"),), problem=problem
    )


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ("", {"rate": "fast"}, "--rate fast is not a number of MB per second"),
        ("", {"rate": "0"}, "--rate 0 is not a number of MB per second"),
        ("", {"rate": "nan"}, "--rate nan is not a number of MB per second"),
        ("", {"partition": "first"}, "--partition first is not a partition number"),
        ("", {"flow": "A->C"}, "no flow 'A->C'"),
        ("A->B.mm2.offset.translation = compatible\n", {}, "A->B has no exact offset map"),
        (
            "A->B.mm2.sql.key.topics = orders\nA->B.mm2.sql.key.query = SELECT value AS key FROM records\n",
            {},
            "the records of orders are transformed by the query key",
        ),
    ],
)
def test_what_is_refused_without_a_cluster(tmp_path: Path, lines: str, options: dict[str, str], message: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FLOW + lines)
    with pytest.raises(UsageError, match=message):
        map_command("rebuild", file, topic="orders", **options)  # type: ignore[arg-type]


def test_other_actions(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no action 'repair' of mm2 map: write mm2 map rebuild FILE --topic orders"):
        map_command("repair", tmp_path / "mm2.properties", topic="orders")


def test_what_is_said_of_a_partition() -> None:
    found = Alignment(
        ranges=(CopiedRange(0, 0, 3),), reaches_end=True, source=4, target=1_006, explained=3, repeated=2, others=1_001
    )
    rebuilt = Rebuilt(stored=StoredMap(partition=TopicPartition("orders", 3)), alignment=found, segments=())
    assert str(rebuilt) == (
        "orders-3: 3 of 4 source records exact (75.0 %); of 1,006 target records, 2 are repeated and 1,001 of others or"
        " not clear; 0 segments, 0 bytes"
    )


def test_equal_records_align_also_if_the_target_stamps_them() -> None:
    for with_time, expected in ((True, 0), (False, 3)):
        source = SourceRecords()
        for offset in range(3):
            assert _add(source, record(offset, value=b"%d" % offset), with_time=with_time) == 3
        aligner = TargetAligner(source)
        for offset in range(3):
            _add(aligner, record(offset, value=b"%d" % offset, timestamp=9), with_time=with_time)
        assert aligner.aligned().explained == expected
        assert _add(aligner, record(3, problem="wrong checksum"), with_time=with_time) == 0
        assert aligner.aligned().others == 4 - expected


async def test_reading_is_not_faster_than_the_rate() -> None:
    shown: list[tuple[int, float]] = []
    pace = Pace(1_000_000, lambda offsets, rate: shown.append((offsets, rate)))
    started = time.monotonic()
    for _ in range(3):
        await pace.read(10, 50_000)
    assert time.monotonic() - started >= 0.15
    assert [offsets for offsets, _ in shown] == [10, 10, 10]
    assert shown[-1][1] <= 1_500_000


async def test_writing_is_completed_when_the_command_is_interrupted() -> None:
    steps = []

    async def write() -> None:
        steps.append("begun")
        await asyncio.sleep(0.05)
        steps.append("done")

    task = asyncio.create_task(_finished(write()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["begun", "done"]


def test_nothing_is_written_if_no_one_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not _confirmed()
    assert "nothing is written: add --yes" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "expected"), [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False)])
def test_the_question(monkeypatch: pytest.MonkeyPatch, answer: str, expected: bool) -> None:
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    assert _confirmed() is expected
