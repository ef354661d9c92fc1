"""What a loss stops, how losses of a partition are merged, and what operators read about them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mm2.core.lanes.lease import Loss, LossKind, OnDataLoss
from mm2.core.naming.names import Flow

LOSSES_KEPT = 100
"""Losses kept and reported of one partition or source task, and recorded one by one: a partition whose retention is
faster than its replication loses records again and again. Further ones are merged into the last (`add_loss`)."""


class LossesUnreadableError(Exception):
    """The recorded losses of a flow cannot be returned; ``is_unknown``: there is no such flow."""

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


_ASKED_FOR = frozenset({LossKind.SKIPPED, LossKind.DEAD_LETTER})

_STOPS = {OnDataLoss.CONTINUE: "", OnDataLoss.STOP_PARTITION: "partition", OnDataLoss.STOP_FLOW: "flow"}

_ADVICE: dict[str, str] = {
    LossKind.RETENTION: "increase retention.ms or retention.bytes of the source topic, or the speed of replication",
    LossKind.TRUNCATED: "the target still has these records; compare both topics",
    LossKind.TOPIC_DELETED: "restore the records from another copy if they are needed",
    LossKind.TOPIC_RECREATED: "let replication catch up before a topic is deleted and created again",
    LossKind.OUT_OF_RANGE: "find out why the source topic became shorter, such as an unclean leader election",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPolicy:
    """mm2.on.data.loss of a flow. ``flow`` None: its messages name no flow."""

    flow: Flow | None = None
    on_data_loss: OnDataLoss = OnDataLoss.CONTINUE

    def applied(self, loss: Loss, before: Loss | None, accepted: Loss | None) -> Loss:
        """Return ``loss`` with what it stops, and whether an operator has accepted it.

        ``before``: the last loss of the partition. ``accepted``: the loss that was accepted last. An acceptance also
        covers what is lost directly after an accepted loss, before anything was copied.
        """
        stops = "" if loss.kind in _ASKED_FOR else _STOPS[self.on_data_loss]
        covered = before is not None and before.accepted and _continues(before, loss)
        known = accepted is not None and loss.is_same(accepted)
        return replace(loss, stops=stops, accepted=bool(stops) and (known or covered))

    def message(self, loss: Loss) -> str:
        """Return the error of what ``loss`` stopped, with the command that continues."""
        return stop_message(loss, self.flow)


def add_loss(losses: list[Loss], loss: Loss) -> Loss:
    """Append ``loss`` to the losses of a partition, at most `LOSSES_KEPT`; return it as it was merged.

    It extends the last loss if it continues it. After `LOSSES_KEPT` losses it also extends the last one of the same
    kind if records were copied in between: ``count`` and ``lost`` then tell how much of the range was lost.
    """
    last = losses[-1] if losses else None
    if last is not None and _continues(last, loss):
        losses[-1] = _merged(last, loss, count=last.count + loss.count - 1)
    elif last is not None and len(losses) >= LOSSES_KEPT and _follows(last, loss):
        losses[-1] = _merged(last, loss, count=last.count + loss.count)
    else:
        losses.append(loss)
        del losses[:-LOSSES_KEPT]
    return losses[-1]


def _follows(last: Loss, loss: Loss) -> bool:
    return (last.kind, last.topic_id) == (loss.kind, loss.topic_id) and loss.first >= last.until


def _continues(last: Loss, loss: Loss) -> bool:
    return _follows(last, loss) and loss.first == last.until and last.first < last.until


def _merged(last: Loss, loss: Loss, *, count: int) -> Loss:
    lost = last.offsets + loss.offsets
    whole = lost == loss.until - last.first
    return replace(loss, first=last.first, count=count, lost=None if whole else lost)


def extent(loss: Loss) -> str:
    """Return the lost offsets in words."""
    if loss.until <= loss.first:
        return f"source offsets from {loss.first} on may be lost (extent unknown)"
    some = "" if loss.lost is None else f"{loss.offsets} of "
    if loss.last == loss.first:
        return f"source offset {loss.first} is lost"
    return f"{some}source offsets {loss.first} to {loss.last} are lost"


def accept_command(loss: Loss, flow: Flow | None) -> str:
    """Return the command that accepts the loss; the user replaces FILE by the configuration file."""
    where = "" if flow is None else f" --flow '{flow}'"
    return f"mm2 accept-loss FILE{where} --topic {loss.topic} --partition {loss.partition}"


def stop_message(loss: Loss, flow: Flow | None) -> str:
    """Return the error of what ``loss`` stopped, with the command that continues."""
    stopped = "the whole flow" if loss.stops == _STOPS[OnDataLoss.STOP_FLOW] else "the partition"
    return (
        f"topic {loss.topic} partition {loss.partition}: {extent(loss)}: {loss.reason}; copying of {stopped} stopped"
        f" (mm2.on.data.loss); to continue after the loss: {accept_command(loss, flow)}"
    )


def loss_warning(loss: Loss, flow: Flow) -> str:
    """Return the message that is logged once for each loss."""
    if loss.awaits_acceptance:
        return stop_message(loss, flow)
    advice = _ADVICE.get(loss.kind)
    return (
        f"topic {loss.topic} partition {loss.partition}: {extent(loss)}: {loss.reason}; copying continues"
        f"{f'; to do: {advice}' if advice else ''}; mm2 losses lists all losses"
    )
