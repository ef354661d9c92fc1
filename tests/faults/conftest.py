"""Rows and columns of the fault table: which a run selects, and the table at its end.

``MM2_ROW`` and ``MM2_MODE`` select one row (the slug of a fault's name) and one column. Most rows come from `FAULTS`; a
test with a stage of its own is a row by the marker ``fault_row``, and in a column by a parameter that is a `Mode`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.fault_scenarios import Fault
from tests.faults.fault_stage import Topology
from tests.faults.fault_table import CELL, LEGEND, Round, lines
from tests.faults.mode import AT_LEAST_ONCE, MODES, SELECTED_MODE, SELECTED_ROW, Mode, slug
from tests.lab.losses import Account
from tests.lab.verify import Verdict
from tests.long import plugin


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fault_row(name): the row of the fault table that the test fills (make faults ROW=…)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rows = sorted({slug(row) for item in items if (row := _cell(item)[0])})
    config.hook.pytest_deselected(items=[item for item in items if not _selected(item)])
    items[:] = [item for item in items if _selected(item)]
    if not items and (SELECTED_ROW or SELECTED_MODE):
        modes = ", ".join(mode.name for mode in MODES)
        raise pytest.UsageError(
            f"no test for ROW={SELECTED_ROW} MODE={SELECTED_MODE}\nrows: {', '.join(rows)}\nmodes: {modes}"
        )
    for item in items:
        row, mode = _cell(item)
        if row:
            item.user_properties.append((CELL, (row, mode.name)))


@pytest.fixture
def record_row(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[Verdict | Account], None]:
    """Adds what a test with a stage of its own has found to the table."""
    fault, mode = _row_name(request.node), _mode(request.node)
    assert fault is not None

    def record(found: Verdict | Account) -> None:
        if isinstance(found, Account):
            row = Round(mode=mode.name, fault=fault, lost=len(found.missing), recorded=found.recorded)
        else:
            row = Round(
                mode=mode.name,
                fault=fault,
                records=found.records,
                repeated=len(found.duplicated),
                lost=len(found.lost),
                stale=len(found.stale),
            )
        record_property(Round.PROPERTY, row.values())

    return record


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _mode(item: pytest.Item) -> Mode:
    return next((value for value in _params(item).values() if isinstance(value, Mode)), AT_LEAST_ONCE)


def _row_name(item: pytest.Item) -> str | None:
    return next((mark.args[0] for mark in item.iter_markers("fault_row")), None)


def _cell(item: pytest.Item) -> tuple[str, Mode]:
    """Return the name of the row, empty if the test is not part of the table, and the column."""
    fault, topology = (_params(item).get(name) for name in ("fault", "stage"))
    if isinstance(fault, Fault) and isinstance(topology, Topology):
        return fault.name, topology.mode
    return _row_name(item) or "", _mode(item)


def _selected(item: pytest.Item) -> bool:
    params = _params(item)
    fault, topology = params.get("fault"), params.get("stage")
    if isinstance(fault, Fault) and isinstance(topology, Topology):
        here = fault.possible(topology) and topology.only in ("", fault.name)
        if not here or (fault.once and params.get("seed")):
            return False
    row, mode = _cell(item)
    return SELECTED_ROW in ("", slug(row)) and SELECTED_MODE in ("", mode.name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.pluginmanager.has_plugin(plugin.NAME):
        return  # the run of parts prints one table, with the rounds of earlier runs
    rounds = [
        Round(**values)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, values in report.user_properties
        if report.when == "call" and name == Round.PROPERTY
    ]
    if rounds:
        terminalreporter.section(f"faults: {LEGEND}")
        for line in lines(rounds):
            terminalreporter.write_line(line)
