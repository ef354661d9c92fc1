from __future__ import annotations

from flows.partition.health import PartitionHealth


def test_a_delay_ends_with_the_next_success_of_its_side() -> None:
    health = PartitionHealth()
    health.fetch_delayed("no leader at the source")
    health.produce_delayed("no leader at the target")
    assert (health.is_failed, health.message) == (False, "no leader at the target")
    health.copied_to(5)
    assert health.message == "no leader at the source"
    health.fetch_succeeded()
    assert health.message is None


def test_a_prolonged_fetch_delay_is_waiting_until_a_fetch_succeeds() -> None:
    health = PartitionHealth()
    health.fetch_delayed("no answer")
    assert not health.is_waiting
    health.fetch_delayed("no answer for 10 s", prolonged=True)
    health.fetch_delayed("connection refused")
    assert (health.is_waiting, health.message) == (True, "connection refused")
    health.fetch_succeeded()
    assert (health.is_waiting, health.message) == (False, None)
    health.fetch_delayed("no answer for 10 s", prolonged=True)
    health.fetch_failed("no permission")
    health.fetch_delayed("no answer for 10 s", prolonged=True)
    assert (health.is_failed, health.is_waiting, health.message) == (True, False, "no permission")


def test_a_prolonged_produce_delay_is_waiting_until_a_batch_is_accepted() -> None:
    health = PartitionHealth()
    health.produce_delayed("refused")
    assert not health.is_waiting
    health.produce_delayed("no answer for 10 s", prolonged=True)
    health.produce_delayed("refused again")
    health.fetch_succeeded()  # the source is well
    assert (health.is_waiting, health.is_waiting_for_source, health.message) == (True, False, "refused again")
    health.copied_to(7)
    assert (health.is_waiting, health.message) == (False, None)
    health.produce_delayed("no answer for 10 s", prolonged=True)
    health.copy_failed(7, "too large")
    assert (health.is_failed, health.is_waiting, health.message) == (True, False, "too large")


def test_a_failed_fetch_stays_until_a_fetch_succeeds() -> None:
    health = PartitionHealth()
    health.fetch_failed("no permission")
    health.fetch_delayed("something else")
    health.copied_to(5)
    assert (health.is_failed, health.message) == (True, "no permission")
    health.fetch_succeeded()
    assert (health.is_failed, health.message) == (False, None)


def test_a_record_that_cannot_be_copied_stays_until_it_is() -> None:
    health = PartitionHealth()
    health.copy_failed(7, "too large")
    health.produce_delayed("something else")
    health.fetch_succeeded()
    health.copied_to(7)
    assert (health.is_failed, health.message) == (True, "too large")
    health.copied_to(8)
    assert (health.is_failed, health.message) == (False, None)


def test_a_failure_is_reported_rather_than_a_delay() -> None:
    health = PartitionHealth()
    health.copy_failed(7, "too large")
    health.fetch_delayed("no leader")
    assert health.message == "too large"
