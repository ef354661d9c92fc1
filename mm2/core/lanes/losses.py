"""Losses of source records: their kinds, what they stop, how they are merged, and what operators read about them.

They are recorded in ``mm2-losses.<source>.internal``. The topic is on the target, compacted, with one partition; Java
does not replicate it because of its name (KIP-1074).

    key      {"topic":"orders","partition":0,"first":100,"kind":"retention","topicId":"…"}
    value    {"topic":"orders","partition":0,"first":100,"last":199,"time":1763740800000,"reason":"…",
              "kind":"retention"}

``first`` and ``last`` are source offsets, both lost; ``last`` = ``first`` - 1: the extent is unknown. ``time`` is epoch
ms. ``kind`` is a `LossKind`, or one of a later release. For ``truncated`` they are offsets whose records the target has
and the source no longer has. These fields follow if they have another value than their default:

    count      losses that were merged into this record (1)
    lost       lost offsets between first and last (all of them)
    topicId    ID of the source topic that is copied after the loss, as text (unknown)
    stops      "partition" or "flow": copying stops until the loss is accepted (nothing stops)
    remoteTopic   name of the remote topic (unknown)
    accepted   true: an operator accepted the loss (false)
    acceptedAt, acceptedBy, acceptReason   when, epoch ms, by whom and why (unknown)

Unknown fields are ignored. A loss that is noticed again, after a restart, has the same key; ``topicId`` keeps those of
topics of the same name apart, and is left out of the key if it is unknown. A null value deletes a loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

LOSSES_KEPT = 100
"""Losses kept and reported of one partition or source task, and recorded one by one: a partition whose retention is
faster than its replication loses records again and again. Further ones are merged into the last (`add_loss`)."""


class LossKind(StrEnum):
    """Causes of a loss. Later releases can add some, so fields with a kind are plain strings.

    ``SKIPPED`` and ``DEAD_LETTER``, which the operator asked for, and ``TARGET_TRUNCATED``, a loss of copies, stop
    nothing.
    """

    RETENTION = "retention"
    TRUNCATED = "truncated"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_RECREATED = "topic-recreated"
    OUT_OF_RANGE = "out-of-range"
    SKIPPED = "skipped"
    DEAD_LETTER = "dead-letter"
    TARGET_TRUNCATED = "target-truncated"


class OnDataLoss(StrEnum):
    """The values of mm2.on.data.loss."""

    CONTINUE = "continue"
    STOP_PARTITION = "stop-partition"
    STOP_FLOW = "stop-flow"


LossKey = tuple[str, int, int, str, str]
"""Topic, partition, first offset, kind and topic ID of a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Source records that can no longer be copied, as reported by lanes and recorded in ``mm2-losses.*``.

    For kind ``truncated``, records that the target has and the source no longer has; for ``target-truncated``, records
    that were copied and that the target no longer has. ``until`` equal to ``first``: the
    extent is unknown.
    """

    topic: str
    partition: int
    first: int = field(metadata={"description": "first source offset that is lost"})
    until: int = field(metadata={"description": "first source offset after the lost range"})
    reason: str
    kind: str = field(metadata={"description": "the cause, a `LossKind`, or one of a later release"})
    time: int | None = field(default=None, metadata={"description": "when it was noticed, epoch ms; null: unknown"})
    last: int = field(
        default=-1, metadata={"description": "last source offset that is lost; first - 1: the extent is unknown"}
    )
    count: int = field(default=1, metadata={"description": "number of losses that were merged into this one"})
    lost: int | None = field(
        default=None, metadata={"description": "lost offsets between first and last; null: all of them"}
    )
    topic_id: str | None = field(
        default=None, metadata={"description": "ID of the source topic that continues after the loss; null: unknown"}
    )
    stops: str = field(
        default="", metadata={"description": "what stopped until the loss is accepted: partition, flow, or empty"}
    )
    accepted: bool = field(default=False, metadata={"description": "whether an operator accepted the loss"})
    remote_topic: str | None = field(
        default=None, metadata={"description": "name of the topic on the target; null: unknown"}
    )
    accepted_at: int | None = field(
        default=None, metadata={"description": "when it was accepted, epoch ms; null: it was not, or unknown"}
    )
    accepted_by: str | None = field(
        default=None, metadata={"description": "who accepted it; null: it was not, or unknown"}
    )
    accept_reason: str | None = field(
        default=None, metadata={"description": "why it was accepted, in the operator's words; null: none given"}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", self.until - 1)

    @property
    def offsets(self) -> int:
        """The number of lost offsets."""
        return self.until - self.first if self.lost is None else self.lost

    @property
    def awaits_acceptance(self) -> bool:
        """Whether copying waits for an operator to accept the loss."""
        return bool(self.stops) and not self.accepted

    @property
    def is_unaccepted(self) -> bool:
        """Whether no operator has accepted or intended the loss; one of a kind of a later release counts."""
        return not self.accepted and self.kind not in INTENDED

    def accept(self, *, at: int, by: str | None, reason: str | None) -> Loss:
        """Return the loss as accepted: when (epoch ms), by whom and why. The time when it was noticed stays."""
        return replace(self, accepted=True, accepted_at=at, accepted_by=by, accept_reason=reason)

    @property
    def key(self) -> LossKey:
        """What tells it from other losses; it is the same if the loss is noticed again with another extent."""
        return self.topic, self.partition, self.first, self.kind, self.topic_id or ""

    def is_same(self, other: Loss) -> bool:
        """Return whether ``other`` is this loss, though possibly noticed at another time with another extent."""
        return self.key == other.key


class LossesUnreadableError(Exception):
    """The recorded losses of a flow cannot be returned; ``is_unknown``: there is no such flow."""

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


INTENDED = frozenset({LossKind.SKIPPED, LossKind.DEAD_LETTER})
"""What an operator asked for, with mm2 skip or a topic of dead letters. It is recorded and counted, and needs no
acceptance."""

_NEVER_STOP = INTENDED | {LossKind.TARGET_TRUNCATED}

_STOPS = {OnDataLoss.CONTINUE: "", OnDataLoss.STOP_PARTITION: "partition", OnDataLoss.STOP_FLOW: "flow"}

_ADVICE: dict[str, str] = {
    LossKind.RETENTION: "increase retention.ms or retention.bytes of the source topic, or the speed of replication",
    LossKind.TRUNCATED: "the target still has these records; compare both topics",
    LossKind.TOPIC_DELETED: "restore the records from another copy if they are needed",
    LossKind.TOPIC_RECREATED: "let replication catch up before a topic is deleted and created again",
    LossKind.TARGET_TRUNCATED: "set unclean.leader.election.enable = false on the target; copy them again if needed",
    LossKind.OUT_OF_RANGE: "find out why the source topic became shorter, such as an unclean leader election",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPolicy:
    """mm2.on.data.loss of a flow. ``flow`` None: there is none in a file, and messages name no flow and no keys."""

    flow: Flow | None = None
    on_data_loss: OnDataLoss = OnDataLoss.CONTINUE

    def applied(self, loss: Loss, before: Loss | None, accepted: Loss | None, recorded: Loss | None = None) -> Loss:
        """Return ``loss`` with what it stops, when it was noticed first, and whether an operator has accepted it.

        ``before``: the last loss of the partition. ``accepted``: the loss that was accepted last. ``recorded``: the
        loss that was recorded last, with its time. An acceptance of a loss that stopped something also covers what is
        lost directly after it, before anything was copied. Of a loss that stops nothing it covers the offsets that were
        known then: what is lost later needs another acceptance.
        """
        stops = "" if loss.kind in _NEVER_STOP else _STOPS[self.on_data_loss]
        loss = replace(loss, stops=stops)
        if recorded is not None and loss.is_same(recorded):
            loss = replace(loss, time=recorded.time)
        if accepted is not None and loss.is_same(accepted) and (stops or loss.until <= accepted.until):
            until = max(loss.until, accepted.until)
            return replace(with_acceptance_of(accepted, loss), until=until, time=accepted.time)
        if stops and before is not None and before.accepted and _continues(before, loss):
            return with_acceptance_of(before, loss)
        return loss

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
    time = loss.time if last.time is None else last.time  # when the first of them was noticed
    return replace(loss, first=last.first, count=count, lost=None if whole else lost, time=time)


def with_acceptance_of(accepted: Loss, loss: Loss) -> Loss:
    """Return ``loss`` with the acceptance of ``accepted``."""
    return replace(
        loss,
        accepted=accepted.accepted,
        accepted_at=accepted.accepted_at,
        accepted_by=accepted.accepted_by,
        accept_reason=accepted.accept_reason,
    )


def extent(loss: Loss) -> str:
    """Return the lost offsets in words."""
    if loss.until <= loss.first:
        return f"source offsets from {loss.first} on may be lost (extent unknown)"
    some = "" if loss.lost is None else f"{loss.offsets} of "
    if loss.last == loss.first:
        return f"source offset {loss.first} is lost"
    return f"{some}source offsets {loss.first} to {loss.last} are lost"


def accept_command(partition: TopicPartition, flow: Flow | None) -> str:
    """Return the command that accepts what stops the partition; the user replaces FILE by the configuration file."""
    where = "" if flow is None else f" --flow '{flow}'"
    return f"mm2 accept-loss FILE{where} --topic {partition.topic} --partition {partition.partition}"


def stop_message(loss: Loss, flow: Flow | None) -> str:
    """Return the error of what ``loss`` stopped, with the command that continues."""
    stopped = "the whole flow" if loss.stops == _STOPS[OnDataLoss.STOP_FLOW] else "the partition"
    command = accept_command(TopicPartition(loss.topic, loss.partition), flow)
    return (
        f"topic {loss.topic} partition {loss.partition}: {extent(loss)}: {loss.reason}; copying of {stopped} stopped"
        f" (mm2.on.data.loss); to continue after the loss: {command}"
    )


def loss_warning(loss: Loss, flow: Flow) -> str:
    """Return the message that is logged once for each loss."""
    if loss.awaits_acceptance:
        return stop_message(loss, flow)
    advice = _ADVICE.get(loss.kind)
    if loss.is_unaccepted:
        command = accept_command(TopicPartition(loss.topic, loss.partition), flow)
        advice = f"{f'{advice}; ' if advice else ''}accept the loss when it is dealt with: {command}"
    return (
        f"topic {loss.topic} partition {loss.partition}: {extent(loss)}: {loss.reason}; copying continues"
        f"{f'; to do: {advice}' if advice else ''}; mm2 losses lists all losses"
    )


PARTITION = 0  # the topic has only one

_INT64_MAX = 2**63 - 1


def encode_loss_key(loss: Loss) -> bytes:
    """Return the record's key."""
    key: dict[str, object] = {"topic": loss.topic, "partition": loss.partition, "first": loss.first}
    key["kind"] = str(loss.kind)
    return _dump(key if loss.topic_id is None else key | {"topicId": loss.topic_id})


