"""The image and Compose: their files exist, fit together, and come from the expected registries."""

from __future__ import annotations

import base64
import importlib.util
import re
import shlex
import ssl
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mm2.config.keys.worker_keys import WorkerSettings
from mm2.node.engine.engine_process import END_WITHIN_S, OLDEST_JAVA
from tests.lab.shipped import IN_COMPOSE, make_compose_certificate, services
from tests.unit.deploy.shipped import COMPOSE, CONTAINER, DEPLOY, MONITORING, handshake, read_yaml, seconds

ROOT = DEPLOY.parent
SERVICES = services()
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
        for mounted in service["volumes"]:
            source = mounted.split(":")[0]
            assert source in volumes or (COMPOSE / source).is_file(), mounted


def test_ports_are_published_once_on_loopback_only() -> None:
    opened = [port for service in SERVICES.values() for port in service.get("ports", ())]
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


def test_prometheus_scrapes_every_node_over_https() -> None:
    (job,) = read_yaml(MONITORING / "prometheus.yml")["scrape_configs"]
    assert set(job["static_configs"][0]["targets"]) == {f"{name}:8083" for name in NODES}
    assert job["scheme"] == "https"
    assert job["tls_config"] == {"ca_file": f"{mount(SERVICES['prometheus'])}/node-ca.pem"}


def mount(service: dict[str, Any]) -> str:
    """Return where the volume of certificates is mounted, for reading."""
    (found,) = [one.split(":") for one in service["volumes"] if one.startswith("certificates:")]
    assert found[2:] == ["ro"]
    return str(found[1])


def test_certificate_is_for_every_node_and_made_once(tmp_path: Path) -> None:
    make_compose_certificate(tmp_path)
    for name in (*NODES, "localhost", "127.0.0.1"):
        handshake(tmp_path, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "node-9")
    made = {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert {name: oct(mode) for name, (_, mode) in made.items()} == {"node.pem": "0o600", "node-ca.pem": "0o644"}
    assert b"PRIVATE KEY" not in made["node-ca.pem"][0]
    make_compose_certificate(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: content for name, (content, _) in made.items()
    }


def test_certificate_is_made_before_it_is_used() -> None:
    """As the user of the image, to which a new volume belongs, because the directory of the image does."""
    maker = SERVICES["certificates"]
    assert maker["volumes"] == [f"certificates:{maker['working_dir']}"]
    assert any(f"install -d -o mm2 -g mm2 {maker['working_dir']}" in line for line in arguments("RUN"))
    assert any(re.search(r"apt-get install .* openssl ", line) for line in arguments("RUN"))
    assert "user" not in maker
    for service in (*NODES.values(), SERVICES["prometheus"]):
        mount(service)
        assert service["depends_on"] == {"certificates": {"condition": "service_completed_successfully"}}


@pytest.mark.parametrize("name", NODES)
def test_nodes_call_each_other_over_https(name: str) -> None:
    """Under their host names, since the file sets no other. tests/contract/test_compose.py does it."""
    properties = javaproperties.loads((COMPOSE / "mm2.properties").read_text("utf-8"))
    assert properties["listeners"] == "https://0.0.0.0:8083"
    assert [key for key in properties if key.startswith("rest.")] == []
    assert NODES[name]["hostname"] == name
    assert mount(NODES[name]) == IN_COMPOSE
