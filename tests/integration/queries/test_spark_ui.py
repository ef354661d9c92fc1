"""What Spark's UI shows of lanes, as its REST interface has it."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import QUERIES, SEEN
from tests.lab.records import Outgoing, plain
from tests.lab.waiting import wait_until

COUNT = 1_000
ROWS = re.compile(r'"name":"number of output rows","value":"([\d,]+)"')


def shown(ui: str, what: str) -> Any:
    with httpx.Client(timeout=60) as client:  # 5 s by default, and the first answer loads classes
        application = client.get(f"{ui}/api/v1/applications").json()[0]["id"]
        return client.get(f"{ui}/api/v1/applications/{application}/{what}").json()


def test_jobs_and_stages_say_what_is_fixed(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("live")
    flow.write(topic, [Outgoing(value=b"v")])
    flow.wait_passed(node, topic)
    ui = wait_until(lambda: node.spark_ui("queries"), SEEN, "the Spark UI answers")

    def sql_lane() -> dict[str, Any] | None:
        running = [job for job in shown(ui, "jobs") if job["status"] == "RUNNING"]
        return next((job for job in running if job.get("description", "").endswith(QUERIES["live"])), None)

    job = wait_until(sql_lane, SEEN, "a job has the query in its description")
    assert job is not None
    lane, _, _ = job["description"].partition(":")
    assert lane.startswith(f"{flow.name} lane ")
    assert job["description"] == f"{lane}: query live: {QUERIES['live']}"
    running = {stage["stageId"]: stage for stage in shown(ui, "stages?status=active")}
    assert running[job["stageIds"][0]]["name"] == lane
    other = wait_until(node.spark_ui, SEEN, "the Spark UI of the other engine answers")
    stages = {stage["name"] for stage in shown(other, "stages?status=active")}
    assert stages == {"lane 0"}, "it has no query, and source tasks of any flow"
    check_node(queried, {"main": other, "queries": ui})
    assert "RUNNING" in [
        one["status"] for one in shown(ui, "sql?details=false") if one["description"] == job["description"]
    ]


def check_node(queried: Queried, uis: dict[str, str]) -> None:
    """``GET /node`` has the engines with their UIs and memory, and the memory of each lane of a query."""
    answer = wait_until(lambda: queried.node.get("/node"), SEEN, "the node answers")
    assert answer is not None
    engines = {one["engine"]: one for one in answer.json()["engines"]}
    assert {name: one["spark_ui"] for name, one in engines.items()} == uis
    assert all(one["error"] is None and one["memory_bytes"] > 50_000_000 for one in engines.values())
    lanes = answer.json()["lane_memory"]
    of_query = next(one for one in lanes if one["query"] == "live")
    assert of_query["flow"] == queried.flow.name
    assert of_query["bytes"] > 20_000_000
    assert [one["flow"] for one in lanes if one["query"] is None] == [None]


def rows_of_query(ui: str, stem: str) -> int:
    """Return the largest number of rows that an operator of the query has returned so far, as the SQL tab shows it.

    Spark's REST interface has the rows of a query only after its end.
    """
    running = (one for one in shown(ui, "sql?details=false") if one["status"] == "RUNNING")
    found = [0]
    for number in (one["id"] for one in running if one["description"].endswith(QUERIES[stem])):
        with httpx.Client(timeout=60) as client:
            page = html.unescape(client.get(f"{ui}/SQL/execution/", params={"id": number}).text)
        found += [int(rows.replace(",", "")) for rows in ROWS.findall(page)]
    return max(found)


@pytest.mark.long  # test_operation.py counts rows with metrics
def test_the_rows_of_a_query_are_counted_while_it_runs(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("live")
    ui = wait_until(lambda: node.spark_ui("queries"), SEEN, "the Spark UI answers")
    for _ in range(2):
        before = rows_of_query(ui, "live")
        flow.write(topic, plain(COUNT))
        flow.wait_passed(node, topic)
        wait_until(lambda: rows_of_query(ui, "live") >= before + COUNT, SEEN, "the SQL tab counts the rows")  # noqa: B023