def encode_loss(loss: Loss) -> bytes:
    """Return the record's value."""
    value: dict[str, object] = {
        "topic": loss.topic,
        "partition": loss.partition,
        "first": loss.first,
        "last": loss.last,
        "time": loss.time or 0,
        "reason": loss.reason,
        "kind": str(loss.kind),
    }
    own: dict[str, tuple[object, object]] = {  # with their defaults
        "count": (loss.count, 1),
        "lost": (loss.lost, None),
        "topicId": (loss.topic_id, None),
        "stops": (loss.stops, ""),
        "remoteTopic": (loss.remote_topic, None),
        "accepted": (loss.accepted, False),
        "acceptedAt": (loss.accepted_at, None),
        "acceptedBy": (loss.accepted_by, None),
        "acceptReason": (loss.accept_reason, None),
    }
    return _dump(value | {name: one for name, (one, default) in own.items() if one != default})


def decode_loss_key(key: bytes | None) -> LossKey:
    """Read the key of a record. Raises FormatError."""
    match decode_json(key or b"null", "loss key"):
        case {"topic": str(topic), "partition": int(partition), "first": int(first), "kind": str(kind), **others}:
            return topic, partition, first, kind, _text(others, "topicId") or ""
    raise FormatError(f"cannot read loss key: not {{topic, partition, first, kind}}: {key!r:.200}")


