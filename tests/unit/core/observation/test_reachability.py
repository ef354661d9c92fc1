from __future__ import annotations

from mm2.core.observation.reachability import SILENT_AFTER_S, ClusterContact


def test_nothing_is_known_before_the_first_answer_or_failure() -> None:
    assert ClusterContact().at(100.0).reachable is None


def test_an_answer_is_valid_until_two_more_are_missing() -> None:
    contact = ClusterContact().answer(10.0).answer(15.0)
    assert (contact.reachable, contact.since, contact.answered) == (True, 10.0, 15.0)
    assert contact.at(15.0 + SILENT_AFTER_S - 0.1) is contact
    silent = contact.at(15.0 + SILENT_AFTER_S)
    assert (silent.reachable, silent.since, silent.answered) == (False, 15.0 + SILENT_AFTER_S, 15.0)
    assert silent.error == "requests are not answered"


def test_a_failure_counts_at_once_and_keeps_the_last_answer() -> None:
    failed = ClusterContact().answer(10.0).failure(15.0, "refused").failure(20.0, "cannot resolve host")
    assert (failed.reachable, failed.since, failed.answered) == (False, 15.0, 10.0)
    assert failed.error == "cannot resolve host"
    assert failed.at(1_000.0) is failed
    again = failed.answer(30.0)
    assert (again.reachable, again.since, again.answered, again.error) == (True, 30.0, 30.0, None)


def test_a_cluster_that_never_answered() -> None:
    failed = ClusterContact().failure(5.0, "refused")
    assert (failed.reachable, failed.since, failed.answered) == (False, 5.0, None)
