"""Results of the fault tests as cells of the page on guarantees."""

from __future__ import annotations

import pytest

from tests.faults.fault_page import BEGIN, END, MEASURED, measured, merge, results_block, table
from tests.faults.fault_table import CELL, Round
from tests.long.journal import FAILED, PASSED, Result
from tests.long.parts import MATRIX

HEADER = "| fault | at-least-once | exactly-once | java-at-least-once | java-exactly-once |"
PAGE = (
    f"before\n{BEGIN}\n{HEADER}\n| --- | --- | --- | --- | --- |\n| node killed | old | - | java | - |\n{END}\nafter\n"
)


def result(number: int, outcome: str = PASSED, *, file: str = "tests/faults/test_a.py", silence: float = 1.0) -> Result:
    found = Round(mode="exactly-once", fault="node killed", silence=silence)
    return Result(
        test=f"{file}::test_a[{number}]",
        outcome=outcome,
        seconds=1.0,
        commit="0123456789+abcdef",
        date=f"2024-06-0{number}",
        properties=((CELL, ("node killed", "exactly-once")), (Round.PROPERTY, found.values())),
    )


CELL_TEXT = "0/0/0, 2.0 (3.0) s<br>2 at 0123456+, 2024-06-02"


def test_rounds_of_one_commit_are_a_cell_with_its_date() -> None:
    assert measured([result(1), result(2, silence=3.0)]) == {("node killed", "exactly-once"): CELL_TEXT}
    assert MEASURED.fullmatch(CELL_TEXT)


def test_a_cell_with_a_failed_test_is_not_written() -> None:
    assert measured([result(1), result(2, FAILED)]) == {}


def test_rounds_of_the_matrix_are_not_part_of_the_page() -> None:
    assert measured([result(1, file=MATRIX)]) == {}


def test_cells_are_merged_into_the_table() -> None:
    cells = {("node killed", "exactly-once"): "new", ("lane killed", "java-exactly-once"): "added"}
    assert table(results_block(merge(PAGE, cells))) == [
        ["fault", "at-least-once", "exactly-once", "java-at-least-once", "java-exactly-once"],
        ["node killed", "old", "new", "java", "-"],
        ["lane killed", "-", "-", "-", "added"],
    ]
    assert merge(PAGE, {}) == PAGE


@pytest.mark.parametrize("text", ["no markers", f"{BEGIN}\n{END}", PAGE.replace("exactly-once", "twice")])
def test_a_page_without_the_table_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="the page must contain"):
        merge(text, {})
