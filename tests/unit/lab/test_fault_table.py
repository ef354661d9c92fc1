"""Tests of the fault table: sums of rounds in rows and columns."""

from __future__ import annotations

from tests.faults.fault_table import Round, lines


def one_round(mode: str, fault: str = "node killed", **values: object) -> Round:
    return Round(mode=mode, fault=fault, topology="2 nodes", **values)  # type: ignore[arg-type]


def test_rounds_of_a_cell_are_summed() -> None:
    rounds = [
        one_round("at-least-once", silence=3.0, repeated=7),
        one_round("at-least-once", silence=12.04, repeated=1, stale=2),
    ]
    assert list(lines(rounds)) == [
        "| fault | topology | at-least-once |",
        "| --- | --- | --- |",
        "| node killed | 2 nodes | 0/8/2, 7.5 (12.0) s, 2 |",
    ]


def test_columns_have_the_order_of_the_modes_and_a_missing_cell_is_empty() -> None:
    rounds = [one_round("java-exactly-once", silence=1.0), one_round("exactly-once", "lane killed", silence=2.0)]
    assert list(lines(rounds)) == [
        "| fault | topology | exactly-once | java-exactly-once |",
        "| --- | --- | --- | --- |",
        "| node killed | 2 nodes | - | 0/0/0, 1.0 s, 1 |",
        "| lane killed | 2 nodes | 0/0/0, 2.0 s, 1 | - |",
    ]


def test_losses_on_record_and_flows_that_stopped_are_shown() -> None:
    rounds = [one_round("java-at-least-once", lost=5, recovered=False), one_round("at-least-once", recorded=5)]
    assert list(lines(rounds))[2] == (
        "| node killed | 2 nodes | 0/0/0, 5 on record, 1 | 5/0/0, 1 stopped until restarted, 1 |"
    )
