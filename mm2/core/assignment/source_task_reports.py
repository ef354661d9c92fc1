"""Reports about a source task from the node that runs it to the leader, in ``mm2-status.*``; Java skips these records.

    mm2-source-task-<source task>    {"epoch":7,"version":3,"member":"…","node":"…","demands":{"orders":[[0,12000],…]},
                                      "use":[250000,true]}

The source task runs only partitions of list (epoch, version) of `source_task_records`. Partitions that were only in
older lists are stopped with their offsets stored, and can be given to another source task. ``demands`` are bytes per
second (`partition_load`) of its busiest partitions. ``use``: bytes per second that it fetches, and whether its share of
mm2.max.bytes.per.second holds it up (`mm2.core.lanes.fetch_shares`); only with a limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mm2.core.assignment.chunked_records import Age
from mm2.core.lanes.fetch_shares import FetchUse
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

_KEY = re.compile(r"mm2-source-task-(\d{1,9})")

DEMANDS_REPORTED = 200
"""Maximum number of partitions in a report, so that the record stays small. The busiest partitions decide whether a
source task or a node is overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskReport:
    """Report about one source task. ``member`` and ``node`` are the IDs of the member and the node that run it."""

    source_task: int
    epoch: int
    version: int
    member: str
    node: str
    demands: Mapping[TopicPartition, int] = field(default_factory=dict)
    use: FetchUse | None = None

    @property
    def age(self) -> Age:
        """Epoch and version of the list that the source task runs."""
        return self.epoch, self.version

    def key(self) -> bytes:
        """The record's key."""
        return f"mm2-source-task-{self.source_task}".encode()

    def value(self) -> bytes:
        """The record's value."""
        busiest = sorted(self.demands, key=lambda one: (-self.demands[one], one))[:DEMANDS_REPORTED]
        demands: dict[str, list[list[int]]] = {}
        for one in sorted(busiest):
            demands.setdefault(one.topic, []).append([one.partition, self.demands[one]])
        message: dict[str, object] = {
            "epoch": self.epoch,
            "version": self.version,
            "member": self.member,
            "node": self.node,
            "demands": demands,
        }
        if self.use is not None:
            message["use"] = [self.use.rate, self.use.is_held_up]
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _use(value: Sequence[object] | None) -> FetchUse | None:
    if value is None:
        return None
    rate, is_held_up, *_ = value
    return FetchUse(as_int(rate), is_held_up is True)


def is_report_key(key: bytes | None) -> bool:
    """Return whether the key is that of a source task report."""
    return key is not None and key.startswith(b"mm2-source-task-")


def decode_report(key: bytes | None, value: bytes | None) -> SourceTaskReport:
    """Read one record. Raises FormatError."""
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    if found is None:
        raise FormatError(f"cannot read source task report: invalid key: {key!r:.200}")
    try:
        message = decode_json(value, "source task report")
        return SourceTaskReport(
            source_task=int(found[1]),
            epoch=as_int(message["epoch"]),
            version=as_int(message["version"]),
            member=str(message["member"]),
            node=str(message["node"]),
            demands={
                TopicPartition(topic, as_int(number)): as_int(demand)
                for topic, pairs in message["demands"].items()
                for number, demand in pairs
            },
            use=_use(message.get("use")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read source task report {found[1]}: {error!r}: {value!r:.200}") from None
