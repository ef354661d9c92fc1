"""What a node that runs takes from a new file, and what waits."""

from __future__ import annotations

from pathlib import Path

from mm2.config.in_force import in_force
from tests.unit.config.readings import read

ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = {}:2181\n"


def test_flows_and_the_log_level_are_those_of_the_new_file(tmp_path: Path) -> None:
    began = read(tmp_path, "mm2.lanes = 1\n")
    found = in_force(began, read(tmp_path, "topics = x\nmm2.log.level = DEBUG\nmm2.lanes = 2\n"))
    assert [flow.source.topics for flow in found.flows if flow.enabled] == [("x",)]
    assert (found.own.log_level, found.own.lanes) == ("DEBUG", 1)


def test_elections_are_those_of_the_start_for_new_flows_too(tmp_path: Path) -> None:
    began = read(tmp_path, ZOOKEEPER.format("old"))
    found = in_force(began, read(tmp_path, ZOOKEEPER.format("new") + "B->A.enabled = true\n"))
    assert [flow.zookeeper.servers for flow in found.flows if flow.zookeeper] == [("old:2181",)] * 2
    assert [flow.zookeeper for flow in in_force(began, read(tmp_path)).flows if flow.zookeeper is None] == []


def test_a_node_that_elects_by_kafka_goes_on_with_that(tmp_path: Path) -> None:
    found = in_force(read(tmp_path), read(tmp_path, ZOOKEEPER.format("new")))
    assert {flow.zookeeper for flow in found.flows} == {None}
