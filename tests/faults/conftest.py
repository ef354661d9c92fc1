"""The fault matrix: which faults its topologies have, and the table that ends a run in which it took part."""

from __future__ import annotations

import pytest

from tests.faults.fault_scenarios import Fault
from tests.faults.fault_stage import Topology
from tests.faults.fault_table import Round, lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not _possible(item)])
    items[:] = [item for item in items if _possible(item)]


def _possible(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    fault, topology = params.get("fault"), params.get("stage")
    return not (isinstance(fault, Fault) and isinstance(topology, Topology)) or fault.possible(topology)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rounds = [
        Round(**values)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, values in report.user_properties
        if report.when == "call" and name == Round.PROPERTY
    ]
    if rounds:
        terminalreporter.section("faults")
        for line in lines(rounds):
            terminalreporter.write_line(line)
