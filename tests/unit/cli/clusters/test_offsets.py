from __future__ import annotations

import json

from mm2.cli.clusters.flow_offsets import FlowOffsets
from mm2.cli.clusters.group_positions import Answer, GroupPosition, PartitionPosition, StoredCheckpoint
from mm2.cli.clusters.offsets import offsets_json, offsets_view
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint
from tests.unit.cli.views import lines

NOW = 1_700_000_000_000
REMOTE = TopicPartition("A.orders", 0)
STORED = StoredCheckpoint(
    checkpoint=Checkpoint(group="billing", topic_partition=REMOTE, upstream_offset=70_000, downstream_offset=69_000),
    written_ms=NOW - 12_000,
)


def position(
    number: int,
    translated: int | None,
    answer: Answer,
    read_again: int | None,
    *,
    reason: str | None = None,
    checkpoint: StoredCheckpoint | None = None,
    target_offset: int | None = None,
) -> PartitionPosition:
    return PartitionPosition(
        partition=TopicPartition("orders", number),
        remote=TopicPartition("A.orders", number),
        source_offset=77_000,
        translated=translated,
        answer=answer,
        read_again=read_again,
        reason=reason,
        checkpoint=checkpoint,
        target_offset=target_offset,
    )


BILLING = GroupPosition(
    group="billing",
    source_state="Stable",
    target_state=None,
    filtered=None,
    from_checkpoints=False,
    partitions=(
        position(0, 76_000, Answer.EXACT, 0, checkpoint=STORED, target_offset=60_000),
        position(1, 4_001, Answer.CONSERVATIVE, 1_899),
        position(2, None, Answer.NONE, None, reason="too old"),
    ),
)
GONE = GroupPosition(
    group="an, alle",
    source_state=None,
    target_state="Empty",
    filtered="not matched by groups: b.*",
    from_checkpoints=True,
    partitions=(position(0, 9, Answer.CONSERVATIVE, None, checkpoint=STORED),),
)


def found(*groups: GroupPosition, left_out: dict[str, str] | None = None) -> FlowOffsets:
    return FlowOffsets(flow="A->B", groups=groups, left_out=left_out or {}, notes=("A is unreachable",))


def test_view() -> None:
    shown = lines(offsets_view(found(BILLING, left_out={"console": "excluded by groups.exclude: c.*"}), NOW))
    assert shown == [
        "A->B  1 group, 3 partitions: 1 exact, 1 conservative (at most 1,899 records read again), 1 not translated",
        "",
        "group billing  A: Stable  B: no such group",
        "partition  source offset  remote partition  translated  answer           read again  offset on B"
        "  last checkpoint",
        "orders-0          77,000  A.orders-0            76,000  exact                     0       60,000"
        "  70,000 -> 69,000, 12 s ago",
        "orders-1          77,000  A.orders-1             4,001  conservative  at most 1,899            -  none",
        "orders-2          77,000  A.orders-2                 -  none                      -            -  none",
        "  ! orders-2: too old",
        "",
        "not translated:",
        "  console: excluded by groups.exclude: c.*",
    ]


def test_view_of_a_group_with_unavailable_source() -> None:
    shown = lines(offsets_view(found(GONE), NOW))
    assert shown[0] == "A->B  1 group, 1 partition: 1 conservative"  # the number of records is unknown
    assert shown[2] == "group an, alle  positions on A from the last checkpoints  B: Empty"
    assert " conservative     unknown " in shown[4]
    assert shown[5] == "  ! no checkpoints are written: not matched by groups: b.*"


def test_no_groups() -> None:
    empty = GroupPosition(
        group="g", source_state="Empty", target_state=None, filtered=None, from_checkpoints=False, partitions=()
    )
    assert lines(offsets_view(found(), NOW)) == ["A->B  0 groups, 0 partitions"]
    assert lines(offsets_view(found(empty), NOW))[-1] == "  ! no committed offsets"


def test_json() -> None:
    shown = json.loads(json.dumps(offsets_json(found(BILLING, GONE, left_out={"c": "left out"}))))
    assert (shown["flow"], shown["notes"], shown["not_translated"]) == ("A->B", ["A is unreachable"], {"c": "left out"})
    billing, unavailable = shown["groups"]
    assert (billing["source_state"], billing["target_state"], billing["positions_from"]) == ("Stable", None, "source")
    assert (unavailable["filtered"], unavailable["positions_from"]) == ("not matched by groups: b.*", "checkpoints")
    assert billing["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "source_offset": 77_000,
        "remote_topic": "A.orders",
        "translated_offset": 76_000,
        "answer": "exact",
        "read_again": 0,
        "reason": None,
        "checkpoint": {"source_offset": 70_000, "translated_offset": 69_000, "written_ms": NOW - 12_000},
        "target_offset": 60_000,
    }
    assert [one["answer"] for one in billing["partitions"]] == ["exact", "conservative", "none"]