def decode_loss(key: bytes | None, value: bytes | None) -> Loss | None:
    """Read a record; None if it deletes a loss. Raises FormatError."""
    if value is None:
        decode_json(key, "loss key")
        return None
    match decode_json(value, "loss"):
        case {
            "topic": str(topic),
            "partition": int(partition),
            "first": int(first),
            "last": int(last),
            "reason": str(reason),
            "kind": str(kind),
            **others,
        } if partition >= 0 and 0 <= first <= last + 1 <= _INT64_MAX:
            return Loss(
                topic=topic,
                partition=partition,
                first=first,
                until=last + 1,
                reason=reason,
                kind=kind,
                time=_number(others, "time") or None,
                count=_number(others, "count") or 1,
                lost=_number(others, "lost"),
                topic_id=_text(others, "topicId"),
                stops=_text(others, "stops") or "",
                accepted=others.get("accepted") is True,
                remote_topic=_text(others, "remoteTopic"),
                accepted_at=_number(others, "acceptedAt"),
                accepted_by=_text(others, "acceptedBy"),
                accept_reason=_text(others, "acceptReason"),
            )
    raise FormatError(f"cannot read loss: not {{topic, partition, first, last, reason, kind}}: {value!r:.200}")


def _text(fields: Mapping[object, object], name: str) -> str | None:
    found = fields.get(name)
    if found is None or isinstance(found, str):
        return found
    raise FormatError(f"cannot read loss: {name} is not text: {found!r:.200}")


def _number(fields: Mapping[object, object], name: str) -> int | None:
    found = fields.get(name)
    if found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0):
        return found
    raise FormatError(f"cannot read loss: {name} is not a number: {found!r:.200}")


def _dump(value: dict[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
