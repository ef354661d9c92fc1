"""Records of ``mm2-losses.<source>.internal``: source records that can no longer be copied.

The topic is on the target, compacted, with one partition; Java does not replicate it because of its name (KIP-1074).

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
    accepted   true: an operator accepted the loss (false)

Unknown fields are ignored. A loss that is noticed again, after a restart, has the same key; ``topicId`` keeps those of
topics of the same name apart, and is left out of the key if it is unknown. A null value deletes a loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mm2.core.lanes.losses import Loss
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

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
    own = {"count": loss.count, "lost": loss.lost, "topicId": loss.topic_id, "stops": loss.stops}
    defaults = {"count": 1, "lost": None, "topicId": None, "stops": ""}
    value |= {name: one for name, one in own.items() if one != defaults[name]}
    return _dump(value | ({"accepted": True} if loss.accepted else {}))


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
            **others,
        } if partition >= 0 and 0 <= first <= last + 1 <= _INT64_MAX:
            return Loss(
                topic=topic,
                partition=partition,
                first=first,
                until=last + 1,
                reason=reason,
                kind=_text(others, "kind") or "",
                time=_number(others, "time") or None,
                count=_number(others, "count") or 1,
                lost=_number(others, "lost"),
                topic_id=_text(others, "topicId"),
                stops=_text(others, "stops") or "",
                accepted=others.get("accepted") is True,
            )
    raise FormatError(f"cannot read loss: not {{topic, partition, first, last, reason}}: {value!r:.200}")


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
