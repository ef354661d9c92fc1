"""What operators are told in an outage is true: in commands, REST, metrics, alerts and the log.

Each row is a fault (`tests/faults/outages/rows.py`). While it lasts, two nodes are observed; what they show is judged
from the recording, and the shipped alerts are evaluated as if the fault lasted. `make outages` writes
docs/reference/what-you-see.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.faults.fault_times import pass_time
from tests.faults.outages.alerts import firing
from tests.faults.outages.judgement import objections
from tests.faults.outages.page import Shown, write
from tests.faults.outages.recording import Observation, observe, scrape
from tests.faults.outages.rows import ROWS, Row
from tests.faults.outages.stage import Clock, Stage, outage_stage

PACE = 5.0  # seconds between two scrapes

pytestmark = [pytest.mark.timeout(600), pytest.mark.needs("promtool")]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with outage_stage() as found:
        found.wait_shared()
        yield found


@pytest.fixture(scope="module")
def stage_on_spark_cluster() -> Iterator[Stage]:
    with outage_stage(on_spark_cluster=True) as found:
        found.wait_shared()
        yield found


@pytest.fixture(scope="module")
def shown() -> Iterator[list[Shown]]:
    """Rows for the page, which is written at the end of ``make outages``."""
    rows: list[Shown] = []
    yield rows
    if os.environ.get("MM2_PAGE"):
        write(rows)


def rows(*, on_spark_cluster: bool) -> pytest.MarkDecorator:
    found = [row for row in ROWS if row.on_spark_cluster is on_spark_cluster]
    marks = [() if row.in_gate else (pytest.mark.long,) for row in found]
    return pytest.mark.parametrize(
        "row", [pytest.param(row, id=row.name, marks=marks) for row, marks in zip(found, marks, strict=True)]
    )


@rows(on_spark_cluster=False)
def test_what_operators_see(stage: Stage, row: Row, shown: list[Shown]) -> None:
    _record_and_judge(stage, row, shown)


@rows(on_spark_cluster=True)
def test_what_operators_see_of_a_spark_cluster(stage_on_spark_cluster: Stage, row: Row, shown: list[Shown]) -> None:
    _record_and_judge(stage_on_spark_cluster, row, shown)


def _record_and_judge(stage: Stage, row: Row, shown: list[Shown]) -> None:
    stage.wait_shared()
    names = list(stage.nodes.by_name)
    before = [scrape(node) for node in stage.running()]
    pass_time(PACE)
    before += [scrape(node) for node in stage.running()]
    logs = {node.name: len(node.process.output()) for node in stage.running()}
    during: list[Observation] = []
    found: list[str] = []
    with row.fault(stage):
        clock = Clock()
        for moment in row.moments:
            pass_time(max(0.0, moment - clock.seconds))
            missing = stage.missing() if row.expected.waits and row.expected.target and row.expected.counted else {}
            seen = [observe(node, clock.seconds) for node in stage.running()]
            found += objections(row.expected, seen, missing)
            during += seen
        log = "".join(node.process.output()[logs[node.name] :] for node in stage.running())
        found += [
            f"the log has no line {pattern!r}:\n{log}" for pattern in row.expected.logs if not re.search(pattern, log)
        ]
    alerts = firing(before, during, names)
    found += _wrong_alerts(row, alerts)
    stage.wait_shared()
    assert not found, "\n".join(found)
    shown.append(Shown(row=row.name, during=during, alerts=alerts, log=log))


def _wrong_alerts(row: Row, fired: dict[str, int]) -> Iterator[str]:
    for alert, minute in row.expected.alerts.items():
        if fired.get(alert, minute + 1) > minute:
            yield f"{alert} does not fire within {minute} minutes: {fired}"
    for alert in fired.keys() - row.expected.alerts.keys() - set(row.expected.possible):
        yield f"{alert} fires after {fired[alert]} minutes"
