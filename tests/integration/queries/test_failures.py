"""Records for which a query fails, and queries that Spark refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN, QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing
from tests.lab.waiting import wait_until

BAD = 10
COUNT = 21
HIDDEN = b"4111-0000-1111-1111"
GOES_ON = 25.0  # seconds: less than the 30 after which the stopped partition is tried again


def some(partition: int, *, bad: bytes | None = None) -> list[Outgoing]:
    """Return records with numbers; ``bad``: the value of the one that has none."""
    values = [bad if bad is not None and number == BAD else b"%d" % number for number in range(COUNT)]
    return [Outgoing(key=b"%d" % number, value=value, partition=partition) for number, value in enumerate(values)]


def test_a_record_for_which_the_query_fails_stops_its_partition(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("numbers", 2)
    flow.write(topic, [*some(0, bad=b"x"), *some(1)])

    def stopped() -> dict[str, Any] | None:
        """With Spark's message, for which a lane waits 5 s; each attempt asks again, every 30 s."""
        shown = {one["partition"]: one for one in node.topic(flow.name, topic).get("partitions", [])}
        done = len(shown) == 2 and shown[0]["state"] == "FAILED" and shown[1]["position"] == COUNT
        return shown[0] if done and "CAST_INVALID_INPUT" in (shown[0]["error"] or "") else None

    first = wait_until(stopped, SEEN, "the partition is FAILED, the other one copied")
    assert first is not None
    assert (first["stopped_at"], first["stopped_until"]) == (BAD, BAD + 1)
    assert "query numbers failed" in first["error"]
    assert "'x'" in first["error"]
    flow.write(topic, [*some(1)])
    wait_until(lambda: len(flow.copied(topic)[1]) == 2 * COUNT, GOES_ON, "the other partition goes on")
    assert [record.value for record in flow.copied(topic)[0]] == [b"%d" % (2 * number) for number in range(BAD)]


def test_dead_letters_and_skips(queried: Queried) -> None:
    flow, node = queried.tolerant, queried.node
    topic, since = flow.create("numbers", 2), len(node.process.output())
    flow.write(topic, [*some(0, bad=HIDDEN), *some(1), *some(0, bad=HIDDEN)])
    good = [b"%d" % (2 * number) for number in range(COUNT) if number != BAD]
    flow.wait_passed(node, topic)
    assert [record.value for record in flow.copied(topic)[0]] == good * 2
    letters = read_topic(flow.target.bootstrap, f"mm2-dead-letters.{flow.a}.internal")[0]
    letters = [one for one in letters if dict(one.headers)["__connect.errors.topic"] == topic.encode()]
    assert [(record.key, record.value) for record in letters] == [(None, None)] * 2, "the query sets the value"
    headers = dict(letters[1].headers)
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.offset"] == b"%d" % (COUNT + BAD)
    message = headers["__connect.errors.exception.message"] or b""
    assert b"[CAST_INVALID_INPUT]" in message
    assert HIDDEN not in message
    assert HIDDEN.decode() not in str(node.flow(flow.name))
    log = node.process.output()[since:]
    assert re.search(rf"{topic}-0.* offset {COUNT + BAD}\b.*CAST_INVALID_INPUT", log), "the record is reported"
    assert HIDDEN.decode() not in log, "neither by a lane nor by Spark"


@pytest.mark.long  # tests/integration/node/test_source_tasks_of_queries.py
def test_a_query_that_spark_refuses_fails_its_flow_only(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It is one line everywhere, though several tasks and partitions of two topics have failed."""
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    topic = flow.create("wrong", 3)
    flow.create("wrong", 2)
    back = flow.target.create_topic(f"{flow.b}-fine")
    properties = flow.properties(
        "same",
        **{
            f"{flow.name}.mm2.sql.wrong.topics": f"{flow.a}-wrong.*",
            f"{flow.name}.mm2.sql.wrong.query": "SELECT no_such_function(value) AS value FROM records",
            f"{flow.b}->{flow.a}.enabled": "true",
            f"{flow.b}->{flow.a}.topics": f"{flow.b}-.*",
        },
    )
    flow.write(topic, some(0))
    with Node(properties, name="refused") as node:
        assert run("mm2", "check", str(node.file)).code == 0

        def failed() -> bool:
            return node.flow(flow.name).get("state") == "FAILED"

        wait_until(failed, SEEN, "the flow is FAILED")
        assert "no_such_function" in str(node.flow(flow.name)), node.flow(flow.name)
        wait_until(lambda: node.flow(f"{flow.b}->{flow.a}").get("state") == "RUNNING", SEEN, "the other flow runs")
        assert node.topic(f"{flow.b}->{flow.a}", back)["state"] == "RUNNING"
        assert flow.copied(topic)[0] == []

        def everywhere() -> bool:
            partitions = [one for shown in node.flow(flow.name)["topics"] for one in shown["partitions"]]
            return len(partitions) == 5 and all(one["state"] == "FAILED" for one in partitions)

        wait_until(everywhere, SEEN, "all partitions of both topics are FAILED")
        wait_until(lambda: not node.healthy, SEEN, "the problem has lasted for long enough")
        shown = {
            "/health": node.health()["reasons"],
            "mm2 status": run("mm2", "status", str(node.file)).stdout.splitlines(),
            "log": [line for line in node.process.output().splitlines() if f"mm2.node: {flow.name}: " in line],
        }
        for place, lines in shown.items():
            assert sum("no_such_function" in line for line in lines) == 1, (place, lines)
