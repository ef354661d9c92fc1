"""What losses stop, how they are merged, and what operators read about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.losses import (
    LOSSES_KEPT,
    Loss,
    LossesUnreadableError,
    LossKind,
    LossPolicy,
    OnDataLoss,
    accept_command,
    add_loss,
    extent,
    loss_warning,
    stop_message,
)
from mm2.core.naming.names import Flow, TopicPartition

FLOW = Flow("A", "B")


def lost(first: int, until: int, kind: str = LossKind.RETENTION, **changes: object) -> Loss:
    loss = Loss(topic="orders", partition=0, first=first, until=until, reason="too late", kind=kind)
    return replace(loss, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_data_loss", "stops"),
    [(OnDataLoss.CONTINUE, ""), (OnDataLoss.STOP_PARTITION, "partition"), (OnDataLoss.STOP_FLOW, "flow")],
)
@pytest.mark.parametrize("kind", LossKind)
def test_what_a_loss_stops(on_data_loss: OnDataLoss, stops: str, kind: LossKind) -> None:
    loss = LossPolicy(flow=FLOW, on_data_loss=on_data_loss).applied(lost(5, 9, kind), None, None)
    stops_nothing = kind in (LossKind.SKIPPED, LossKind.DEAD_LETTER, LossKind.TARGET_TRUNCATED)
    assert loss.stops == ("" if stops_nothing else stops)
    assert loss.awaits_acceptance == bool(loss.stops)
    assert not loss.accepted


def test_an_accepted_loss_stops_nothing_when_it_is_noticed_again() -> None:
    policy = LossPolicy(on_data_loss=OnDataLoss.STOP_PARTITION)
    accepted = lost(5, 9, stops="partition", accepted=True)
    assert policy.applied(lost(5, 20), None, accepted).accepted, "more was lost meanwhile"
    assert policy.applied(lost(20, 30), lost(5, 20, accepted=True), accepted).accepted, "nothing was copied since"
    assert not policy.applied(lost(21, 30), lost(5, 20, accepted=True), accepted).accepted
    assert not policy.applied(lost(5, 9, LossKind.TRUNCATED), None, accepted).accepted
    assert not policy.applied(lost(5, 9, topic_id="another"), None, accepted).accepted


def test_an_acceptance_of_a_loss_that_stops_nothing_covers_what_was_known() -> None:
    policy = LossPolicy()
    accepted = lost(5, 9, time=7).accept(at=8, by="ann", reason="ticket 1")
    again = policy.applied(lost(5, 9), None, accepted)
    assert (again.accepted, again.time, again.accepted_at, again.accepted_by, again.accept_reason) == (
        True,
        7,
        8,
        "ann",
        "ticket 1",
    )
    assert not policy.applied(lost(5, 20), None, accepted).accepted, "more is lost"
    assert not policy.applied(lost(9, 20), again, accepted).accepted


def test_a_loss_keeps_the_time_when_it_was_noticed() -> None:
    stop = LossPolicy(on_data_loss=OnDataLoss.STOP_PARTITION)
    accepted = lost(5, 9, time=7, stops="partition").accept(at=8, by="ann", reason=None)
    continued = stop.applied(lost(5, 20), None, accepted)
    assert (continued.time, continued.until, continued.accepted_by) == (7, 20, "ann")
    assert stop.applied(lost(20, 30), continued, accepted).accepted_at == 8
    assert LossPolicy().applied(lost(5, 20), None, None, lost(5, 9, time=7)).time == 7, "noticed again after a restart"
    assert LossPolicy().applied(lost(9, 20), None, None, lost(5, 9, time=7)).time is None
    losses = [lost(5, 9, time=7)]
    assert add_loss(losses, lost(9, 20)).time == 7
    assert add_loss(losses, lost(30, 40, time=9)).time == 9


@pytest.mark.parametrize("kind", [*LossKind, "of a later release"])
def test_what_an_operator_asked_for_needs_no_acceptance(kind: str) -> None:
    loss = lost(5, 9, kind)
    assert loss.is_unaccepted == (kind not in {"skipped", "dead-letter"})
    assert not loss.accept(at=1, by=None, reason=None).is_unaccepted


def test_a_loss_that_continues_the_last_one_extends_it() -> None:
    losses = [lost(5, 9)]
    assert add_loss(losses, lost(9, 20)) == lost(5, 20)
    assert losses == [lost(5, 20)]
    assert add_loss(losses, lost(21, 30)) == lost(21, 30)
    assert add_loss(losses, lost(30, 40, LossKind.TRUNCATED)) == lost(30, 40, LossKind.TRUNCATED)
    assert len(losses) == 3


def test_losses_of_unknown_extent_are_not_merged() -> None:
    losses = [lost(5, 5, LossKind.OUT_OF_RANGE)]
    add_loss(losses, lost(5, 5, LossKind.OUT_OF_RANGE))
    assert len(losses) == 2


def test_losses_of_a_partition_are_bounded() -> None:
    losses: list[Loss] = []
    for number in range(LOSSES_KEPT):
        add_loss(losses, lost(10 * number, 10 * number + 3))
    first = 10 * (LOSSES_KEPT - 1)
    merged = add_loss(losses, lost(first + 10, first + 14))
    assert (merged.first, merged.last, merged.count, merged.lost) == (first, first + 13, 2, 7)
    assert merged.offsets == 7
    assert add_loss(losses, lost(first + 14, first + 15)).count == 2, "it continues the last one"
    assert len(losses) == LOSSES_KEPT
    add_loss(losses, lost(0, 1, LossKind.TRUNCATED))
    assert len(losses) == LOSSES_KEPT
    assert losses[0].first == 10


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lost(5, 9), "source offsets 5 to 8 are lost"),
        (lost(5, 6), "source offset 5 is lost"),
        (lost(5, 5), "source offsets from 5 on may be lost (extent unknown)"),
        (lost(5, 105, lost=7), "7 of source offsets 5 to 104 are lost"),
    ],
)
def test_extent_in_words(loss: Loss, words: str) -> None:
    assert extent(loss) == words


def test_warnings_say_what_to_do() -> None:
    assert loss_warning(lost(5, 9), FLOW) == (
        "topic orders partition 0: source offsets 5 to 8 are lost: too late; copying continues; to do: increase"
        " retention.ms or retention.bytes of the source topic, or the speed of replication; accept the loss when it is"
        " dealt with: mm2 accept-loss FILE --flow 'A->B' --topic orders --partition 0; mm2 losses lists all losses"
    )
    assert "to do: accept the loss when" in loss_warning(lost(5, 9, "moon-phase"), FLOW)
    assert "to do" not in loss_warning(lost(5, 9, LossKind.SKIPPED), FLOW)
    stopped = lost(5, 9, stops="partition")
    assert loss_warning(stopped, FLOW) == stop_message(stopped, FLOW)


@pytest.mark.parametrize(("stops", "what"), [("partition", "the partition"), ("flow", "the whole flow")])
def test_a_stop_names_its_command(stops: str, what: str) -> None:
    message = LossPolicy(flow=FLOW).message(lost(5, 9, stops=stops))
    assert message == (
        f"topic orders partition 0: source offsets 5 to 8 are lost: too late; copying of {what} stopped"
        " (mm2.on.data.loss); to continue after the loss: mm2 accept-loss FILE --flow 'A->B' --topic orders"
        " --partition 0"
    )
    assert accept_command(TopicPartition("orders", 0), None) == "mm2 accept-loss FILE --topic orders --partition 0"


def test_the_error_tells_an_unknown_flow() -> None:
    assert LossesUnreadableError("no flow", is_unknown=True).is_unknown
    assert not LossesUnreadableError("later").is_unknown
