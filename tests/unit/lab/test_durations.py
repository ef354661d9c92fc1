"""tests/durations.json lists each file of the slow tiers, and what a run measures."""

from __future__ import annotations

from tests.lab.durations import FIX, measured, merged, slow_files, stored


def test_every_file_of_the_slow_tiers_has_a_duration() -> None:
    assert slow_files() - stored().keys() == set(), FIX


def test_every_duration_belongs_to_a_file() -> None:
    assert stored().keys() - slow_files() == set(), FIX


def test_durations_are_whole_seconds() -> None:
    assert {file: seconds for file, seconds in stored().items() if type(seconds) is not int or seconds < 1} == {}, FIX


def test_files_are_measured_that_the_arguments_name() -> None:
    files = {"tests/faults/test_a.py", "tests/faults/test_b.py", "tests/parity/test_a.py", "tests/parity2/test_a.py"}
    seconds = {"tests/faults/test_a.py": 8.6, "tests/parity/test_a.py": 0.2, "tests/unit/test_a.py": 3.0}
    assert measured(files, ["tests/faults", "tests/unit"], seconds) == {
        "tests/faults/test_a.py": 9,
        "tests/faults/test_b.py": 1,
    }
    assert measured(files, ["tests/parity/"], seconds) == {"tests/parity/test_a.py": 1}
    assert measured(files, ["tests/faults/test_a.py"], seconds) == {"tests/faults/test_a.py": 9}
    assert measured(files, [], seconds) == {}


def test_new_values_replace_old_ones_and_files_that_are_gone_are_dropped() -> None:
    assert merged({"a": 1, "b": 2, "gone": 9}, {"b": 3, "c": 4, "removed": 5}, {"c", "b", "a", "new"}) == {
        "a": 1,
        "b": 3,
        "c": 4,
    }
