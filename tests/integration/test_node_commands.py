"""``mm2 topics``, ``lag``, ``heartbeats`` and ``offsets`` with a running node."""

from __future__ import annotations

import json
from typing import Any

import httpx

from mm2.core.naming.names import TopicPartition
from tests.integration.failover_stage import commit
from tests.integration.shared_node import SEEN, SharedNode
from tests.lab.commands import Outcome, run
from tests.lab.history import read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

RECORDS = 1_000
POSITION = 640


def shown(shared: SharedNode, *words: str) -> tuple[Outcome, Any]:
    """Run a command and return its outcome and the parsed JSON output."""
    command, *options = words
    outcome = run("mm2", command, str(shared.node.file), *options, "--json")
    return outcome, json.loads(outcome.stdout) if outcome.stdout else None


def test_topics_with_reasons_for_excluded_ones(shared: SharedNode) -> None:
    flow = shared.plain
    topic, hidden = flow.create("listed", partitions=2), flow.create("hidden-listed")
    flow.wait_state(topic, "RUNNING")
    outcome, answer = shown(shared, "topics", "--flow", flow.name, "--all")
    assert (outcome.code, outcome.stderr) == (0, "")
    (one,) = answer["flows"]
    topics = {row["topic"]: row for row in one["topics"]}
    assert topics[topic] == {
        "topic": topic,
        "remote_topic": flow.remote(topic),
        "partitions": 2,
        "remote_partitions": 2,
        "state": "RUNNING",
        "reason": None,
    }
    assert topics[hidden]["remote_topic"] is None
    assert topics[hidden]["reason"] == "excluded by topics.exclude: .*-hidden-.*"
    offsets = "mm2-offsets." + flow.target_alias + ".internal"  # of the opposite direction, whose target is this source
    assert topics[offsets]["reason"] == "it is internal to Kafka or MirrorMaker"
    plain_answer = shown(shared, "topics", "--flow", flow.name)[1]
    assert {row["topic"] for row in plain_answer["flows"][0]["topics"]} <= {
        name for name, row in topics.items() if row["remote_topic"] is not None
    }


def test_lag_of_a_flow_that_has_caught_up(shared: SharedNode) -> None:
    flow = shared.plain
    topic = flow.create("measured")
    write(flow.source.bootstrap, topic, plain(RECORDS))
    flow.wait_copied(topic)

    def caught_up() -> dict[str, Any] | None:
        _, answer = shown(shared, "lag")
        (one,) = (one for one in answer["flows"] if one["flow"] == flow.name)
        (partition,) = (row for row in one["partitions"] if row["topic"] == topic)
        known = partition["lag_records"] == 0 and one["outlook"] in ("caught up", "keeping up")
        return {**one, "one": partition} if known else None

    whole = wait_until(caught_up, SEEN, f"mm2 lag reports that {flow.name} has caught up")
    assert whole is not None
    assert (whole["one"]["position"], whole["one"]["end_offset"]) == (RECORDS, RECORDS)
    assert whole["partition_count"] == len(whole["partitions"])


def test_heartbeats_of_a_running_flow_are_on_time(shared: SharedNode) -> None:
    flow, back = shared.plain, shared.back

    def on_time() -> bool:
        outcome, answer = shown(shared, "heartbeats", "--cluster", flow.target_alias)
        assert outcome.code == 0
        (cluster,) = answer["clusters"]
        states = {(one["topic"], one["source"], one["target"]): one["state"] for one in cluster["heartbeats"]}
        local = states.get(("heartbeats", flow.source_alias, flow.target_alias))
        carried = states.get((flow.remote("heartbeats"), back.source_alias, back.target_alias))
        return (local, carried) == ("on time", "on time")

    wait_until(on_time, SEEN, "mm2 heartbeats shows own and replicated heartbeats of the flow on time")


def test_translated_offset_points_to_the_next_record(shared: SharedNode) -> None:
    """A consumer that starts at the translated offset reads the group's next record."""
    flow = shared.plain
    topic, group = flow.create("consumed"), flow.named("größe, ")
    write(flow.source.bootstrap, topic, plain(RECORDS))
    flow.wait_copied(topic)
    commit(flow.source, group, {TopicPartition(topic, 0): POSITION})

    def translated() -> dict[str, Any] | None:
        outcome, answer = shown(shared, "offsets", "--flow", flow.name, "--group", group)
        assert outcome.code == 0, outcome.stderr
        (one,) = answer["groups"][0]["partitions"]
        return one if one["translated_offset"] is not None else None

    one = wait_until(translated, SEEN, f"mm2 offsets translates {POSITION} of {topic}")
    assert one is not None
    next_record = read_topic(flow.source.bootstrap, topic)[0][POSITION].content
    remote = read_topic(flow.target.bootstrap, flow.remote(topic))[0]
    still_to_read = [record.content for record in remote if record.offset >= one["translated_offset"]]
    if one["answer"] == "exact":
        assert still_to_read[0] == next_record
    else:
        assert next_record in still_to_read
        assert still_to_read.index(next_record) <= one["read_again"]


def test_a_node_translates_positions_in_both_directions(shared: SharedNode) -> None:
    """What is read at the answer is the record of the position; records of this topic are all different."""
    flow = shared.plain
    topic = flow.create("positions")
    write(flow.source.bootstrap, topic, plain(RECORDS))
    flow.wait_copied(topic)
    path = f"{shared.node.url}/flows/{flow.source_alias}/{flow.target_alias}/translate"

    def asked(topic: str, offset: int, *, reverse: bool) -> httpx.Response:
        body = {"positions": [{"topic": topic, "partition": 0, "offset": offset}], "reverse": reverse}
        return httpx.post(path, json=body, timeout=SEEN)

    def exact() -> dict[str, Any] | None:
        answer = asked(topic, POSITION, reverse=False)
        assert answer.status_code == 200, answer.text
        (one,) = answer.json()["positions"]
        return one if one["precision"] == "exact" else None  # the map is written at the next flush

    there = wait_until(exact, SEEN, f"the node translates {POSITION} of {topic}")
    assert there is not None
    record = read_topic(flow.source.bootstrap, topic)[0][POSITION].content
    remote = read_topic(flow.target.bootstrap, flow.remote(topic))[0]
    assert [one.content for one in remote if one.offset == there["remote_offset"]] == [record]
    (back,) = asked(flow.remote(topic), there["remote_offset"], reverse=True).json()["positions"]
    assert (back["source_topic"], back["source_offset"], back["precision"]) == (topic, POSITION, "exact")
    answer = asked(flow.named("nothing"), 0, reverse=False)
    assert (answer.status_code, "nothing of it has been copied" in answer.text) == (404, True)
