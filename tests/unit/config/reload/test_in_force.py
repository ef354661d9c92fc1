"""Which settings of a new file a running node applies, and which wait for its restart."""

from __future__ import annotations

from pathlib import Path

from mm2.config.reload.in_force import in_force
from mm2.core.settings.zookeeper import ZooKeeperSettings
from tests.unit.config.readings import read

ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = {}:2181\n"


def test_flows_and_log_level_are_applied(tmp_path: Path) -> None:
    began = read(tmp_path, "mm2.lanes = 1\n")
    found = in_force(began, read(tmp_path, "topics = x\nmm2.log.level = DEBUG\nmm2.lanes = 2\n"))
    assert [flow.source.topics for flow in found.flows if flow.enabled] == [("x",)]
    assert (found.own.log_level, found.own.lanes) == ("DEBUG", 1)


def test_election_settings_of_the_start_apply_to_new_flows(tmp_path: Path) -> None:
    began = read(tmp_path, ZOOKEEPER.format("old"))
    found = in_force(began, read(tmp_path, ZOOKEEPER.format("new") + "B->A.enabled = true\n"))
    assert [flow.election.servers for flow in found.flows if isinstance(flow.election, ZooKeeperSettings)] == [
        ("old:2181",)
    ] * 2
    assert [flow.election for flow in in_force(began, read(tmp_path)).flows if flow.election is None] == []


def test_election_backend_is_not_changed(tmp_path: Path) -> None:
    found = in_force(read(tmp_path), read(tmp_path, ZOOKEEPER.format("new")))
    assert {flow.election for flow in found.flows} == {None}
