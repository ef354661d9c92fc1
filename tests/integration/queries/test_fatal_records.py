"""A record that ends the processes of its query, whatever else they do, stops its own partition only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN, QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing
from tests.lab.waiting import wait_until

GOOD = b"2"
COUNT = 120
FATAL = 57
WITHOUT = [one for one in range(COUNT) if one != FATAL]
DEATHS = 4  # two, of the frame, and of the record, as the frame passes in 128 parts
FOUND = 240.0  # seconds for so many starts of a lane, on busy cores
JVMS_START = 400.0  # and of twice as many JVMs


def records(partition: int, fatal: bytes | None = None) -> Iterator[Outgoing]:
    for number in range(COUNT):
        value = fatal if number == FATAL and fatal is not None else GOOD
        yield Outgoing(key=b"%d" % number, value=value, partition=partition)


def wait_stopped(flow: QueriedFlow, node: Node, topic: str, within: float) -> dict[str, Any]:
    """Wait until partition 0 is stopped at the record and partition 1 is copied; return what /flows shows of it."""

    def stopped() -> dict[str, Any] | None:
        shown = {one["partition"]: one for one in node.topic(flow.name, topic).get("partitions", [])}
        done = len(shown) == 2 and shown[0]["stopped_at"] == FATAL and shown[1]["position"] == COUNT
        return shown[0] if done else None

    found = wait_until(stopped, within, "partition 0 is stopped at the record, and partition 1 is copied")
    assert found is not None
    assert (found["state"], found["stopped_until"]) == ("FAILED", FATAL + 1)
    assert f"cannot copy {topic}-0 offset {FATAL} to " in found["error"]
    return found


def keys(flow: QueriedFlow, topic: str, partition: int) -> list[int]:
    """Return the keys of the copied records. With at-least-once, what a death repeats is left out."""
    return list(dict.fromkeys(int(record.key or b"-1") for record in flow.copied(topic)[partition]))


def wait_others_continue(flow: QueriedFlow, topic: str) -> None:
    flow.write(topic, [Outgoing(key=b"%d" % COUNT, value=GOOD, partition=1)])
    wait_until(lambda: keys(flow, topic, 1) == [*range(COUNT + 1)], SEEN, "partition 1 continues")


def jvms_ended(log: str) -> int:
    """Return how often an engine has ended. Lines about states repeat the reason."""
    return sum("exited with code 3: " in line and "; retrying in" in line for line in log.splitlines())


def test_a_record_that_ends_its_lane_again_and_again(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic, since = flow.create("deep", 2), len(node.process.output())
    flow.write(topic, [*records(0, b"ab" * 200_000), *records(1)])
    found = wait_stopped(flow, node, topic, FOUND)
    assert "query deep failed: " in found["error"]
    assert "StackOverflowError" in found["error"]
    output = node.process.output()[since:]
    assert 3 <= output.count("failed; restarting") <= DEATHS, output
    assert f"each time that {topic}-0 offset {FATAL} was in it" in output
    assert keys(flow, topic, 0) == [*range(FATAL)]
    wait_others_continue(flow, topic)
    place = ("--flow", flow.name, "--topic", topic, "--partition", "0", "--offset", str(FATAL))
    skipped = run("mm2", "skip", str(node.file), *place)
    assert skipped.code == 0, skipped
    wait_until(lambda: keys(flow, topic, 0) == WITHOUT, SEEN, "partition 0 continues")
    assert {record.value for record in flow.copied(topic)[0]} == {GOOD}
    assert node.process.output()[since:].count("failed; restarting") == output.count("failed; restarting")


@pytest.mark.long  # the test above; why a JVM has ended: tests/unit/flows/spark/test_deaths.py
@pytest.mark.timeout(1_500)  # seconds: about eight JVMs start, one after the other
def test_records_that_end_the_jvm(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """Two flows with a record each share the JVM. One of them has errors.tolerance = all."""
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    tolerant = replace(flow, a=unique_name("C"))
    flows = flow, tolerant
    properties = {
        **tolerant.properties("large"),
        **flow.properties("large"),
        "clusters": f"{flow.a}, {tolerant.a}, {flow.b}",
        f"{tolerant.name}.errors.tolerance": "all",
        f"{flow.b}.exactly.once.source.support": "enabled",
    }
    topics = [one.create("large", 2) for one in flows]
    plain = flow.create("plain")
    for one, topic in zip(flows, topics, strict=True):
        one.write(topic, [*records(0, b"1500000000"), *records(1)])
    with Node(properties, name="fatal") as node:
        found = wait_stopped(flow, node, topics[0], JVMS_START)
        assert "query large failed: Java ran out of memory (spark.driver.memory = 1g) each time" in found["error"]
        wait_until(lambda: len(tolerant.copied(topics[1])[0]) == COUNT - 1, JVMS_START, "the other record is left out")
        assert keys(flow, topics[0], 0) == [*range(FATAL)]
        assert keys(tolerant, topics[1], 0) == WITHOUT
        output = node.process.output()
        deaths = jvms_ended(output)
        print(output)
        assert deaths <= 2 * DEATHS, output
        flow.write(plain, [Outgoing(value=b"plain", partition=0)])
        wait_until(lambda: len(flow.copied(plain)[0]) == 1, SEEN, "topics without a query are copied")
        for one, topic in zip(flows, topics, strict=True):
            wait_others_continue(one, topic)
            assert len(one.copied(topic)[1]) == COUNT + 1, "exactly once"
        (letter,) = read_topic(cluster_b.bootstrap, f"mm2-dead-letters.{tolerant.a}.internal")[0]
        headers = dict(letter.headers)
        assert headers["__connect.errors.offset"] == b"%d" % FATAL
        assert b"Java ran out of memory" in (headers["__connect.errors.exception.message"] or b"")
        status = run("mm2", "status", str(node.file))
        print(status.stdout)
        assert "Java ran out of memory" in status.stdout
        assert jvms_ended(node.process.output()) == deaths
