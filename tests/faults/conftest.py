"""Ends a run with the table of the fault matrix, if any of its tests ran."""

from __future__ import annotations

import pytest

from tests.faults.fault_table import Round, lines


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
