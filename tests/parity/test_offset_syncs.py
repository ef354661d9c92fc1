"""Offset syncs of the same source by us (into B) and by Java's MirrorMaker (into C), against Java's rule (§3.9).

The two sets differ, because which records are acknowledged before a commit, and whether ten syncs are in flight, is a
matter of time. What holds for each of them whatever the timing:

A. A sync is true: the record at its upstream offset is the record at its downstream offset.
B. The syncs of a partition rise, upstream and downstream alike, and ours are written in that order; Java's mostly: two
   of its threads send them, and on busy cores one overtakes the other. (The first of a partition is mostly that of its
   first record, but while ten syncs of other partitions are in flight a later one may take its place.)
C. A sync is of a record that is due by the rule, or was a partition's last one at a commit: of the second kind a
   partition has no more than there were commits.
D. When a partition has been quiet for longer than offset.flush.interval.ms, its last record has a sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from mm2.core.formats import OffsetSync
from mm2.core.names import TopicPartition
from tests.lab.history import Partitions, Record, read_topic
from tests.parity.internal_records import syncs
from tests.parity.story import FLUSH_MS, LAG_MAX, LEDGER, STILL, SYNCS_OF_C, Story

pytestmark = pytest.mark.timeout(600)  # the first test plays the story

WRITERS = ("us", "Java")


def _emitted(story: Story, writer: str) -> Partitions:
    return story.by_us.syncs if writer == "us" else read_topic(story.a.bootstrap, SYNCS_OF_C)


def _by_partition(story: Story, writer: str) -> dict[TopicPartition, list[tuple[OffsetSync, int]]]:
    found: dict[TopicPartition, list[tuple[OffsetSync, int]]] = {}
    for sync, timestamp_ms in syncs(_emitted(story, writer)):
        found.setdefault(sync.topic_partition, []).append((sync, timestamp_ms))
    return found


def _copied(story: Story, writer: str, partition: TopicPartition) -> list[tuple[Record, Record]]:
    """The source's records with their copies, in order."""
    copies = (story.into_b if writer == "us" else story.into_c)[partition.topic][partition.partition]
    return list(zip(story.source[partition.topic][partition.partition], copies, strict=False))


def _due(copied: Sequence[tuple[Record, Record]]) -> set[int]:
    """Upstream offsets that Java's rule finds due, judged record by record as the rule is written."""
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
def test_every_sync_is_true(story: Story, writer: str) -> None:
    for partition, emitted in _by_partition(story, writer).items():
        copied = {source.offset: copy for source, copy in _copied(story, writer, partition)}
        contents = {source.offset: source.content for source, _ in _copied(story, writer, partition)}
        for sync, _ in emitted:
            assert copied[sync.upstream_offset].offset == sync.downstream_offset, sync
            assert copied[sync.upstream_offset].content == contents[sync.upstream_offset], sync


@pytest.mark.parametrize("writer", WRITERS)
def test_every_partition_has_syncs_and_they_rise(story: Story, writer: str) -> None:
    emitted = _by_partition(story, writer)
    assert len(emitted) == sum(bool(records) for parts in story.source.values() for records in parts.values())
    for partition, found in emitted.items():
        written = [sync for sync, _ in found]
        for earlier, later in pairwise(written if writer == "us" else sorted(written, key=_upstream)):
            assert later.upstream_offset > earlier.upstream_offset, partition
            assert later.downstream_offset > earlier.downstream_offset, partition


def _upstream(sync: OffsetSync) -> int:
    return sync.upstream_offset


@pytest.mark.parametrize("writer", WRITERS)
def test_syncs_are_due_by_the_rule_or_by_a_commit(story: Story, writer: str) -> None:
    for partition, found in _by_partition(story, writer).items():
        due = _due(_copied(story, writer, partition))
        others = [sync for sync, _ in found if sync.upstream_offset not in due]
        commits = (found[-1][1] - found[0][1]) // FLUSH_MS + 2  # the first may be under way, the last at the drain
        assert len(others) <= commits, (partition, others)


@pytest.mark.parametrize("writer", WRITERS)
def test_quiet_partitions_are_exact_to_their_last_record(story: Story, writer: str) -> None:
    emitted = _by_partition(story, writer)
    for topic in (STILL, LEDGER):
        partition = TopicPartition(topic, 0)
        assert max(_upstream(sync) for sync, _ in emitted[partition]) == story.source[topic][0][-1].offset


def test_the_history_has_what_the_rule_is_about(story: Story) -> None:
    """Gaps upstream, where transactions ended, and stretches longer than offset.lag.max."""
    ledger = [record.offset for record in story.source[LEDGER][0]]
    assert any(later - earlier > 1 for earlier, later in pairwise(ledger))
    assert len(_due(_copied(story, "us", TopicPartition(STILL, 0)))) > 3
