"""The image and Compose: their files exist, fit together, and come from the expected registries."""

from __future__ import annotations

import base64
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mm2.config.keys.worker_keys import WorkerSettings
from mm2.node.engine.engine_process import END_WITHIN_S, OLDEST_JAVA
from tests.unit.deploy.shipped import COMPOSE, CONTAINER, DEPLOY, MONITORING, read_yaml, seconds

ROOT = DEPLOY.parent
SERVICES: dict[str, Any] = read_yaml(COMPOSE / "compose.yaml")["services"]
NODES = {name: service for name, service in SERVICES.items() if name.startswith("node-")}
CLUSTERS = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}

NEVER_REMOVED = ("spark-core", "spark-sql_", "spark-sql-api", "spark-catalyst", "spark-kubernetes", "spark-yarn")
"""Jars needed by lanes, by SQL flows, or by another master."""


def instructions() -> list[tuple[str, str]]:
    """Return the Containerfile as (instruction, arguments), with joined lines and without comments."""
    text = (CONTAINER / "Containerfile").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = lines.replace("\\\n", " ")
    return [
        (keyword, " ".join(rest.split()))
        for keyword, _, rest in (line.partition(" ") for line in joined.splitlines())
        if keyword
    ]


def arguments(instruction: str) -> list[str]:
    return [rest for keyword, rest in instructions() if keyword == instruction]


def has_host(image: str) -> bool:
    """Return whether an image name begins with a registry host, by Docker's rule."""
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


@pytest.mark.parametrize("name", NODES)
def test_compose_restarts_a_node_a_limited_number_of_times(name: str) -> None:
    """Without a limit a configuration error (exit code 2) would restart the node for ever."""
    assert re.fullmatch(r"on-failure:[1-9]", NODES[name]["restart"])


def test_container_runs_as_an_unprivileged_user() -> None:
    assert arguments("USER") == ["10001:10001"]
    assert any("useradd --system --uid 10001" in line for line in arguments("RUN"))


def test_packages_are_installed_with_locked_hashes() -> None:
    installs = [
        line for line in " && ".join(arguments("RUN")).split("&&") if "uv pip install" in line or "uv build" in line
    ]
    ours = [line for line in installs if "/tmp/dist/*.whl" in line]
    assert len(ours) == 1
    assert "--no-deps" in ours[0]
    for line in set(installs) - set(ours):
        assert "--require-hashes" in line
        assert re.search(r"constraints requirements(-kerberos)?\.lock", line)


def test_image_can_run_sql_flows() -> None:
    assert any("--requirements pyproject.toml --extra sql " in line for line in arguments("RUN"))


def test_java_version_for_spark() -> None:
    found = re.search(r"openjdk-(\d+)-jre-headless", " ".join(arguments("RUN")))
    assert found is not None
    assert int(found[1]) >= OLDEST_JAVA


def test_image_names_have_no_registry_host() -> None:
    bases = [line.split()[0] for line in arguments("FROM")]
    images = [service["image"] for service in SERVICES.values()]
    assert [image for image in bases + images if has_host(image)] == []
    assert [image for image in images if ":" not in image or image.endswith(":latest")] == []


def test_copied_files_exist_and_are_in_the_build_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_through = {line[1:].rstrip("/") for line in ignored if line.startswith("!")}
    copied = [line.split()[:-1] for line in arguments("COPY") if not line.startswith("--from")]
    names = {name for line in copied for name in line}
    assert names == let_through
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_removed_spark_jars_exist_and_are_not_needed() -> None:
    """Jar names change with Spark's version: a pattern without a match would silently keep the image large."""
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
def test_stop_timeout_and_restrictions_of_a_node(name: str) -> None:
    node = NODES[name]
    drain_s = WorkerSettings.model_fields["task_shutdown_graceful_timeout_ms"].default / 1000
    assert seconds(node["stop_grace_period"]) >= drain_s + 2 * END_WITHIN_S
    assert node["cap_drop"] == ["ALL"]
    assert node["read_only"] is True
    assert node["tmpfs"][0].startswith("/tmp:exec,")  # the JVM loads libraries from there; Docker's default is noexec
    assert (COMPOSE / node["build"]["context"] / node["build"]["dockerfile"]).resolve() == CONTAINER / "Containerfile"


def test_mounted_files_exist() -> None:
    volumes = set(read_yaml(COMPOSE / "compose.yaml")["volumes"])
    for service in SERVICES.values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert source in volumes or (COMPOSE / source).is_file(), mount


def test_ports_are_published_once_on_loopback_only() -> None:
    opened = [port for service in SERVICES.values() for port in service["ports"]]
    assert [port for port in opened if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in opened}) == len(opened)


def test_two_clusters_and_two_nodes() -> None:
    assert len(NODES) == len(CLUSTERS) == 2
    properties = javaproperties.loads((COMPOSE / "mm2.properties").read_text("utf-8"))
    addresses = {properties[f"{alias}.bootstrap.servers"] for alias in ("A", "B")}
    assert addresses == {f"{name}:9092" for name in CLUSTERS}


@pytest.mark.parametrize("name", CLUSTERS)
def test_cluster_is_reachable_from_inside_and_outside(name: str) -> None:
    environment, ports = CLUSTERS[name]["environment"], CLUSTERS[name]["ports"]
    advertised = dict(one.split("://") for one in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    bound = dict(one.split("://:") for one in environment["KAFKA_LISTENERS"].split(","))
    assert advertised["INSIDE"] == f"{name}:{bound['INSIDE']}"
    assert ports == [f"127.0.0.1:{advertised['OUTSIDE'].split(':')[1]}:{bound['OUTSIDE']}"]
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].endswith(f":{bound['CONTROLLER']}")
    assert set(environment["KAFKA_PROCESS_ROLES"].split(",")) == {"broker", "controller"}


def test_cluster_ids_are_different() -> None:
    ids = [service["environment"]["CLUSTER_ID"] for service in CLUSTERS.values()]
    assert len(set(ids)) == len(ids)
    assert [len(base64.urlsafe_b64decode(one + "==")) for one in ids] == [16, 16]  # a UUID, as Kafka writes it


def test_prometheus_scrapes_every_node() -> None:
    (job,) = read_yaml(MONITORING / "prometheus.yml")["scrape_configs"]
    assert set(job["static_configs"][0]["targets"]) == {f"{name}:8083" for name in NODES}
    properties = javaproperties.loads((COMPOSE / "mm2.properties").read_text("utf-8"))
    assert properties["listeners"] == "http://0.0.0.0:8083"
