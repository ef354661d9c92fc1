"""Offset syncs of the same source by mm2 (into B) and by Java's MirrorMaker (into C), checked against Java's rule.

The two sets differ, because it depends on timing which records are acknowledged before a commit and whether ten syncs
are in flight. Independent of timing, each set has these properties:

A. A sync is correct: the records at its upstream and downstream offsets are equal.
B. Upstream and downstream offsets of a partition's syncs increase. mm2 writes them in that order; Java does so mostly,
   because two of its threads send them and one can overtake the other. (The first sync of a partition is usually that
   of its first record, but can be a later one while ten syncs of other partitions are in flight.)
C. A synced record is due by the rule, or was the partition's last one at a commit. The number of the latter is at most
   the number of commits.
D. After a partition has been quiet for longer than offset.flush.interval.ms, its last record has a sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import OffsetSync
from tests.lab.history import Partitions, Record, read_topic
from tests.parity.internal_records import syncs
from tests.parity.scenario import FLUSH_MS, LAG_MAX, LEDGER, STILL, SYNCS_OF_C, Scenario

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario

WRITERS = ("us", "Java")


def _emitted(scenario: Scenario, writer: str) -> Partitions:
    return scenario.by_us.syncs if writer == "us" else read_topic(scenario.a.bootstrap, SYNCS_OF_C)


def _by_partition(scenario: Scenario, writer: str) -> dict[TopicPartition, list[tuple[OffsetSync, int]]]:
    found: dict[TopicPartition, list[tuple[OffsetSync, int]]] = {}
    for sync, timestamp_ms in syncs(_emitted(scenario, writer)):
        found.setdefault(sync.topic_partition, []).append((sync, timestamp_ms))
    return found


def _copied(scenario: Scenario, writer: str, partition: TopicPartition) -> list[tuple[Record, Record]]:
    """Return the source's records with their copies, in order."""
    copies = (scenario.into_b if writer == "us" else scenario.into_c)[partition.topic][partition.partition]
    return list(zip(scenario.source[partition.topic][partition.partition], copies, strict=False))


def _due(copied: Sequence[tuple[Record, Record]]) -> set[int]:
    """Return the upstream offsets that are due by Java's rule, checked record by record."""
    due: set[int] = set()
    before_up, before_down, last_due = -1, -1, None
    for source, copy in copied:
        up, down = source.offset, copy.offset
        far = last_due is not None and down - (last_due + 1) >= LAG_MAX
        if last_due is None or far or up - before_up != 1 or down < before_down:
            due.add(up)
            last_due = down
        before_up, before_down = up, down
    return due


@pytest.mark.parametrize("writer", WRITERS)
def test_every_sync_is_correct(scenario: Scenario, writer: str) -> None:
    for partition, emitted in _by_partition(scenario, writer).items():
        copied = {source.offset: copy for source, copy in _copied(scenario, writer, partition)}
        contents = {source.offset: source.content for source, _ in _copied(scenario, writer, partition)}
        for sync, _ in emitted:
            assert copied[sync.upstream_offset].offset == sync.downstream_offset, sync
            assert copied[sync.upstream_offset].content == contents[sync.upstream_offset], sync


@pytest.mark.parametrize("writer", WRITERS)
def test_every_partition_has_increasing_syncs(scenario: Scenario, writer: str) -> None:
    emitted = _by_partition(scenario, writer)
    assert len(emitted) == sum(bool(records) for parts in scenario.source.values() for records in parts.values())
    for partition, found in emitted.items():
        written = [sync for sync, _ in found]
        for earlier, later in pairwise(written if writer == "us" else sorted(written, key=_upstream)):
            assert later.upstream_offset > earlier.upstream_offset, partition
            assert later.downstream_offset > earlier.downstream_offset, partition


def _upstream(sync: OffsetSync) -> int:
    return sync.upstream_offset


@pytest.mark.parametrize("writer", WRITERS)
def test_syncs_are_due_by_rule_or_by_commit(scenario: Scenario, writer: str) -> None:
    for partition, found in _by_partition(scenario, writer).items():
        due = _due(_copied(scenario, writer, partition))
        others = [sync for sync, _ in found if sync.upstream_offset not in due]
        # One more may be in progress at the start, and the drain commits too.
        commits = (found[-1][1] - found[0][1]) // FLUSH_MS + 2
        assert len(others) <= commits, (partition, others)


@pytest.mark.parametrize("writer", WRITERS)
def test_last_record_of_quiet_partitions_is_synced(scenario: Scenario, writer: str) -> None:
    emitted = _by_partition(scenario, writer)
    for topic in (STILL, LEDGER):
        partition = TopicPartition(topic, 0)
        assert max(_upstream(sync) for sync, _ in emitted[partition]) == scenario.source[topic][0][-1].offset


def test_source_covers_the_cases_of_the_rule(scenario: Scenario) -> None:
    """The source has offset gaps at transaction markers, and runs of records longer than offset.lag.max."""
    ledger = [record.offset for record in scenario.source[LEDGER][0]]
    assert any(later - earlier > 1 for earlier, later in pairwise(ledger))
    assert len(_due(_copied(scenario, "us", TopicPartition(STILL, 0)))) > 3
