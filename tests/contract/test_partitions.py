"""``GET /flows/{source}/{target}/partitions/{topic}/{partition}`` and ``mm2 status --topic T --partition P``."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx

from mm2.core.lanes.partition_steps import PartitionEvent, PartitionStory, RecentWaits, StepReport, Wait
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from tests.contract.nodes import RestNode, rest_nodes
from tests.contract.samples import COPIED_AGAIN, flow, member, node, partition, topic
from tests.contract.test_status_command import mm2

AT = 1_763_740_800.0
PAUSED = StepReport("PAUSED", AT + 2, "broker 1 is not the leader")
IDLE = StepReport("IDLE", AT, None)
SHOWN_AT = "2025-11-21T16:00:0"


def event(at: float, text: str) -> PartitionEvent:
    return PartitionEvent("orders", 1, at, text)


def moved(first: RestNode, second: RestNode) -> None:
    """Partition 1 was copied by the first node, which is asked, and is copied by the second one now."""
    status = partition(1, node=second.name, source_task=1)
    members = (member(first.name, first.server.url, leads=True), member(second.name, second.server.url))
    for one in (first, second):
        one.published = node(
            flow(topic("orders", partition(0, node=first.name), status), is_leader=one is first, members=members),
            node_id=one.name,
        )
        one.stand(leads=one is first, leader=first)
    first.stories[TopicPartition("orders", 1)] = PartitionStory(events=(event(AT, "fetching: DRAINING"),))
    second.stories[TopicPartition("orders", 1)] = PartitionStory(
        fetching=PAUSED,
        sending=IDLE,
        last_minute=RecentWaits(waits=(Wait(on="source-errors", seconds=4.0),), behind=4.0),
        events=(event(AT + 2, "fetching: PAUSED: broker 1 is not the leader"),),
    )


async def get(asked: RestNode, place: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(f"{asked.server.url}/flows/{place}")


async def test_steps_are_those_of_the_node_that_copies_it_and_events_of_all() -> None:
    async with rest_nodes(["one", "two"]) as (first, second):
        moved(first, second)
        details = (await get(first, "A/B/partitions/orders/1")).json()
        assert (details["flow"], details["topic"], details["remote_topic"]) == ("A->B", "orders", "A.orders")
        assert (details["status"]["state"], details["status"]["node"]) == ("RUNNING", "two")
        assert (details["step"], details["since"], details["reason"]) == (
            "PAUSED",
            round(AT * 1_000) + 2_000,
            "broker 1 is not the leader",
        )
        assert details["last_minute"] == {"waits": [{"on": "source-errors", "seconds": 4.0}], "behind": 4.0}
        assert details["sending"] == {"step": "IDLE", "since": round(AT * 1_000), "reason": None}
        assert [(one["node"], one["text"]) for one in details["events"]] == [
            ("one", "fetching: DRAINING"),
            ("two", "fetching: PAUSED: broker 1 is not the leader"),
        ]
        assert details["unknown"] == []


async def test_a_node_that_does_not_answer_is_unknown() -> None:
    async with rest_nodes(["one", "two"]) as (first, second):
        moved(first, second)
        second.stories.clear()
        gone = replace(first.published.flows[0].members[1], url="http://127.0.0.1:9")
        own = first.published.flows[0]
        first.published = node(replace(own, members=(own.members[0], gone)), node_id="one")
        details = (await get(first, "A/B/partitions/orders/1")).json()
        assert (details["step"], details["since"], details["fetching"]) == ("UNKNOWN", None, None)
        assert details["reason"].startswith("node two did not answer: ")
        assert details["unknown"][0].startswith("two: ")
        assert [one["node"] for one in details["events"]] == ["one"], "what is known is shown"


async def test_what_does_not_exist_is_named() -> None:
    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(topic("a.b")), node_id="one")
        found = [
            await get(one, place) for place in ("A/C/partitions/a.b/0", "A/B/partitions/x/0", "A/B/partitions/a.b/1")
        ]
        assert [(answer.status_code, answer.json()["detail"]) for answer in found] == [
            (404, "no flow A->C on this node; its flows: A->B"),
            (404, "A->B does not replicate a topic x"),
            (404, "topic a.b has no partition 1; it has 1"),
        ]
        assert (await get(one, "A/B/partitions/a.b/0")).status_code == 200
        assert (await get(one, "A/B/partitions/a.b/x")).status_code == 422


async def test_command() -> None:
    async with rest_nodes(["one", "two"]) as (first, second):
        moved(first, second)
        url = first.server.url
        code, out, err = await mm2("status", url, "--topic", "orders", "--partition", "1")
        assert (code, err) == (0, "")
        assert [line.rstrip() for line in out.splitlines()] == [
            f"A->B  orders partition 1 -> A.orders  RUNNING  PAUSED since {SHOWN_AT}2Z  node two",
            "  position 90  end 100  lag 10 records",
            "  pace: limited by the source: it does not answer, or fetches fail, 100 % of the last 4 s",
            f"  fetching  PAUSED since {SHOWN_AT}2Z: broker 1 is not the leader",
            f"  sending   IDLE since {SHOWN_AT}0Z",
            "  events:",
            f"    {SHOWN_AT}0Z  one  fetching: DRAINING",
            f"    {SHOWN_AT}2Z  two  fetching: PAUSED: broker 1 is not the leader",
        ]
        code, out, _ = await mm2("status", url, "--topic", "orders", "--partition", "1", "--json")
        assert (code, json.loads(out)["step"]) == (0, "PAUSED")


async def test_command_without_a_lane() -> None:
    async with rest_nodes(["one"]) as (one,):
        paused = partition(0, state=TaskState.PAUSED, node="one", position=None, lag_records=None, end_offset=None)
        one.published = node(flow(topic("orders", paused), paused=("orders",)), node_id="one")
        code, out, _ = await mm2("status", one.server.url, "--topic", "orders", "--partition", "0", "--flow", "A->B")
        assert code == 0
        assert "PAUSED_BY_OPERATOR" in out
        assert "  position -  end -  lag - records" in out
        assert "  no events besides its start" in out


async def test_wrong_command_lines() -> None:
    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(topic("orders")), node_id="one")
        url = one.server.url
        expected = {
            ("--partition", "0"): "one partition needs --topic T --partition P, without --problems",
            ("--topic", "order", "--partition", "0"): "topic order is not replicated (use its name on the source)."
            " Did you mean orders?",
            ("--topic", "orders", "--partition", "x"): "--partition x is not a partition number: write for example"
            " --partition 0",
            ("--topic", "orders", "--partition", "7"): "topic orders has no partition 7; it has 1",
            ("--topic", "orders", "--partition", "0", "--flow", "A->C"): "no flow 'A->C' on this node; its flows: A->B",
        }
        for words, message in expected.items():
            assert await mm2("status", url, *words) == (2, "", f"mm2 status: {message}\n")


async def test_a_partition_that_is_not_copied_until_its_new_start_is_stored() -> None:
    waiting = partition(0, state=TaskState.WAITING, node="", position=None)
    async with rest_nodes(["one"]) as (asked,):
        for state, reason in (
            (
                "requested",
                "to be copied again from offset 40, requested by alice: waiting until what is in flight is stored",
            ),
            ("started", "no node has the source task of the partition"),
        ):
            asked.published = node(
                flow(topic("orders", waiting), copying_again=(replace(COPIED_AGAIN, state=state),)), node_id="one"
            )
            details = (await get(asked, "A/B/partitions/orders/0")).json()
            assert (details["step"], details["reason"]) == ("NOT_ASSIGNED", reason)
