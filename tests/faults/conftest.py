"""Rows and columns of the fault table: which a run selects, and the table at its end.

``MM2_ROW`` and ``MM2_MODE`` select one row (the slug of a fault's name) and one column. A fault of the table comes from
`FAULTS`; a test with a stage of its own is a row by the marker ``fault_row``, and in a column by its parameter ``mode``.
"""

from __future__ import annotations

import pytest

from tests.faults.fault_scenarios import Fault
from tests.faults.fault_stage import Topology
from tests.faults.fault_table import LEGEND, Round, lines
from tests.faults.mode import AT_LEAST_ONCE, SELECTED_MODE, SELECTED_ROW, Mode, slug


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fault_row(name): the row of the fault table that the test fills (make faults ROW=…)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not _selected(item)])
    items[:] = [item for item in items if _selected(item)]


def _selected(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    fault, topology, mode = params.get("fault"), params.get("stage"), params.get("mode", AT_LEAST_ONCE)
    row = next((slug(mark.args[0]) for mark in item.iter_markers("fault_row")), None)
    if isinstance(fault, Fault) and isinstance(topology, Topology):
        here = fault.possible(topology) and topology.only in ("", fault.name)
        if not here or (fault.once and params.get("seed")):
            return False
        row, mode = str(fault), topology.mode
    assert isinstance(mode, Mode)
    return SELECTED_ROW in ("", row) and SELECTED_MODE in ("", mode.name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
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
