"""The image and Compose: what they take exists, fits together, and comes from where people expect it."""

from __future__ import annotations

import base64
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mm2.config.worker import WorkerSettings
from mm2.node.engine_process import END_WITHIN_S, OLDEST_JAVA
from tests.unit.deploy.shipped import COMPOSE, CONTAINER, DEPLOY, MONITORING, read_yaml, seconds

ROOT = DEPLOY.parent
SERVICES: dict[str, Any] = read_yaml(COMPOSE / "compose.yaml")["services"]
NODES = {name: service for name, service in SERVICES.items() if name.startswith("node-")}
CLUSTERS = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}

NEVER_REMOVED = ("spark-core", "spark-sql_", "spark-sql-api", "spark-catalyst", "spark-kubernetes", "spark-yarn")
"""Jars that lanes, a later SQL, or another master need."""


def instructions() -> list[tuple[str, str]]:
    """The Containerfile as (instruction, arguments), lines joined, comments left out."""
    text = (CONTAINER / "Containerfile").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = lines.replace("\\\n", " ")
    return [
        (word, " ".join(rest.split()))
        for word, _, rest in (line.partition(" ") for line in joined.splitlines())
        if word
    ]


def arguments(instruction: str) -> list[str]:
    return [rest for word, rest in instructions() if word == instruction]


def has_host(image: str) -> bool:
    """Whether an image's name begins with a registry's host, by Docker's rule."""
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def test_it_runs_as_a_user_without_rights() -> None:
    assert arguments("USER") == ["10001:10001"]
    assert any("useradd --system --uid 10001" in line for line in arguments("RUN"))


def test_packages_carry_the_hashes_of_the_lock() -> None:
    installs = [
        line for line in " && ".join(arguments("RUN")).split("&&") if "uv pip install" in line or "uv build" in line
    ]
    ours = [line for line in installs if "/tmp/dist/*.whl" in line]
    assert len(ours) == 1
    assert "--no-deps" in ours[0]
    for line in set(installs) - set(ours):
        assert "--require-hashes" in line
        assert "constraints requirements.lock" in line


def test_java_is_new_enough_for_spark() -> None:
    found = re.search(r"openjdk-(\d+)-jre-headless", " ".join(arguments("RUN")))
    assert found is not None
    assert int(found[1]) >= OLDEST_JAVA


def test_images_are_called_what_people_call_them() -> None:
    bases = [line.split()[0] for line in arguments("FROM")]
    images = [service["image"] for service in SERVICES.values()]
    assert [image for image in bases + images if has_host(image)] == []
    assert [image for image in images if ":" not in image or image.endswith(":latest")] == []


def test_all_that_it_copies_is_there_and_reaches_the_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_through = {line[1:].rstrip("/") for line in ignored if line.startswith("!")}
    copied = [line.split()[:-1] for line in arguments("COPY") if not line.startswith("--from")]
    names = {name for line in copied for name in line}
    assert names == let_through
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_what_it_removes_of_spark_is_there_and_not_needed() -> None:
    """Names of jars change with Spark's version: a pattern that hits nothing keeps the image large in silence."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = Path(found.origin).parent
    removal = next(line for line in arguments("RUN") if "pyspark" in line)
    whole, patterns = (shlex.split(part.split("&&")[0]) for part in re.split(r"rm -r?f ", removal)[1:])
    assert [name for name in whole if not (home / name).exists()] == []
    hits = {pattern: list((home / "jars").glob(pattern)) for pattern in patterns}
    assert [pattern for pattern, jars in hits.items() if not jars] == []
    removed = {jar.name for jars in hits.values() for jar in jars}
    assert [jar for jar in removed if jar.startswith(NEVER_REMOVED) or "-linux-" in jar] == []


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_stopped_and_confined_as_it_should_be(name: str) -> None:
    node = NODES[name]
    drain_s = WorkerSettings.model_fields["task_shutdown_graceful_timeout_ms"].default / 1000
    assert seconds(node["stop_grace_period"]) >= drain_s + 2 * END_WITHIN_S
    assert node["cap_drop"] == ["ALL"]
    assert node["read_only"] is True
    assert node["tmpfs"][0].startswith("/tmp:exec,")  # the JVM loads libraries from there; Docker's default is noexec
    assert (COMPOSE / node["build"]["context"] / node["build"]["dockerfile"]).resolve() == CONTAINER / "Containerfile"


def test_all_that_is_mounted_is_there() -> None:
    volumes = set(read_yaml(COMPOSE / "compose.yaml")["volumes"])
    for service in SERVICES.values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert source in volumes or (COMPOSE / source).is_file(), mount


def test_only_loopback_is_opened_and_no_port_twice() -> None:
    opened = [port for service in SERVICES.values() for port in service["ports"]]
    assert [port for port in opened if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in opened}) == len(opened)


def test_there_are_two_clusters_and_two_nodes_between_them() -> None:
    assert len(NODES) == len(CLUSTERS) == 2
    properties = javaproperties.loads((COMPOSE / "mm2.properties").read_text("utf-8"))
    told = {properties[f"{alias}.bootstrap.servers"] for alias in ("A", "B")}
    assert told == {f"{name}:9092" for name in CLUSTERS}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_is_reached_from_inside_and_from_outside(name: str) -> None:
    environment, ports = CLUSTERS[name]["environment"], CLUSTERS[name]["ports"]
    advertised = dict(one.split("://") for one in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    bound = dict(one.split("://:") for one in environment["KAFKA_LISTENERS"].split(","))
    assert advertised["INSIDE"] == f"{name}:{bound['INSIDE']}"
    assert ports == [f"127.0.0.1:{advertised['OUTSIDE'].split(':')[1]}:{bound['OUTSIDE']}"]
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].endswith(f":{bound['CONTROLLER']}")
    assert set(environment["KAFKA_PROCESS_ROLES"].split(",")) == {"broker", "controller"}


def test_clusters_have_ids_of_their_own() -> None:
    ids = [service["environment"]["CLUSTER_ID"] for service in CLUSTERS.values()]
    assert len(set(ids)) == len(ids)
    assert [len(base64.urlsafe_b64decode(one + "==")) for one in ids] == [16, 16]  # a UUID, as Kafka writes it


def test_prometheus_asks_every_node() -> None:
    (job,) = read_yaml(MONITORING / "prometheus.yml")["scrape_configs"]
    assert set(job["static_configs"][0]["targets"]) == {f"{name}:8083" for name in NODES}
    properties = javaproperties.loads((COMPOSE / "mm2.properties").read_text("utf-8"))
    assert properties["listeners"] == "http://0.0.0.0:8083"
