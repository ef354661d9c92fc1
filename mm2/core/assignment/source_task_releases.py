"""Records about the orderly release of source tasks, in ``mm2-status.*``; Java and older releases skip them.

    mm2-released-<source task>    {"producer":[4711,3]}

The last owner of the source task wrote with this producer ID and epoch, has drained, and writes nothing more. The next
owner gets the next epoch of the same producer ID, unless another one was in between: only then is the record about the
last owner.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from mm2.core.lanes.lease import TaskProducer
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

_PREFIX = b"mm2-released-"
_KEY = re.compile(r"mm2-released-(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskRelease:
    """The orderly release of one source task by the owner that wrote with this producer."""

    source_task: int
    producer_id: int
    epoch: int

    def precedes(self, producer: TaskProducer) -> bool:
        """Return whether no other owner was between the one that released the source task and ``producer``."""
        return (self.producer_id, self.epoch + 1) == (producer.producer_id, producer.epoch)

    def key(self) -> bytes:
        """The record's key."""
        return _PREFIX + str(self.source_task).encode()

    def value(self) -> bytes:
        """The record's value."""
        return json.dumps({"producer": [self.producer_id, self.epoch]}, separators=(",", ":")).encode()


def is_release_key(key: bytes | None) -> bool:
    """Return whether the key is that of a source task's release."""
    return key is not None and key.startswith(_PREFIX)


def decode_release(key: bytes | None, value: bytes | None) -> SourceTaskRelease:
    """Read one record. Raises FormatError."""
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    if found is None:
        raise FormatError(f"cannot read source task release: invalid key: {key!r:.200}")
    try:
        producer_id, epoch, *_ = decode_json(value, "source task release")["producer"]
        return SourceTaskRelease(source_task=int(found[1]), producer_id=as_int(producer_id), epoch=as_int(epoch))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read source task release {found[1]}: {error!r}: {value!r:.200}") from None
