"""Files of other programs. What is printed for typical ones: tests/snapshots/config/bad."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mm2.config.load import Loaded, load

CLUSTERS = [{"alias": "a", "bootstrapServers": "a:9092"}, {"alias": "b", "bootstrapServers": "b:9092"}]
MIRROR = {"sourceCluster": "a", "targetCluster": "b", "sourceConnector": {}}
V1 = {"target": CLUSTERS[1], "mirrors": [{"source": CLUSTERS[0], "sourceConnector": {}}]}


def answer(directory: Path, content: str) -> Loaded:
    path = directory / "mm2.properties"
    path.write_text(content, "utf-8")
    return load(path)


def fix(directory: Path, spec: object, kind: str = "KafkaMirrorMaker2") -> tuple[str, ...]:
    manifest = {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": kind, "spec": spec}
    (problem,) = answer(directory, json.dumps(manifest)).problems
    return problem.fix_lines


def lines(found: tuple[str, ...]) -> str:
    heading = next(number for number, line in enumerate(found) if line.endswith(":"))
    return "\n".join(found[heading + 1 :])


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"clusters": CLUSTERS, "mirrors": []},
        {"clusters": CLUSTERS, "mirrors": [MIRROR, MIRROR]},
        {"clusters": [*CLUSTERS, CLUSTERS[0]], "mirrors": [MIRROR]},
        {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "sourceCluster": "c"}]},
        {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "targetCluster": "a"}]},
        {"clusters": CLUSTERS, "mirrors": [{"sourceCluster": "a", "sourceConnector": {}}]},
        {"clusters": CLUSTERS, "mirrors": [{"sourceCluster": "a", "targetCluster": "b"}]},
        {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "sourceConnector": 1}]},
        {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "topicsPattern": ["orders"]}]},
        {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "sourceConnector": {"config": {"a b": 1}}}]},
        {"clusters": [CLUSTERS[0], {"alias": "b"}], "mirrors": [MIRROR]},
        {"clusters": [{**CLUSTERS[0], "alias": "a\nb"}, CLUSTERS[1]], "mirrors": [{**MIRROR, "sourceCluster": "a\nb"}]},
        {"clusters": CLUSTERS, **V1},
    ],
)
def test_a_structure_that_is_not_recognized_is_not_converted(tmp_path: Path, spec: object) -> None:
    found = fix(tmp_path, spec)
    assert found[1] == "nothing was converted, because the structure of the file was not fully recognized"
    assert "A.bootstrap.servers = host:port" in found


@pytest.mark.parametrize(
    "spec",
    [
        {"clusters": CLUSTERS[::-1], "mirrors": [MIRROR]},
        {"clusters": CLUSTERS, "connectCluster": "b", "mirrors": [{"sourceCluster": "a", "sourceConnector": {}}]},
        V1,
    ],
)
def test_the_direction_follows_from_the_structure(tmp_path: Path, spec: object) -> None:
    found = fix(tmp_path, spec)
    loaded = answer(tmp_path, lines(found))
    assert loaded.settings is not None, loaded.problems
    assert [str(flow.flow) for flow in loaded.settings.flows if flow.enabled] == ["a->b"]
    servers = {line for line in found if ".bootstrap.servers" in line}
    assert servers == {"a.bootstrap.servers = a:9092", "b.bootstrap.servers = b:9092"}


@pytest.mark.parametrize("security", [{"authentication": {"type": "plain"}}, {"authentication": {"type": "custom"}}])
@pytest.mark.parametrize("tls", [{}, {"tls": {}}])
def test_security_is_never_lost(tmp_path: Path, security: dict[str, object], tls: dict[str, object]) -> None:
    clusters = [{**CLUSTERS[0], **security, **tls}, CLUSTERS[1]]
    found = fix(tmp_path, {"clusters": clusters, "mirrors": [MIRROR]})
    assert any("spec.clusters[0].authentication" in line for line in found)
    assert answer(tmp_path, lines(found)).settings is None


def test_converted_values_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = fix(tmp_path, {"clusters": CLUSTERS, "mirrors": [{**MIRROR, "topicsPattern": "orders\\..*,caf\u00e9"}]})
    loaded = answer(tmp_path, lines(found))
    assert loaded.problems == ()
    assert "a->b.topics = orders\\\\..*,caf\\u00e9" in found


def test_the_settings_of_all_connectors_are_copied(tmp_path: Path) -> None:
    mirror = {
        **MIRROR,
        "checkpointConnector": {"tasksMax": 2, "config": {"groups": "x", "emit.checkpoints.enabled": None}},
        "heartbeatConnector": {"config": {"emit.heartbeats.interval.seconds": 3}},
        "groupsPattern": "y",
    }
    found = fix(tmp_path, {"clusters": CLUSTERS, "mirrors": [mirror]})
    assert {"a->b.tasks.max = 2", "a->b.groups = y", "a->b.emit.heartbeats.interval.seconds = 3"} <= set(found)
    assert "not converted: spec.mirrors[0].checkpointConnector.config.groups: check whether you need them" in found


def test_a_connector_without_tasks(tmp_path: Path) -> None:
    spec = {"class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", "config": {}}
    found = fix(tmp_path, spec, "KafkaConnector")
    assert "source->target.topics = (the topics of the MirrorSourceConnector)" in found


def test_another_connector(tmp_path: Path) -> None:
    found = fix(tmp_path, {"class": "FileStreamSource"}, "KafkaConnector")
    assert found == ("run this connector in Kafka Connect: mm2 only replicates between Kafka clusters",)


@pytest.mark.parametrize("text", ["[1, 2]", '{"kind": 1}', "{"])
def test_other_json(tmp_path: Path, text: str) -> None:
    (problem,) = answer(tmp_path, text).problems
    assert problem.rule == "is JSON, not an mm2.properties file"


@pytest.mark.parametrize("text", ["---\na: b\n", "# list\n- a\n- b\n", "a:\n- b\n", "a:\n  # why\n  b: c\n"])
def test_other_yaml(tmp_path: Path, text: str) -> None:
    (problem,) = answer(tmp_path, text).problems
    assert problem.rule == "is YAML, not an mm2.properties file"


@pytest.mark.parametrize("text", ["a: b\n", "A.bootstrap.servers: a\n  B.bootstrap.servers: b\n", "a =\n  b = 1\n"])
def test_properties_are_not_taken_for_yaml(tmp_path: Path, text: str) -> None:
    (problem,) = answer(tmp_path, text).problems
    assert problem.key == "clusters"


def test_clusters_with_a_nul_byte_elsewhere(tmp_path: Path) -> None:
    assert answer(tmp_path, "# \0\nclusters = A, B\n").problems[0].rule == "cluster A has no bootstrap.servers"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("connector.class = X password=sesame\n", "[hidden]"),
        ("bootstrap.servers = a:9092\nclient.rack = x\nssl.key.password=sesame\n", "(copy the value)"),
    ],
)
def test_secrets_in_other_values_are_not_printed(tmp_path: Path, text: str, instead: str) -> None:
    (problem,) = answer(tmp_path, text).problems
    assert "sesame" not in str(problem)
    assert instead in str(problem)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("zk.connect=z\ngroupid=g\nmirror.topics.whitelist=a\n", "consumer"),
        ("bootstrap.servers=a:1\ngroup.id=g\n", "consumer"),
        ("zk.connect=z\nproducer.type=async\n", "producer"),
        ("broker.list=0:a:9092\n", "producer"),
        ("bootstrap.servers=a:1\nacks=all\n", "producer"),
    ],
)
def test_files_of_mirror_maker_1(tmp_path: Path, text: str, kind: str) -> None:
    (problem,) = answer(tmp_path, text).problems
    assert f"MirrorMaker 1's --{kind}.config" in problem.rule
    assert "kafka-mirror-maker --consumer.config FILE" in problem.fix
    assert "mm2 migrate-mm1 --consumer.config FILE" in problem.fix


def test_unreadable_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    other = "apiVersion: v1\nkind: Service\n---\n"
    text = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec: *secret\n"
    (problem,) = answer(tmp_path, other + text).problems
    assert "line 6: an alias" in problem.fix_lines
    assert "*secret" not in problem.fix


def test_many_empty_lines_take_no_time(tmp_path: Path) -> None:
    """A regular expression that tries every way to split them would take exponential time."""
    began = time.monotonic()
    assert answer(tmp_path, "\n" * 200 + "a = b\n").problems
    assert "is YAML" in str(answer(tmp_path, "\n \n# c\n" * 50 + "---\na\n").problems[0])
    assert "is YAML" in str(answer(tmp_path, "\n \n# c\n" * 50 + "- a\n").problems[0])
    assert time.monotonic() - began < 30.0
