from __future__ import annotations

from flows.tally import Trouble


def test_passing_trouble_goes_with_the_next_success_of_its_side() -> None:
    trouble = Trouble()
    trouble.source_passing("no leader at the source")
    trouble.target_passing("no leader at the target")
    assert (trouble.failed, trouble.words) == (False, "no leader at the target")
    trouble.copied_to(5)
    assert trouble.words == "no leader at the source"
    trouble.fetched()
    assert trouble.words is None


def test_passing_trouble_that_lasts_is_waited_for_until_a_fetch_works() -> None:
    trouble = Trouble()
    trouble.source_passing("no answer")
    assert not trouble.waits
    trouble.source_passing("no answer for 10 s", waits=True)
    trouble.source_passing("connection refused")
    assert (trouble.waits, trouble.words) == (True, "connection refused")
    trouble.fetched()
    assert (trouble.waits, trouble.words) == (False, None)
    trouble.source_passing("no answer for 10 s", waits=True)
    trouble.cannot_fetch("no permission")
    trouble.source_passing("no answer for 10 s", waits=True)
    assert (trouble.failed, trouble.waits, trouble.words) == (True, False, "no permission")


def test_passing_trouble_of_the_target_that_lasts_is_waited_for_until_it_takes_something() -> None:
    trouble = Trouble()
    trouble.target_passing("refused")
    assert not trouble.waits
    trouble.target_passing("no answer for 10 s", waits=True)
    trouble.target_passing("refused again")
    trouble.fetched()  # the source is well
    assert (trouble.waits, trouble.waits_for_source, trouble.words) == (True, False, "refused again")
    trouble.copied_to(7)
    assert (trouble.waits, trouble.words) == (False, None)
    trouble.target_passing("no answer for 10 s", waits=True)
    trouble.cannot_copy(7, "too large")
    assert (trouble.failed, trouble.waits, trouble.words) == (True, False, "too large")


def test_a_failed_fetch_stays_until_a_fetch_works() -> None:
    trouble = Trouble()
    trouble.cannot_fetch("no permission")
    trouble.source_passing("something else")
    trouble.copied_to(5)
    assert (trouble.failed, trouble.words) == (True, "no permission")
    trouble.fetched()
    assert (trouble.failed, trouble.words) == (False, None)


def test_a_record_that_cannot_be_copied_stays_until_it_is() -> None:
    trouble = Trouble()
    trouble.cannot_copy(7, "too large")
    trouble.target_passing("something else")
    trouble.fetched()
    trouble.copied_to(7)
    assert (trouble.failed, trouble.words) == (True, "too large")
    trouble.copied_to(8)
    assert (trouble.failed, trouble.words) == (False, None)


def test_what_failed_is_told_before_what_passes() -> None:
    trouble = Trouble()
    trouble.cannot_copy(7, "too large")
    trouble.source_passing("no leader")
    assert trouble.words == "too large"
