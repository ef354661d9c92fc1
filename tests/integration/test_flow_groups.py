"""Consumer groups move between clusters: checkpoints and group offset sync of a running flow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.shared_node import SEEN, Mirror, SharedNode, exists
from tests.lab.checkpoints import Checkpoint, going_back, read_checkpoints
from tests.lab.groups import Offsets, commit, committed, member
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

CONSUMED = 30.0  # seconds to read a hundred records
LAG_MAX = 10  # offset.lag.max of flow ``plain``


def checkpoints_topic(flow: Mirror) -> str:
    return f"{flow.alias_in_names}{flow.separator}checkpoints{flow.separator}internal"


def checkpoints(flow: Mirror, group: str) -> list[Checkpoint]:
    return read_checkpoints(flow.target, checkpoints_topic(flow), group)


def latest(flow: Mirror, group: str, topic: str) -> dict[int, Checkpoint]:
    """Return the last checkpoint of each partition of a remote topic."""
    return {one.partition: one for one in checkpoints(flow, group) if one.topic == topic}


def wait_checkpoints(flow: Mirror, group: str, topic: str, upstream: dict[int, int]) -> dict[int, Checkpoint]:
    """Wait until the remote topic has checkpoints for these source offsets."""

    def there() -> dict[int, Checkpoint]:
        found = latest(flow, group, topic)
        return found if {number: one.upstream for number, one in found.items()} == upstream else {}

    return wait_until(there, SEEN, f"{flow.name}: checkpoints of {group} for {topic} at {upstream}")


def wait_committed(flow: Mirror, group: str, offsets: Offsets) -> None:
    """Wait until the group has these offsets on the target."""
    wait_until(lambda: committed(flow.target, group) == offsets, SEEN, f"{group} is at {offsets} on the target")


def groups(flow: Mirror) -> dict[str, dict[str, Any]]:
    """Return the response of /flows/…/groups, by group."""
    answer = flow.node.get(f"/flows/{flow.source_alias}/{flow.target_alias}/groups")
    assert answer is not None
    return {one["group"]: one for one in answer.json()["groups"]}


def consume(consumer: Consumer, count: int) -> dict[tuple[str, int], int]:
    """Consume ``count`` records, commit, and return the position in each partition."""
    places: dict[tuple[str, int], int] = {}
    left = count

    def done() -> bool:
        nonlocal left
        for message in consumer.consume(left, 0.5):
            assert message.error() is None
            places[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1
            left -= 1
        return left == 0

    wait_until(done, CONSUMED, f"{count} records are consumed")
    consumer.commit(asynchronous=False)
    return places


def test_failover_and_failback(shared: SharedNode) -> None:
    """testReplication: a group moves to the other cluster and back, using only checkpoints."""
    there, back = shared.plain, shared.back
    topic = there.named("loop-orders")
    group = there.named("loop-group")
    for cluster in (there.source, there.target):
        cluster.create_topic(topic, 4)
        write(cluster.bootstrap, topic, plain(100, partitions=4))
    there.wait_copied(topic)
    back.wait_copied(topic)
    with member(there.source, group, {topic}) as consumer:
        consume(consumer, 100)
    remote = there.remote(topic)
    translated = wait_checkpoints(there, group, remote, dict.fromkeys(range(4), 25))
    assert all(0 < one.downstream <= 25 for one in translated.values())

    write(there.source.bootstrap, topic, plain(40, partitions=4, first=100))
    there.wait_copied(topic)
    positions = {(remote, number): one.downstream for number, one in translated.items()}
    commit(there.target, group, positions)  # as a consumer does with the translated offsets
    unread = sum(35 - offset for offset in positions.values())
    assert unread >= 40, "nothing is skipped"
    with member(there.target, group, {remote, topic}) as consumer:
        assert len(consume(consumer, unread + 100)) == 8

    returned = wait_checkpoints(back, group, back.remote(topic), dict.fromkeys(range(4), 25))
    assert all(0 < one.downstream <= 25 for one in returned.values())
    assert going_back(checkpoints(there, group) + checkpoints(back, group)) == []
    shown = groups(there)[group]
    assert shown["state"] in ("TRANSLATED", "PARTLY_TRANSLATED")

    def counted() -> float:
        return shared.node.metric("mm2_checkpoint_latency_seconds_count", group=group)

    wait_until(lambda: counted() >= 8, SEEN, "a checkpoint of each partition, there and back, is counted")


def test_empty_partition(shared: SharedNode) -> None:
    """testReplicationWithEmptyPartition."""
    flow = shared.plain
    topic, group = flow.create("gaps", 3), flow.named("gaps-group")
    write(flow.source.bootstrap, topic, plain(50, partitions=2))
    flow.wait_copied(topic)
    with member(flow.source, group, {topic}) as consumer:
        consume(consumer, 50)
    commit(flow.source, group, {(topic, 2): 0})
    wait_checkpoints(flow, group, flow.remote(topic), {0: 25, 1: 25})
    with member(flow.target, group, {flow.remote(topic)}) as consumer:
        consume(consumer, 50)
        consumer.commit(offsets=[TopicPartition(flow.remote(topic), 2, 0)], asynchronous=False)
    assert committed(flow.target, group)[flow.remote(topic), 2] == 0


# an offset sync per record: test_group_far_behind_and_group_that_seeks_back, test_active_group_is_reported
@pytest.mark.parametrize("kind", ["exact", pytest.param("frequent", marks=pytest.mark.long)])
def test_group_offsets_are_synced(shared: SharedNode, kind: str) -> None:
    """testOneWayReplicationWithAutoOffsetSync and WithFrequentOffsetSyncs; syncs on the target (`unusual`) as well."""
    flow = shared.unusual if kind == "exact" else shared.keeping
    group = flow.named("followed")
    ends: dict[tuple[str, int], int] = {}
    for stem in ("first", "later"):
        topic = flow.create(stem, 2)
        flow.wait_state(topic, "RUNNING")  # `unusual` copies only records written from now on
        write(flow.source.bootstrap, topic, plain(60, partitions=2))
        flow.wait_copied(topic)
        with member(flow.source, group, {topic}) as consumer:
            consume(consumer, 60)
        ends |= {(flow.remote(topic), number): 30 for number in (0, 1)}
        wait_committed(flow, group, ends)
        assert not exists(flow.source, f"{flow.target_alias}{flow.separator}{topic}"), (
            "nothing is replicated in the other direction"
        )
        with member(flow.target, group, {flow.remote(topic)}) as consumer:
            assert consumer.consume(1, 1.0) == [], "no record is delivered again"
    assert going_back(checkpoints(flow, group)) == []

    def decisions() -> set[str]:
        return {row["sync"] for row in groups(flow)[group]["partitions"]}

    wait_until(lambda: decisions() == {"already at 30"}, SEEN, "the group is idle again")
    assert {row["precision"] for row in groups(flow)[group]["partitions"]} == {"exact"}


def test_offset_syncs_topic_location(shared: SharedNode) -> None:
    """testOffsetSyncsTopicsOnTarget."""
    flow = shared.unusual
    syncs = f"mm2-offset-syncs_{flow.alias_in_names}_internal"
    assert exists(flow.target, syncs)
    assert not exists(flow.source, syncs)
    assert exists(flow.target, checkpoints_topic(flow))


def test_no_checkpoint_before_records_are_mirrored(shared: SharedNode) -> None:
    """testNoCheckpointsIfNoRecordsAreMirrored."""
    flow = shared.plain
    topic, group = flow.create("quiet"), flow.named("quiet-group")
    commit(flow.source, group, {(topic, 0): 0})
    wait_until(lambda: groups(flow).get(group, {}).get("state") == "NOT_REPLICATED", SEEN, "the group is shown")
    assert checkpoints(flow, group) == []
    write(flow.source.bootstrap, topic, plain(5))
    flow.wait_copied(topic)
    wait_checkpoints(flow, group, flow.remote(topic), {0: 0})


def test_group_far_behind_and_group_that_seeks_back(shared: SharedNode) -> None:
    """testOffsetTranslationBehindReplicationFlow with Java's offset syncs: old ones get sparse, none skips records."""
    flow = shared.keeping
    topic, group = flow.create("long"), flow.named("behind")
    write(flow.source.bootstrap, topic, plain(1000), records_per_batch=100)
    flow.wait_copied(topic)
    commit(flow.source, group, {(topic, 0): 1000})
    remote = flow.remote(topic)

    def synced() -> bool:
        last = latest(flow, group, remote).get(0)
        return last is not None and (last.upstream, last.downstream) == (1000, 1000)

    wait_until(synced, SEEN, "the last copied record has an offset sync")
    write(flow.source.bootstrap, topic, plain(1000, first=1000), records_per_batch=100)
    flow.wait_copied(topic)
    found = []
    for offset in (1800, 200):
        commit(flow.source, group, {(topic, 0): offset})
        checkpoint = wait_checkpoints(flow, group, remote, {0: offset})[0]
        assert 0 < checkpoint.downstream <= offset
        found.append(checkpoint.downstream)
    assert found[1] < 1000 <= found[0]


