"""Which failed tests `make test` reruns."""

from __future__ import annotations

import re
import subprocess

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.lab.history import Record
from tests.lab.verify import compare
from tests.lab.waiting import GaveUp, require_within, wait_until

LOST = compare({0: [Record(0, 0, (b"k", b"v", (), 1))]}, {})


def is_rerun(config: pytest.Config, problem: BaseException) -> bool:
    """Return whether pytest-rerunfailures would rerun a test, by the two lists in pyproject.toml."""
    text = f"{type(problem).__name__}: {problem}"
    only, never = config.getini("only_rerun"), config.getini("rerun_except")
    assert only
    assert never
    return any(re.search(one, text) for one in only) and not any(re.search(one, text) for one in never)


def test_missed_deadlines_are_rerun(pytestconfig: pytest.Config) -> None:
    with pytest.raises(GaveUp) as waited:
        wait_until(lambda: False, 0, "it happens")
    with pytest.raises(GaveUp) as paused:
        require_within(9, 8, "records arrive again")
    assert is_rerun(pytestconfig, waited.value)
    assert is_rerun(pytestconfig, paused.value)
    assert is_rerun(pytestconfig, TimeoutError())
    assert is_rerun(pytestconfig, subprocess.TimeoutExpired("mm2", 60))
    assert is_rerun(pytestconfig, KafkaException(KafkaError(KafkaError._TRANSPORT)))


@pytest.mark.parametrize(
    "problem",
    [
        AssertionError("assert 'one' == 'two'"),
        AssertionError("not within 9 s"),
        GaveUp(f"A.orders is not a copy of orders (90 s allowed): {LOST}"),
        GaveUp(f"not within 90 s: {LOST}"),
        RuntimeError("a record was not delivered"),
        KafkaException(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)),
    ],
)
def test_other_failures_are_not_rerun(pytestconfig: pytest.Config, problem: BaseException) -> None:
    assert not is_rerun(pytestconfig, problem)
