"""What the node that runs a slot tells the leader, in ``mm2-status.*`` beside Java's records (which skips it).

    mm2-slots-<slot>    {"epoch":7,"version":3,"member":"…","node":"…","demands":{"orders":[[0,12000],…]}}

The slot runs nothing that is not in list (epoch, version) of `slot_records`: what an older list had more is stored and
stopped, and may be given to another slot. ``demands`` are bytes per second (`partition_load`) of its busiest
partitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mm2.core.formats import FormatError
from mm2.core.names import TopicPartition

_KEY = re.compile(r"mm2-slots-(\d{1,9})")

DEMANDS_TOLD = 200
"""Of a slot's partitions: the busiest ones decide what is too much for a slot or a node; the record stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReport:
    """``member`` and ``node``: who runs the slot, by member id and node id."""

    slot: int
    epoch: int
    version: int
    member: str
    node: str
    demands: Mapping[TopicPartition, int] = field(default_factory=dict)

    def key(self) -> bytes:
        """The record's key."""
        return f"mm2-slots-{self.slot}".encode()

    def value(self) -> bytes:
        """The record's value."""
        busiest = sorted(self.demands, key=lambda one: (-self.demands[one], one))[:DEMANDS_TOLD]
        demands: dict[str, list[list[int]]] = {}
        for one in sorted(busiest):
            demands.setdefault(one.topic, []).append([one.partition, self.demands[one]])
        message = {
            "epoch": self.epoch,
            "version": self.version,
            "member": self.member,
            "node": self.node,
            "demands": demands,
        }
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def is_report_key(key: bytes | None) -> bool:
    """Whether the record is one of these."""
    return key is not None and key.startswith(b"mm2-slots-")


def decode_report(key: bytes | None, value: bytes | None) -> SlotReport:
    """Read one record. Raises FormatError."""
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    if found is None:
        raise FormatError(f"read slot report: no such key: {key!r:.200}")
    try:
        message: Any = json.loads((value or b"").decode())
        return SlotReport(
            slot=int(found[1]),
            epoch=int(message["epoch"]),
            version=int(message["version"]),
            member=str(message["member"]),
            node=str(message["node"]),
            demands={
                TopicPartition(str(topic), int(number)): int(demand)
                for topic, pairs in message["demands"].items()
                for number, demand in pairs
            },
        )
    except (ValueError, OverflowError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"read slot report {found[1]}: {error!r}: {value!r:.200}") from None