def test_active_group_is_reported(shared: SharedNode) -> None:
    flow = shared.keeping
    topic, group = flow.create("busy"), flow.named("busy-group")
    write(flow.source.bootstrap, topic, plain(20))
    flow.wait_copied(topic)
    with member(flow.target, group, {topic}):
        commit(flow.source, group, {(topic, 0): 20})
        wait_until(lambda: groups(flow).get(group, {}).get("state") == "ACTIVE", SEEN, "the group is active")
        assert committed(flow.target, group) == {}
    wait_committed(flow, group, {(topic, 0): 20})
    for offset in (15, 10):  # two rounds, which leave the group where it is: offsets never move backwards
        wait_sync(flow, group, topic, offset)
    assert committed(flow.target, group) == {(topic, 0): 20}
    write(flow.source.bootstrap, topic, plain(20, first=20))
    flow.wait_copied(topic)
    commit(flow.source, group, {(topic, 0): 40})
    wait_committed(flow, group, {(topic, 0): 40})


def wait_sync(flow: Mirror, group: str, topic: str, offset: int) -> None:
    """Wait until a round of the sync that begins now has read another offset of the group."""
    commit(flow.source, group, {(topic, 0): offset})

    def seen() -> bool:
        (row,) = groups(flow)[group]["partitions"]
        result = re.match(r"already at 20, beyond (\d+)", row["sync"] or "")
        return row["source_offset"] == offset and result is not None and int(result[1]) <= offset

    wait_until(seen, SEEN, f"a round has seen {group} at {offset}")


def test_flow_without_checkpoints_reports_the_reason(shared: SharedNode) -> None:
    flow = shared.beating
    answer = flow.node.get(f"/flows/{flow.source_alias}/{flow.target_alias}/groups")
    assert answer is not None
    assert answer.json()["groups"] == []
    assert answer.json()["reasons"] == ["the flow is not enabled"]


def test_checkpoint_task_is_shown(shared: SharedNode) -> None:
    """One task for each list of groups, and always the first one."""

    def tasks() -> list[dict[str, Any]]:
        return [task for task in shared.node.flow(shared.plain.name)["tasks"] if task["kind"] == "checkpoint"]

    assert "MirrorCheckpointConnector-0" in {task["id"] for task in tasks()}
    wait_until(  # a task with a new list of groups starts while the others run
        lambda: {(task["state"], task["error"]) for task in tasks()} == {("RUNNING", None)}, SEEN, "all tasks run"
    )
