"""The engine answers each failed record once, in every report until the node has the answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace

from flows.spark.record_errors import RecordErrors
from mm2.core.lanes.engine_orders import FailedRecord, RecordError
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import RowTransform
from tests.lab.waiting import wait_until

QUERY = LaneQuery(name="mask", action=RowTransform(module="shop", function="mask"))


def record(number: int) -> FailedRecord:
    return FailedRecord(number=number, query=QUERY, topic="t", partition=0, batch="")


def found(errors: RecordErrors, count: int) -> Callable[[], bool]:
    return lambda: len(errors.found()) == count


class Evaluations:
    """Evaluates when the test allows it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.may_run = threading.Semaphore(0)

    def __call__(self, failed: FailedRecord) -> str | None:
        assert self.may_run.acquire(timeout=30)
        self.numbers.append(failed.number)
        if failed.number == 13:
            raise RuntimeError("lost\nthe JVM")
        return None if failed.number == 0 else f"message {failed.number}"


def test_repeated_orders_are_evaluated_once() -> None:
    run = Evaluations()
    errors = RecordErrors(run)
    errors.apply([record(0), record(1)])
    errors.apply([record(0), record(1), record(2)])
    assert errors.found() == ()
    run.may_run.release(3)
    wait_until(found(errors, 3), 30, "three answers")
    errors.apply([record(0), record(1), record(2)])
    messages = (None, "message 1", "message 2")
    assert errors.found() == tuple(RecordError(number=at, message=message) for at, message in enumerate(messages))
    errors.apply([record(2)])
    assert [error.number for error in errors.found()] == [2]
    assert run.numbers == [0, 1, 2]
    errors.close()


def test_an_unexpected_error_can_quote_the_record() -> None:
    run = Evaluations()
    errors = RecordErrors(run)
    hidden = replace(record(13), query=replace(QUERY, hides_values=True))
    errors.apply([hidden])
    run.may_run.release(1)
    wait_until(found(errors, 1), 30, "an answer")
    assert errors.found() == (RecordError(number=13, message="RuntimeError"),)
    errors.close()


def test_a_record_that_was_given_up_is_not_evaluated() -> None:
    run = Evaluations()
    errors = RecordErrors(run)
    errors.apply([record(1), record(2), record(3)])
    errors.apply([record(1), record(3)])
    run.may_run.release(2)
    wait_until(found(errors, 2), 30, "two answers")
    assert run.numbers == [1, 3]
    errors.close()


def test_no_answer_is_lost_while_orders_arrive() -> None:
    """Orders and answers come from two threads, which alternate here as often as possible."""
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    errors = RecordErrors(lambda failed: f"message {failed.number}")
    try:
        records = [record(number) for number in range(2_000)]
        errors.apply(records)
        for _ in range(500):
            errors.apply(records)
        wait_until(found(errors, len(records)), 30, "all answers")
        assert [error.number for error in errors.found()] == list(range(len(records)))
    finally:
        sys.setswitchinterval(switch_interval)
        errors.close()


def test_an_unexpected_error_is_the_message() -> None:
    run = Evaluations()
    errors = RecordErrors(run)
    errors.apply([record(13), record(14)])
    run.may_run.release(2)
    wait_until(found(errors, 2), 30, "two answers")
    assert errors.found()[0].message == "RuntimeError: lost"
    errors.close()


def test_without_failed_records_there_is_no_thread() -> None:
    before = threading.active_count()
    errors = RecordErrors(Evaluations())
    errors.apply([])
    assert threading.active_count() == before
    errors.close()
