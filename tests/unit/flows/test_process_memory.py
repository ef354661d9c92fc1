from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flows.process_memory import MEASURED_EVERY_S, ProcessMemory, proportional_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_of_this_process() -> None:
    found = proportional_bytes(os.getpid())
    assert found is not None
    assert 5_000_000 < found < 20_000_000_000


def test_memory_of_a_process_that_has_ended_is_unknown(tmp_path: Path) -> None:
    assert proportional_bytes(1, tmp_path) is None
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "smaps_rollup").write_text("Rss: 7 kB\n")
    assert proportional_bytes(1, tmp_path) is None
    (tmp_path / "1" / "smaps_rollup").write_text("00-7f ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nPss:    7 kB\n")
    assert proportional_bytes(1, tmp_path) == 7_168


def test_it_is_measured_twice_a_minute_and_when_a_process_is_new() -> None:
    now, pids, sizes = 0.0, [1, None], {1: 100, 2: 30}
    measured: list[int] = []

    def measure(pid: int) -> int | None:
        measured.append(pid)
        return sizes.get(pid)

    memory = ProcessMemory(lambda: list(pids), measure=measure, clock=lambda: now)
    assert memory.bytes() is None, "one process is not known yet"
    pids[1] = 2
    assert memory.bytes() == 130
    sizes[2] = 50
    now = MEASURED_EVERY_S - 1
    assert memory.bytes() == 130
    now = MEASURED_EVERY_S
    assert memory.bytes() == 150
    del sizes[2]
    now *= 2
    assert memory.bytes() is None
    assert measured == [1, 1, 2, 1, 2, 1, 2]
