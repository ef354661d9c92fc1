"""Shares exchanged with earlier releases, which encode unknown values as -1."""

from __future__ import annotations

import json
from typing import Any

from mm2.core.lanes.counters import PartitionCounters
from mm2.node.status.status_model import PartitionStatus
from mm2.rest.public.flows import SHARE
from tests.contract.samples import flow, member, node, partition, topic


def served(number: int, **changes: object) -> PartitionStatus:
    """Return a partition without its totals, which are not part of a share."""
    return partition(number, counters=PartitionCounters(), **changes)


UNKNOWN = served(0, position=None, end_offset=None, lag_records=None, lag_seconds=None)
KNOWN = served(1, position=40, end_offset=50, lag_records=10, lag_seconds=1.5)


def share_of(*partitions: PartitionStatus) -> Any:
    status = node(flow(topic("orders", *partitions)))
    return json.loads(SHARE.dump(status, status.flows[0]))


def read(share: Any) -> tuple[PartitionStatus, ...]:
    found = SHARE.read(json.dumps(share).encode(), member(share["node"]))
    return found.flow.topics[0].partitions


def test_unknown_is_written_as_minus_one() -> None:
    first, second = share_of(UNKNOWN, KNOWN)["flow"]["topics"][0]["partitions"]
    assert [first[key] for key in ("position", "end_offset", "lag_records", "lag_seconds")] == [-1, -1, -1, -1.0]
    assert [second[key] for key in ("position", "end_offset", "lag_records", "lag_seconds")] == [40, 50, 10, 1.5]


def test_minus_one_is_read_as_unknown() -> None:
    assert read(share_of(UNKNOWN, KNOWN)) == (UNKNOWN, KNOWN)
