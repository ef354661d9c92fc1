"""Handover from mm2 to Java's MirrorMaker and back, with one file and one target, under load."""

from __future__ import annotations

import pytest

from mm2.core.naming.names import TopicPartition
from tests.lab.history import count
from tests.lab.verify import compare
from tests.parity.internal_records import positions
from tests.parity.scenario import BUSY, LEDGER, STILL, TOPICS, Scenario

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario


@pytest.mark.parametrize("topic", TOPICS)
def test_handover_to_java_and_back_loses_and_repeats_nothing(scenario: Scenario, topic: str) -> None:
    verdict = compare(scenario.source[topic], scenario.into_b[topic])
    assert verdict.exact, str(verdict)


def test_both_programs_copied_some_of_each_busy_partition(scenario: Scenario) -> None:
    """Precondition of the previous test: each of the three runs copied some records of every partition."""
    by_us, after_java = positions(scenario.by_us.offsets), positions(scenario.after_java.offsets)
    for topic in BUSY:
        for number, records in scenario.source[topic].items():
            partition = TopicPartition(topic, number)
            assert 0 < by_us[partition] < after_java[partition] < len(records)


def test_node_drains_both_times(scenario: Scenario) -> None:
    assert scenario.exit_codes == (0, 0)


def test_java_cannot_join_the_group_that_mm2_holds(scenario: Scenario) -> None:
    """Java's process exits with all its flows and logs the reason."""
    assert "InconsistentGroupProtocolException" in scenario.java_rejected
    assert scenario.flow_meanwhile["state"] == "RUNNING"
    assert scenario.flow_meanwhile["epoch"] == scenario.epoch_before, "Java's attempt caused no rebalance"
    assert scenario.flow_meanwhile["reasons"] == []


def test_node_waits_while_java_holds_the_group(scenario: Scenario) -> None:
    flow = scenario.flow_while_java_held
    assert flow["state"] == "WAITING"
    (reason,) = flow["reasons"]
    assert reason.startswith("a Java MirrorMaker holds group A-mm2 on cluster B")
    assert reason.endswith("waiting until it stops")
    assert reason in scenario.log_while_java_held
    assert scenario.health_while_java_held["status"] == "DOWN"
    assert any(reason in text for text in scenario.health_while_java_held["reasons"])


def test_java_alone_copies_the_same_records(scenario: Scenario) -> None:
    """The quiet topics have the same records on C, copied by Java alone, as on B."""
    for topic in (STILL, LEDGER):
        verdict = compare(scenario.into_c[topic], scenario.into_b[topic])
        assert verdict.exact, str(verdict)
        assert count(scenario.into_b[topic]) == count(scenario.source[topic])
