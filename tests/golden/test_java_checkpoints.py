"""Decisions about groups and offsets, compared with MirrorCheckpointConnector and MirrorCheckpointTask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import (
    Checkpoints,
    CommittedOffset,
    Emit,
    GroupSelection,
    GroupVerdict,
    remote_partition,
)
from mm2.core.offsets.group_offsets import Absent, Idle, Write, decide
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.wire.formats import Checkpoint, OffsetSync
from tests.golden.vectors import java_vectors
from tests.unit.config.files import flow

FLOW = Flow("source1", "target2")
TP = TopicPartition("t", 0)
END = 1000  # end of the remote partitions, beyond every offset in the vectors


def policy_of(case: dict[str, Any]) -> ReplicationPolicy:
    separator = case["settings"].get("replication.policy.separator", ".")
    if case["policy"].endswith(".IdentityReplicationPolicy"):
        return IdentityReplicationPolicy(separator=separator, source_alias=FLOW.source)
    return DefaultReplicationPolicy(separator=separator)


@pytest.mark.parametrize(
    "case", java_vectors("checkpoint-names"), ids=lambda case: f"{case['policy']} {case['settings']}"
)
def test_checkpoint_topics(case: dict[str, Any]) -> None:
    policy = policy_of(case)
    names = {
        topic: remote_partition(TopicPartition(topic, 7), aliases=FLOW, policy=policy)
        for topic in sorted(case["names"])
    }
    assert names == {topic: TopicPartition(name, 7) for topic, name in case["names"].items()}


def synced(offsets: list[int], store: OffsetSyncStore) -> OffsetSyncStore:
    store.apply(OffsetSync(topic_partition=TP, upstream_offset=offsets[0], downstream_offset=offsets[1]))
    store.read_to_end()
    return store


@pytest.mark.parametrize("history", java_vectors("checkpoints"), ids=lambda history: f"seed {history['seed']}")
def test_same_checkpoints_as_java(history: dict[str, Any]) -> None:
    checkpoints = Checkpoints(aliases=FLOW, policy=DefaultReplicationPolicy(), selects=lambda _: True)
    store = OffsetSyncStore(must_read_to_end=False)
    store.read_to_end()
    for event in history["events"]:
        match event:
            case {"sync": offsets}:
                synced(offsets, store)
            case {"restart": offsets}:  # restart: checkpoints are read again, and only the last offset sync
                store = synced(offsets, OffsetSyncStore(must_read_to_end=True))
            case {"committed": committed, "made": made}:
                position = None if committed is None else CommittedOffset(offset=committed[0], metadata=committed[1])
                (outcome,) = checkpoints.judge("g", {TP: position}, store.translate).values()
                assert (fields(outcome.checkpoint) if isinstance(outcome, Emit) else None) == made, event
                if isinstance(outcome, Emit):
                    checkpoints.remember(outcome.checkpoint)


def fields(checkpoint: Checkpoint) -> list[Any]:
    remote = checkpoint.topic_partition
    return [
        remote.topic,
        remote.partition,
        checkpoint.upstream_offset,
        checkpoint.downstream_offset,
        checkpoint.metadata,
    ]


@pytest.mark.parametrize("case", java_vectors("groups"), ids=lambda case: str(case["settings"]))
def test_same_groups_as_java(case: dict[str, Any], tmp_path: Path) -> None:
    settings = flow(tmp_path, "".join(f"{key} = {value}\n" for key, value in case["settings"].items()))
    groups = GroupSelection(selects=settings.group_filter, topics=settings.topic_filter)
    found = [
        group
        for group, topics in case["topics"].items()
        if groups.verdict(group, [TopicPartition(topic, 0) for topic in topics]) is GroupVerdict.CHECKPOINTED
    ]
    assert sorted(found) == case["found"]


@pytest.mark.parametrize("case", java_vectors("group-offsets"), ids=lambda case: str(case["idle"]))
def test_same_group_offset_commits_as_java(case: dict[str, Any]) -> None:
    def remote(partition: str) -> TopicPartition:
        return TopicPartition("source1.t", int(partition))

    checkpoints = {
        remote(partition): Checkpoint(
            group="g",
            topic_partition=remote(partition),
            upstream_offset=100,
            downstream_offset=offset,
            metadata=metadata,
        )
        for partition, (offset, metadata) in case["checkpoints"].items()
    }
    idle: dict[str, int | None] | None = case["idle"]
    group = Absent() if idle is None else Idle(committed={remote(one): offset for one, offset in idle.items()})
    decisions = decide(checkpoints, group, dict.fromkeys(checkpoints, END))
    written = {
        str(partition.partition): [decision.offset, decision.metadata]
        for partition, decision in decisions.items()
        if isinstance(decision, Write)
    }
    assert written == case["written"]
