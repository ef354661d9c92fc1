"""docs/migrating.md carried out, beside the real Java MirrorMaker: records, checkpoints, groups (mm2-compat §4)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from mm2.core.formats import Checkpoint
from mm2.core.names import TopicPartition
from tests.conftest import SEED
from tests.lab.history import Record
from tests.lab.verify import compare
from tests.parity.guide import MIGRATING, promised_lines
from tests.parity.migration import GROUPS, PARTITIONS, REIGN_RECORDS, REIGNS, Landing, Migration, carried_out

pytestmark = pytest.mark.timeout(600)  # the first test carries the page out


# Records read again at most. Java goes by samples: those of a reign's bulk lie further apart than offset.lag.max, but
# each reign ends with one.
AGAIN = {"Java": REIGN_RECORDS, "mm2": 0, "Java again": REIGN_RECORDS}


@pytest.fixture(scope="module")
def migration() -> Iterator[Migration]:
    with carried_out(random.Random(f"{SEED}:migration")) as seen:
        yield seen


@pytest.mark.parametrize("topic", PARTITIONS)
def test_nothing_is_lost_or_repeated_from_java_to_us_and_back(migration: Migration, topic: str) -> None:
    verdict = compare(migration.source[topic], migration.remote[topic])
    assert verdict.exact, str(verdict)


def test_every_group_moved_in_every_reign(migration: Migration) -> None:
    assert [(landing.reign, landing.group) for landing in migration.landings] == [
        (reign, group) for reign in REIGNS for group in GROUPS
    ]


def test_our_checkpoints_lead_to_the_very_record(migration: Migration) -> None:
    for landing in landings(migration, "mm2"):
        for place, upstream in landing.upstream.items():
            wanted = at(migration.source[place[0]][place[1]], upstream)
            found = at(migration.remote[place[0]][place[1]], landing.checkpoint[place])
            assert found.content == wanted.content, f"{landing.group} at {place}: {found} instead of {wanted}"


@pytest.mark.parametrize("reign", REIGNS)
def test_no_checkpoint_skips_a_record_or_goes_back_further_than_promised(migration: Migration, reign: str) -> None:
    for landing in landings(migration, reign):
        for (topic, number), upstream in landing.upstream.items():
            source, remote = migration.source[topic][number], migration.remote[topic][number]
            unread = [one.content for one in source if one.offset >= upstream]
            sent = [one.content for one in remote if one.offset >= landing.checkpoint[topic, number]]
            assert sent[len(sent) - len(unread) :] == unread, f"{reign}: {landing.group} of {topic}-{number}"
            assert 0 <= len(sent) - len(unread) <= AGAIN[reign], f"{reign}: {landing.group} of {topic}-{number}"


def test_synced_group_offsets_are_those_of_the_checkpoints(migration: Migration) -> None:
    for landing in migration.landings:
        assert landing.committed == landing.checkpoint


def test_checkpoints_never_go_back_from_one_to_the_other(migration: Migration) -> None:
    last: defaultdict[tuple[str, TopicPartition], int] = defaultdict(int)
    for record in migration.checkpoints[0]:
        checkpoint = Checkpoint.decode(record.content[0], record.content[1])
        place = checkpoint.group, checkpoint.topic_partition
        assert checkpoint.downstream_offset >= last[place], f"{place} at offset {record.offset}"
        last[place] = checkpoint.downstream_offset


def test_the_commands_of_the_page_answer(migration: Migration) -> None:
    assert {command: outcome.code for command, outcome in migration.outcomes.items()} == dict.fromkeys(
        migration.outcomes, 0
    ), migration.outcomes
    assert all(group in migration.outcomes["mm2 offsets mm2.properties --flow 'A->B'"].stdout for group in GROUPS)


def test_the_log_says_what_the_page_shows(migration: Migration) -> None:
    waits, differs = promised_lines(MIGRATING)
    assert waits in migration.waiting_log
    assert differs not in migration.log, "it is the same file"


def test_our_node_drained(migration: Migration) -> None:
    assert migration.exit_code == 0


def landings(migration: Migration, reign: str) -> list[Landing]:
    return [landing for landing in migration.landings if landing.reign == reign]


def at(records: Sequence[Record], offset: int) -> Record:
    """The first record at or after ``offset``."""
    return next(one for one in records if one.offset >= offset)
