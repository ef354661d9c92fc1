"""docs/reference/what-you-see.md has the recorded outages, in the order of the rows."""

from __future__ import annotations

import re

from tests.faults.fault_page import table
from tests.faults.outages.page import HEADER, PAGE, merge
from tests.faults.outages.rows import ROWS
from tests.unit.deploy.test_monitoring import ALERTS

TEXT = PAGE.read_text("utf-8")
RECORDED = re.compile(r"^Recorded at [0-9a-f]{7}, \d{4}-\d\d-\d\d\.$", re.MULTILINE)


def test_every_row_of_the_gate_is_on_the_page_with_its_recording() -> None:
    header, *rows = table(TEXT.partition("\n## ")[0])
    assert tuple(header) == HEADER
    names = [row[0] for row in rows]
    assert names == [row.name for row in ROWS if row.name in names]
    assert names == re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert {row.name for row in ROWS if row.in_gate} <= set(names)
    assert len(RECORDED.findall(TEXT)) == len(names)


def test_the_page_is_as_it_would_be_written() -> None:
    assert merge(TEXT, []) == TEXT


def test_expected_alerts_exist() -> None:
    assert {alert for row in ROWS for alert in row.expected.alerts} <= set(ALERTS)
