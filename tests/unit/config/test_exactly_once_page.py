"""The lines of docs/how-to/exactly-once.md turn exactly-once on, without a problem."""

from __future__ import annotations

import re
from pathlib import Path

from mm2.core.settings.client import IsolationLevel
from tests.unit.config.files import loaded

PAGE = (Path(__file__).parents[3] / "docs/how-to/exactly-once.md").read_text("utf-8")
BLOCK = re.compile(r"```properties\n(.*?)```", re.DOTALL)
LOGGED_MS = re.compile(r"committed together every (\d+) ms")


def test_lines_of_the_page(tmp_path: Path) -> None:
    (lines,) = BLOCK.findall(PAGE)
    result = loaded(tmp_path, f"A->B.topics = orders\n{lines}")
    assert list(result.problems) == []
    assert result.settings is not None
    flow = result.settings.flows[0]
    assert flow.worker.exactly_once
    assert flow.source.exactly_once_support == "required"
    assert flow.clients.fetch.isolation_level is IsolationLevel.READ_COMMITTED
    assert flow.transactions is not None
    assert [int(shown) for shown in LOGGED_MS.findall(PAGE)] == [flow.transactions.interval_ms]
    assert f"`B.producer.transaction.timeout.ms` ({flow.transactions.timeout_ms})" in PAGE
