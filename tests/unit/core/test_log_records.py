from __future__ import annotations

import asyncio

import pytest

from mm2.core.log_records import ATTRIBUTE, RelayedLine, about, fields_of, read_levels, work_for, work_in_lane
from mm2.core.naming.names import Flow, TopicPartition

AB, ORDERS = Flow("A", "B"), TopicPartition("orders", 3)
ABOUT_ORDERS: dict[str, str | int] = {"flow": "A->B", "topic": "orders", "partition": 3}


def test_fields_are_found_in_the_arguments() -> None:
    copy = TopicPartition("A.orders", 3)
    assert fields_of("A->B: copied", (AB, ORDERS, copy, 7), {}) == ABOUT_ORDERS, "the source's partition is the first"
    assert fields_of("C->D: not used", (AB, Flow("C", "D")), {}) == {"flow": "A->B"}
    assert fields_of("nothing", (), {}) == {}


@pytest.mark.parametrize(
    ("message", "flow"),
    [
        ("us-east.1->eu_west: rebalanced", "us-east.1->eu_west"),
        ("A->B RUNNING: 12 records/s", "A->B"),
        ("A->B", "A->B"),
        ("  A->B  2 topics", "A->B"),
        ("topic A->B", None),
    ],
)
def test_the_flow_that_begins_a_message(message: str, flow: str | None) -> None:
    assert fields_of(message, (), {}).get("flow") == flow


async def test_lines_of_tasks_have_the_flow_for_which_they_work() -> None:
    async def child() -> dict[str, str | int]:
        return fields_of("connecting", (), {})

    async def flow() -> list[dict[str, str | int]]:
        work_for(AB)
        work_in_lane(2)
        return list(await asyncio.gather(asyncio.create_task(child()), asyncio.create_task(child())))

    assert await asyncio.create_task(flow()) == [{"flow": "A->B", "lane": 2}, {"flow": "A->B", "lane": 2}]
    assert fields_of("connecting", (), {}) == {}
    assert fields_of("C->D: lost", (), {}) == {"flow": "C->D"}


def test_what_a_call_says_itself_counts_more() -> None:
    assert about(topic="orders") == {ATTRIBUTE: {"topic": "orders"}}
    assert about(flow="A->B", partition=ORDERS) == {ATTRIBUTE: ABOUT_ORDERS}
    assert fields_of("A->B: x", (AB,), about(topic="users")[ATTRIBUTE]) == {"flow": "A->B", "topic": "users"}


def test_a_line_on_its_way_to_the_node() -> None:
    line = RelayedLine(level="WARNING", logger="flows.target.producer", message="late: {1}", fields=ABOUT_ORDERS)
    assert str(line) == ('WARNING flows.target.producer {"flow":"A->B","topic":"orders","partition":3} late: {1}')
    assert RelayedLine.read(str(line)) == line
    bare = RelayedLine(level="INFO", logger="mm2.engine", message="Spark started")
    assert str(bare) == "INFO mm2.engine Spark started"
    assert RelayedLine.read(str(bare)) == bare


@pytest.mark.parametrize("line", ["26/11/23 WARN TaskSetManager: lost", "WARNING aiokafka.conn x", "mm2.engine x", ""])
def test_other_lines(line: str) -> None:
    assert RelayedLine.read(line) is None


def test_fields_that_are_none_of_ours_are_left_out() -> None:
    forged = RelayedLine.read('INFO mm2.x {"flow":5,"time":"never","partition":true,"topic":"orders"} text')
    assert forged == RelayedLine(level="INFO", logger="mm2.x", message="text", fields={"topic": "orders"})
    broken = RelayedLine.read("INFO mm2.x {flow} text")
    assert broken == RelayedLine(level="INFO", logger="mm2.x", message="{flow} text")


def test_levels_of_loggers() -> None:
    assert read_levels(["mm2.kafka=debug", "flows = WARNING"]) == {"mm2.kafka": "DEBUG", "flows": "WARNING"}
    for wrong in ("mm2.kafka", "=DEBUG", "mm2..x=DEBUG", "mm2=TRACE"):
        with pytest.raises(ValueError, match=r"must be comma-separated loggers with levels such as mm2\.kafka=DEBUG"):
            read_levels([wrong])
