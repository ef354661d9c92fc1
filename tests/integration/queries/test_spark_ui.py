"""What Spark's UI shows of lanes, as its REST interface has it."""

from __future__ import annotations

from typing import Any

import httpx

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import QUERIES, SEEN
from tests.lab.records import Outgoing
from tests.lab.waiting import wait_until


def shown(ui: str, what: str) -> Any:
    with httpx.Client(timeout=60) as client:  # 5 s by default, and the first answer loads classes
        application = client.get(f"{ui}/api/v1/applications").json()[0]["id"]
        return client.get(f"{ui}/api/v1/applications/{application}/{what}").json()


def test_jobs_and_stages_say_what_is_fixed(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("live")
    flow.write(topic, [Outgoing(value=b"v")])
    flow.wait_passed(node, topic)
    ui = wait_until(node.spark_ui, SEEN, "the Spark UI answers")

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
    assert f"{flow.name} lane 0" in {stage["name"] for stage in running.values()}, "lane 0 has no query"
    queries = [one["description"] for one in shown(ui, "sql?details=false")]
    assert job["description"] in queries
