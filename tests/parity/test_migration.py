"""docs/how-to/migrating.md with the real Java MirrorMaker: records, checkpoints and consumer groups."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint
from tests.conftest import SEED
from tests.lab.guide import MIGRATING, promised_lines
from tests.lab.history import Record
from tests.lab.verify import compare
from tests.parity.migration import GROUPS, PARTITIONS, PHASE_RECORDS, PHASES, GroupOffsets, Migration, migrate

# test_handover.py has the handover, and the checkpoints of a group are in test_checkpoints.py and
# tests/integration/test_topologies.py (test_migration).
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # the first test runs the migration

# Maximum number of records read again. Java translates by offset syncs: within a phase they are further apart than
# offset.lag.max, but each phase ends with one.
MAX_READ_AGAIN = {"Java": PHASE_RECORDS, "mm2": 0, "Java again": PHASE_RECORDS}


@pytest.fixture(scope="module")
def migration() -> Iterator[Migration]:
    with migrate(random.Random(f"{SEED}:migration")) as seen:
        yield seen


@pytest.mark.parametrize("topic", PARTITIONS)
def test_migration_to_mm2_and_back_loses_and_repeats_nothing(migration: Migration, topic: str) -> None:
    verdict = compare(migration.source[topic], migration.remote[topic])
    assert verdict.exact, str(verdict)


def test_offsets_of_every_group_in_every_phase(migration: Migration) -> None:
    assert [(offsets.phase, offsets.group) for offsets in migration.group_offsets] == [
        (phase, group) for phase in PHASES for group in GROUPS
    ]


def test_mm2_checkpoints_point_to_the_exact_record(migration: Migration) -> None:
    for offsets in group_offsets(migration, "mm2"):
        for place, upstream in offsets.upstream.items():
            wanted = at(migration.source[place[0]][place[1]], upstream)
            found = at(migration.remote[place[0]][place[1]], offsets.checkpoint[place])
            assert found.content == wanted.content, f"{offsets.group} at {place}: {found} instead of {wanted}"


@pytest.mark.parametrize("phase", PHASES)
def test_checkpoints_skip_no_record_and_repeat_within_limits(migration: Migration, phase: str) -> None:
    for offsets in group_offsets(migration, phase):
        for (topic, number), upstream in offsets.upstream.items():
            source, remote = migration.source[topic][number], migration.remote[topic][number]
            unread = [one.content for one in source if one.offset >= upstream]
            sent = [one.content for one in remote if one.offset >= offsets.checkpoint[topic, number]]
            assert sent[len(sent) - len(unread) :] == unread, f"{phase}: {offsets.group} of {topic}-{number}"
            assert 0 <= len(sent) - len(unread) <= MAX_READ_AGAIN[phase], (
                f"{phase}: {offsets.group} of {topic}-{number}"
            )


def test_synced_group_offsets_equal_checkpoints(migration: Migration) -> None:
    for offsets in migration.group_offsets:
        assert offsets.committed == offsets.checkpoint


def test_checkpoints_are_monotonic_across_migration(migration: Migration) -> None:
    last: defaultdict[tuple[str, TopicPartition], int] = defaultdict(int)
    for record in migration.checkpoints[0]:
        checkpoint = Checkpoint.decode(record.content[0], record.content[1])
        place = checkpoint.group, checkpoint.topic_partition
        assert checkpoint.downstream_offset >= last[place], f"{place} at offset {record.offset}"
        last[place] = checkpoint.downstream_offset


def test_commands_of_the_page_succeed(migration: Migration) -> None:
    assert {command: outcome.code for command, outcome in migration.outcomes.items()} == dict.fromkeys(
        migration.outcomes, 0
    ), migration.outcomes
    assert all(group in migration.outcomes["mm2 offsets mm2.properties --flow 'A->B'"].stdout for group in GROUPS)


def test_log_matches_the_page(migration: Migration) -> None:
    waits, differs = promised_lines(MIGRATING)
    assert waits in migration.waiting_log
    assert differs not in migration.log, "it is the same file"


def test_node_drained(migration: Migration) -> None:
    assert migration.exit_code == 0


def group_offsets(migration: Migration, phase: str) -> list[GroupOffsets]:
    return [offsets for offsets in migration.group_offsets if offsets.phase == phase]


def at(records: Sequence[Record], offset: int) -> Record:
    """The first record at or after ``offset``."""
    return next(one for one in records if one.offset >= offset)
