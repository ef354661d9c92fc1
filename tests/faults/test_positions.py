"""Random positions in both directions, after everything that a partition can go through.

The node is killed three times while it copies, the target's broker hangs so that batches are sent again, and the
source's log is truncated. Then `mm2 translate` answers, and an independent client reads both topics.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import pytest

from mm2.cli.commands import execute, mm2_app
from mm2.core.naming.names import TopicPartition
from mm2.core.positions.answer import PositionAnswer, Precision
from tests.integration.flows.test_compacted import COMPACTED, keyed
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.freezing import frozen
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.judged_positions import Counts, TwoTopics, summary
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.records import plain, write, write_transactions
from tests.lab.settings import one_flow
from tests.lab.truncated_log import truncate_log
from tests.lab.waiting import wait_until

POSITIONS = 1_000  # in each direction
KILLS = 3
COPIED = 420.0  # seconds until all is copied after a kill: two Sparks start again on busy cores
BATCH = 100  # records; a log is cut between batches
HANGS_S = 5.0  # longer than A->B's producer waits for a response

LEDGER, STATES, HALF, ORDERS, BUSY = TOPICS = ("ledger", "states", "half", "orders", "busy")
"""Transactions of which a third is aborted; a compacted topic; one with a query that drops records; one whose log is
truncated; one that is written to all the time."""


def properties(source: KafkaCluster, target: KafkaCluster) -> dict[str, str]:
    return one_flow(source, target, topics="|".join(TOPICS)) | {
        "A.consumer.isolation.level": "read_committed",
        "B.producer.request.timeout.ms": "2000",
        "B.offset.flush.interval.ms": "1000",
        "mm2.sql.half.topics": HALF,
        "mm2.sql.half.query": "SELECT * FROM records WHERE offset % 7 IN (0, 1, 4)",
        "mm2.lanes": "1",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
    }


class Traffic:
    """Writes to the topics of the flow."""

    def __init__(self, source: KafkaCluster, rng: random.Random, unique: Callable[[str], str]) -> None:
        self._source = source
        self._rng = rng
        self._unique = unique
        self._number = 0

    def write(self, records: int) -> None:
        """Write to all topics but `BUSY`."""
        first, self._number = self._number, self._number + records
        bootstrap = self._source.bootstrap
        numbers = range(first, first + records, 20)
        transactions = [(list(plain(20, first=number)), number % 3 != 1) for number in numbers]
        write_transactions(bootstrap, LEDGER, transactions, transactional_id=self._unique("tx"))
        write(bootstrap, STATES, keyed(self._rng, records, keys=records // 2, first=first))
        write(bootstrap, HALF, plain(records, first=first))
        write(bootstrap, ORDERS, plain(records, first=first), records_per_batch=BATCH)


def wait_caught_up(node: Node, target: KafkaCluster) -> None:
    """Wait until nothing is left to copy."""

    def lags() -> dict[str, list[int | None]]:
        return {
            topic: [one["lag_records"] for one in node.topic("A->B", topic).get("partitions", [])] for topic in TOPICS
        }

    wait_until(lags, COPIED, "nothing is left to copy", accept=lambda found: set(map(tuple, found.values())) == {(0,)})
    assert end_offset_sum(target.bootstrap, "A." + BUSY) > 0


def kill(node: Node) -> None:
    node.kill()
    wait_until(lambda: not node.family(), COPIED, "no lane is left")


def truncate(source: KafkaCluster, topic: str, end: int) -> None:
    truncate_log(source.broker(1), topic, end)
    source.broker(1).start()
    source.broker(1).wait_ready()


@pytest.mark.long  # tests/integration/flows/test_exact_offsets.py: all positions of its topics, with lanes alone
@pytest.mark.timeout(1_800)  # seconds: the node starts four times, with two Sparks each
def test_random_positions_in_both_directions(
    start_cluster: StartCluster,
    rng: random.Random,
    unique: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = start_cluster("positions-a", properties={"log.cleaner.backoff.ms": "100"})
    target = start_cluster("positions-b")
    for topic in TOPICS:
        source.create_topic(topic, config=COMPACTED if topic == STATES else {})
    traffic = Traffic(source, rng, unique)
    traffic.write(1_000)
    with Node(properties(source, target), name="positions") as node:
        node.wait_running(COPIED)
        for number in range(KILLS):
            with Load(source, BUSY, partitions=1, per_second=500) as load:
                traffic.write(1_000)
                load.wait_for_more(rng.randrange(300, 2_500))
                if number == 1:
                    with frozen(target.broker(1).process):
                        load.wait_for_more(int(500 * HANGS_S))
                    load.wait_for_more(rng.randrange(300, 1_000))
                kill(node)
                load.wait_for_more(500)
            node.start().wait_running(COPIED)
            wait_caught_up(node, target)
        truncate(source, ORDERS, 3_200)
        traffic.write(1_000)
        wait_caught_up(node, target)
        assert node.stop() == 0
    topics = [
        TwoTopics(
            TopicPartition(topic, 0),
            read_topic(source.bootstrap, topic)[0],
            read_topic(target.bootstrap, f"A.{topic}")[0],
            compacted=topic == STATES,
        )
        for topic in TOPICS
    ]
    each = POSITIONS // len(TOPICS)
    upstream = {one.topic: rng.sample(range(one.source_end + 20), each) for one in topics}
    downstream = {f"A.{one.topic}": rng.sample(range(one.remote_end + 5), each) for one in topics}
    to_target, to_source = translated(node, upstream, capsys), translated(node, downstream, capsys, "--reverse")
    shown: list[str] = []
    found: dict[str, Counts] = {"to the target": Counter(), "to the source": Counter()}
    for one in topics:
        remote = f"A.{one.topic}"
        for direction, counts in (
            ("to the target", one.judge_to_target(upstream[one.topic], to_target[one.topic].__getitem__)),
            ("to the source", one.judge_to_source(downstream[remote], to_source[remote].__getitem__)),
        ):
            shown.append(summary(f"{one.topic} {direction}", counts))
            found[direction] += counts
    for direction, counts in found.items():
        shown.append(summary(f"{counts.total()} positions {direction}, 0 skipped", counts))
    with capsys.disabled():
        print("", *shown, sep="\n")
    for counts in found.values():
        assert counts.total() == POSITIONS
        assert counts[Precision.EXACT] + counts[Precision.NEXT] > 0.9 * POSITIONS


def translated(
    node: Node, positions: Mapping[str, Sequence[int]], capsys: pytest.CaptureFixture[str], *words: str
) -> dict[str, dict[int, PositionAnswer]]:
    """Return the answers of `mm2 translate` to offsets of partition 0 of some topics."""
    lines = [f"{topic}:0:{offset}" for topic, offsets in positions.items() for offset in offsets]
    file = node.directory / "positions.txt"
    file.write_text("\n".join(lines))
    capsys.readouterr()
    code = execute(mm2_app(), ["translate", str(node.file), "--positions", str(file), "--json", *words])
    printed = capsys.readouterr()
    assert code == 3, printed.err  # not all are exact
    asked, answer = ("remote_topic", "remote_offset"), ("topic", "offset")
    if words:
        answer = ("source_topic", "source_offset")
    else:
        asked, answer = answer, asked
    found: defaultdict[str, dict[int, PositionAnswer]] = defaultdict(dict)
    for row in json.loads(printed.out):
        found[row[asked[0]]][row[asked[1]]] = PositionAnswer(
            offset=row[answer[1]],
            precision=Precision(row["precision"]),
            reason=row["reason"],
            read_again=row["read_again"],
            missing=row["missing"],
        )
    assert sum(map(len, found.values())) == len(lines)
    return found
