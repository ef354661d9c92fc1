from __future__ import annotations

from pathlib import Path

from mm2.config.grammar.problems import ProblemLog
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.change_lines import (
    broken_lines,
    broken_reason,
    changed_lines,
    disagreement,
    pending_reason,
    restart_reason,
    unchanged_line,
)
from mm2.config.reload.changes import Change
from tests.unit.config.readings import diff, flow, read

FILE = Path("mm2.properties")


def lines(directory: Path, old: str, new: str, pending: tuple[Change, ...] = ()) -> list[str]:
    return [line.replace(f"{directory}/", "") for line in changed_lines(diff(directory, old, new), pending)]


def test_effect_on_each_flow(tmp_path: Path) -> None:
    old = "clusters = A, B, C\nC.bootstrap.servers = c:1\nB->A.enabled = true\nA->C.enabled = true\n"
    old += "emit.heartbeats.enabled = false\n"
    new = old.replace("A->C", "C->A") + "B->A.tasks.max = 4\nA->B.mm2.offset.translation = compatible\n"
    assert lines(tmp_path, old, new) == [
        "mm2.properties: reloaded: C->A added; A->C removed; A->B restarting; B->A reconfigured without restart",
        "  mm2.properties:11: A->B.mm2.offset.translation = compatible (was exact): A->B restarting",
        "  mm2.properties:10: B->A.tasks.max = 4 (was 1): B->A reconfigured",
    ]


def test_change_of_the_node_itself(tmp_path: Path) -> None:
    assert lines(tmp_path, "", "mm2.log.level = DEBUG\n") == [
        "mm2.properties: reloaded: this node reconfigured",
        "  mm2.properties:5: mm2.log.level = DEBUG (was INFO): this node reconfigured",
    ]


def test_change_of_several_flows_is_reported_once(tmp_path: Path) -> None:
    enabled = "B->A.enabled = true\n"
    assert lines(tmp_path, enabled, f"{enabled}tasks.max = 4\n") == [
        "mm2.properties: reloaded: A->B, B->A reconfigured without restart",
        "  mm2.properties:6: tasks.max = 4 (was 1): A->B, B->A reconfigured",
    ]
    assert lines(tmp_path, enabled, f"{enabled}replication.policy.separator = _\n") == [
        "mm2.properties: reloaded: A->B, B->A restarting",
        "  mm2.properties:6: replication.policy.separator = _ (was .): A->B, B->A restarting",
    ]


def test_several_added_and_removed_flows(tmp_path: Path) -> None:
    third = "clusters = A, B, C\nC.bootstrap.servers = c:1\n"
    assert lines(tmp_path, "", third)[0] == "mm2.properties: reloaded: A->C, B->C, C->A, C->B added"
    assert lines(tmp_path, third, "")[0] == "mm2.properties: reloaded: A->C, B->C, C->A, C->B removed"


def test_changes_without_effect(tmp_path: Path) -> None:
    assert lines(tmp_path, "", "metric.names.formats = new\nmy.key = 1\n") == [
        "mm2.properties: reloaded: no effect",
        "  mm2.properties:5: metric.names.formats = new (was legacy): no effect",
        "  mm2.properties:6: my.key = 1 (was not set): no effect",
    ]


def test_changes_that_need_a_node_restart(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "mm2.lanes = 4\nspark.master = local[2]\nmm2.log.level = DEBUG\n")
    waiting = tuple(change for change in found.node if change.update_mode is UpdateMode.NODE)
    assert [line.replace(f"{tmp_path}/", "") for line in changed_lines(found, waiting)] == [
        "mm2.properties: reloaded: restart this node to apply mm2.lanes, spark.master",
        "  mm2.properties:5: mm2.lanes = 4 (was not set): applied when this node is restarted",
        "  mm2.properties:6: spark.master = local[2] (was not set): applied when this node is restarted",
        "  mm2.properties:7: mm2.log.level = DEBUG (was INFO): this node reconfigured",
    ]
    assert changed_lines(found, waiting[:1])[0].endswith(": restart this node to apply mm2.lanes")
    assert pending_reason(waiting) == "restart this node to apply: mm2.lanes, spark.master"


def test_long_lists_of_changes_are_truncated(tmp_path: Path) -> None:
    found = lines(tmp_path, "", "".join(f"spark.key{number} = x\n" for number in range(50)))
    assert (len(found), found[-1]) == (42, "  and 10 more")


def test_reason_of_a_restart(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "A.client.id = x\nA->B.tasks.max = 3\nA.consumer.client.rack = r\n")
    assert restart_reason(flow(found)) == "restarting with a changed configuration: A.consumer.client.rack"
    many = "".join(f"A.consumer.{name} = 7\n" for name in ("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms"))
    many += "".join(f"A.{kind}.request.timeout.ms = 9\n" for kind in ("consumer", "producer", "admin"))
    many += "A.consumer.check.crcs = false\nA.consumer.client.rack = r\n"
    assert restart_reason(flow(diff(tmp_path, "", many))).endswith("A.admin.request.timeout.ms and 2 more")


def test_invalid_file() -> None:
    problems = ProblemLog("mm2.properties")
    problems.warning("a warning", "fix it", key="x")
    problems.error("must be at least 1", "remove the line", key="tasks.max")
    assert broken_lines(FILE, problems.in_order()) == (
        "mm2.properties: not reloaded, 1 error; keeping the previous configuration",
        "mm2.properties: error: tasks.max: must be at least 1 (fix: remove the line)",
    )
    assert broken_reason(problems.in_order()) == (
        "configuration not reloaded, keeping the previous one: mm2.properties: error: tasks.max: must be "
        "at least 1 (fix: remove the line)"
    )
    problems.error("second", "fix it", key="y")
    problems.error("third", "fix it", key="z")
    assert broken_lines(FILE, problems.in_order())[0].startswith("mm2.properties: not reloaded, 3 errors;")
    assert broken_reason(problems.in_order()).endswith("(fix: remove the line); 2 more errors in the log")


def test_unchanged_file() -> None:
    assert unchanged_line(FILE, repaired=False) == "mm2.properties: reloaded, no changes"
    assert unchanged_line(FILE, repaired=True) == "mm2.properties: reloaded, errors corrected, no changes"


def test_nodes_with_different_configurations() -> None:
    assert disagreement(leader="n1", others=("n2",), keys=("tasks.max", "topics")) == (
        "n2 has a different configuration than leader n1 (differing keys: tasks.max, topics); the configuration "
        "of n1 applies until another node becomes leader"
    )
    assert disagreement(leader="n1", others=("n3", "n2")) == (
        "n2, n3 have a different configuration than leader n1; the configuration of n1 applies until another "
        "node becomes leader"
    )


def test_no_message_contains_a_secret(tmp_path: Path) -> None:
    old = "my.password = sesame\nspark.ssl.keyPassword = sesame\n"
    found = diff(tmp_path, old, old.replace("sesame", "simsim"))
    text = "\n".join(changed_lines(found, found.node))
    assert text.count("[hidden]") == 4
    assert "sesame" not in text
    assert "simsim" not in text
    assert read(tmp_path, old).settings.spark == {"spark.ssl.keyPassword": "sesame"}
