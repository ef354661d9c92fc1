from __future__ import annotations

from pathlib import Path

from mm2.config.change_lines import (
    broken_lines,
    broken_reason,
    changed_lines,
    disagreement,
    pending_reason,
    restart_reason,
    unchanged_line,
)
from mm2.config.changes import Change
from mm2.config.problems import ProblemLog
from mm2.config.reach import Reach
from mm2.core.names import Flow
from tests.unit.config.readings import diff, flow, read

FILE = Path("mm2.properties")


def lines(directory: Path, old: str, new: str, pending: tuple[Change, ...] = ()) -> list[str]:
    return [line.replace(f"{directory}/", "") for line in changed_lines(diff(directory, old, new), pending)]


def test_what_happens_to_whom(tmp_path: Path) -> None:
    old = "clusters = A, B, C\nC.bootstrap.servers = c:1\nB->A.enabled = true\nA->C.enabled = true\n"
    old += "emit.heartbeats.enabled = false\n"
    new = old.replace("A->C", "C->A") + "B->A.tasks.max = 4\nA->B.mm2.offset.translation = compatible\n"
    assert lines(tmp_path, old, new) == [
        "mm2.properties has changed: C->A is new; A->C ends; A->B starts again; B->A goes on otherwise",
        "  mm2.properties:11 A->B.mm2.offset.translation = compatible  (was exact): A->B starts again",
        "  mm2.properties:10 B->A.tasks.max = 4  (was 1): taken over by B->A",
    ]


def test_a_change_of_several_flows_is_told_once(tmp_path: Path) -> None:
    enabled = "B->A.enabled = true\n"
    assert lines(tmp_path, enabled, f"{enabled}tasks.max = 4\n") == [
        "mm2.properties has changed: A->B, B->A go on otherwise",
        "  mm2.properties:6 tasks.max = 4  (was 1): taken over by A->B, B->A",
    ]
    assert lines(tmp_path, enabled, f"{enabled}replication.policy.separator = _\n") == [
        "mm2.properties has changed: A->B, B->A start again",
        "  mm2.properties:6 replication.policy.separator = _  (was .): A->B, B->A start again",
    ]


def test_several_that_come_and_go(tmp_path: Path) -> None:
    third = "clusters = A, B, C\nC.bootstrap.servers = c:1\n"
    assert lines(tmp_path, "", third)[0] == "mm2.properties has changed: A->C, B->C, C->A, C->B are new"
    assert lines(tmp_path, third, "")[0] == "mm2.properties has changed: A->C, B->C, C->A, C->B end"


def test_what_changes_nothing(tmp_path: Path) -> None:
    assert lines(tmp_path, "", "metric.names.formats = new\nmy.key = 1\n") == [
        "mm2.properties has changed: nothing is to be done",
        "  mm2.properties:5 metric.names.formats = new  (was legacy): changes nothing",
        "  mm2.properties:6 my.key = 1  (was not set): changes nothing",
    ]


def test_what_waits_for_the_node(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "mm2.lanes = 4\nspark.master = local[2]\nmm2.log.level = DEBUG\n")
    waiting = tuple(change for change in found.node if change.reach is Reach.NODE)
    assert [line.replace(f"{tmp_path}/", "") for line in changed_lines(found, waiting)] == [
        "mm2.properties has changed: mm2.lanes, spark.master wait until the node is started again",
        "  mm2.properties:5 mm2.lanes = 4  (was not set): in force when the node is started again",
        "  mm2.properties:6 spark.master = local[2]  (was not set): in force when the node is started again",
        "  mm2.properties:7 mm2.log.level = DEBUG  (was INFO): taken over by this node",
    ]
    assert changed_lines(found, waiting[:1])[0].endswith(": mm2.lanes waits until the node is started again")
    assert pending_reason(waiting) == "in force when this node is started again: mm2.lanes, spark.master"


def test_many_changes_are_cut_off(tmp_path: Path) -> None:
    found = lines(tmp_path, "", "".join(f"spark.key{number} = x\n" for number in range(50)))
    assert (len(found), found[-1]) == (42, "  and 10 more")


def test_why_a_flow_starts_again(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "A.client.id = x\nA->B.tasks.max = 3\nA.consumer.client.rack = r\n")
    assert restart_reason(flow(found)) == "starts again with a changed configuration: A.consumer.client.rack"
    many = "".join(f"A.consumer.{name} = 7\n" for name in ("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms"))
    many += "".join(f"A.{kind}.request.timeout.ms = 9\n" for kind in ("consumer", "producer", "admin"))
    many += "A.consumer.check.crcs = false\nA.consumer.client.rack = r\n"
    assert restart_reason(flow(diff(tmp_path, "", many))).endswith("A.admin.request.timeout.ms and 2 more")


def test_a_broken_file() -> None:
    problems = ProblemLog("mm2.properties")
    problems.warning("a warning", key="x")
    problems.error("must be at least 1.", key="tasks.max")
    assert broken_lines(FILE, problems.in_order()) == (
        "mm2.properties has changed and cannot be taken over, this node goes on as before: 1 error",
        "mm2.properties: tasks.max  must be at least 1.",
    )
    assert broken_reason(problems.in_order()) == (
        "a new configuration cannot be taken over, this node goes on as before: mm2.properties: tasks.max  must be at "
        "least 1."
    )
    problems.error("second", key="y")
    problems.error("third", key="z")
    assert broken_lines(FILE, problems.in_order())[0].endswith("as before: 3 errors")
    assert broken_reason(problems.in_order()).endswith("at least 1. (and 2 more errors, see the log)")


def test_an_unchanged_file() -> None:
    assert unchanged_line(FILE, repaired=False) == "mm2.properties was read again: it says what this node runs on"
    assert unchanged_line(FILE, repaired=True) == "mm2.properties is good again, and says what this node runs on"


def test_nodes_that_do_not_agree() -> None:
    flow = Flow("A", "B")
    assert disagreement(flow, leader="n1", others=("n2",), keys=("tasks.max", "topics")) == (
        "n2 has another configuration for A->B than n1, which leads: the files differ in tasks.max, topics. What n1 "
        "says counts until another node leads"
    )
    assert disagreement(flow, leader="n1", others=("n3", "n2")) == (
        "n2, n3 have another configuration for A->B than n1, which leads: the files are not the same. What n1 says "
        "counts until another node leads"
    )


def test_no_sentence_shows_a_secret(tmp_path: Path) -> None:
    old = "my.password = sesame\nspark.ssl.keyPassword = sesame\n"
    found = diff(tmp_path, old, old.replace("sesame", "simsim"))
    text = "\n".join(changed_lines(found, found.node))
    assert text.count("[hidden]") == 4
    assert "sesame" not in text
    assert "simsim" not in text
    assert read(tmp_path, old).settings.spark == {"spark.ssl.keyPassword": "sesame"}
