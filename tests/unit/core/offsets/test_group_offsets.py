"""The group offset sync cases of MirrorCheckpointTaskTest, and further ones."""

from __future__ import annotations

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.group_offsets import (
    Absent,
    Active,
    AlreadyReached,
    BeyondEnd,
    Decision,
    Idle,
    InUse,
    NoRemotePartition,
    TargetGroup,
    Write,
    decide,
    target_group,
)
from mm2.core.wire.formats import Checkpoint

TP = TopicPartition("A.orders", 0)
CHECKPOINT = Checkpoint(
    group="g", topic_partition=TP, upstream_offset=200, downstream_offset=101, metadata="from the source"
)


@pytest.mark.parametrize(
    ("group", "end", "decision", "reason"),
    [
        (Absent(), 500, Write(offset=101, metadata="from the source", current=None), "set to 101"),
        (Idle(committed={}), 500, Write(offset=101, metadata="from the source", current=None), "set to 101"),
        (Idle(committed={TP: None}), 101, Write(offset=101, metadata="from the source", current=None), "set to 101"),
        (
            Idle(committed={TP: 100}),
            500,
            Write(offset=101, metadata="from the source", current=100),
            "moved from 100 to 101",
        ),
        (Idle(committed={TP: 101}), 500, AlreadyReached(offset=101, current=101), "already at 101"),
        (
            Idle(committed={TP: 150}),
            None,
            AlreadyReached(offset=101, current=150),
            "already at 150, beyond 101; offsets never move backwards",
        ),
        (
            Active(state="Stable"),
            500,
            InUse(state="Stable"),
            "the group is active on the target (Stable) and keeps its own position",
        ),
        (
            Absent(),
            100,
            BeyondEnd(offset=101, end=100),
            "the remote partition ends at 100, before 101: the topic was recreated or truncated",
        ),
        (Absent(), None, NoRemotePartition(), "the remote partition does not exist, or its end offset is unknown"),
    ],
)
def test_decisions(group: TargetGroup, end: int | None, decision: Decision, reason: str) -> None:
    ends = {} if end is None else {TP: end}
    assert decide({TP: CHECKPOINT}, group, ends) == {TP: decision}
    assert str(decision) == reason


def test_no_decisions_without_checkpoints() -> None:
    assert decide({}, Absent(), {TP: 5}) == {}


@pytest.mark.parametrize(
    ("state", "group"),
    [
        (None, Absent()),
        ("Dead", Absent()),
        ("Empty", Idle(committed={TP: 3})),
        ("EMPTY", Idle(committed={TP: 3})),
        ("PreparingRebalance", Active(state="PreparingRebalance")),
        ("Reconciling", Active(state="Reconciling")),
        ("a future state", Active(state="a future state")),
    ],
)
def test_states(state: str | None, group: TargetGroup) -> None:
    assert target_group(state, {TP: 3}) == group


def test_an_empty_group_without_offsets() -> None:
    assert target_group("Empty") == Idle(committed={})
