"""``mm2 heartbeats`` on real brokers: heartbeats of nodes, one of them late, one missing."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mm2.cli.commands import execute, mm2_app
from mm2.core.wire.formats import Heartbeat
from tests.integration.shared_node import exists
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import Outgoing, write
from tests.lab.settings import ONE_COPY

HOUR_MS = 3_600_000


class Site:
    """Three aliases in a chain A->B->C; A and C are one cluster. Heartbeats reach the end; those of B->A are late."""

    def __init__(self, directory: Path, one: KafkaCluster, other: KafkaCluster) -> None:
        self.one, self.other = one, other
        self.a, self.b, self.c = (unique_name(alias) for alias in "ABC")
        self.path = directory / "mm2.properties"
        a, b, c = self.a, self.b, self.c
        self.properties = {
            "clusters": f"{a}, {b}, {c}",
            f"{a}.bootstrap.servers": one.bootstrap,
            f"{b}.bootstrap.servers": other.bootstrap,
            f"{c}.bootstrap.servers": one.bootstrap,
            **ONE_COPY,
            "emit.heartbeats.enabled": "false",
            f"{a}->{b}.enabled": "true",
            f"{b}->{c}.enabled": "true",
            f"{b}->{a}.emit.heartbeats.enabled": "true",
            f"{c}->{b}.emit.heartbeats.enabled": "true",
            f"{c}->{b}.emit.heartbeats.interval.seconds": "60",
        }
        self.save()

    def save(self, **changes: str) -> str:
        self.path.write_text(javaproperties.dumps(self.properties | changes, timestamp=False))
        return str(self.path)

    def beat(self, cluster: KafkaCluster, topic: str, flow: tuple[str, str], age_ms: int) -> None:
        if not exists(cluster, topic):
            cluster.create_topic(topic, config={"cleanup.policy": "compact"})
        at = int(time.time() * 1000) - age_ms
        beats = [Heartbeat(source=flow[0], target=flow[1], timestamp_ms=at - back) for back in (2_000, 1_000, 0)]
        write(cluster.bootstrap, topic, [Outgoing(key=one.key(), value=one.value()) for one in beats])


@pytest.fixture(scope="module")
def site(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("heartbeats"), cluster_a, cluster_b)
    a, b, c = made.a, made.b, made.c
    made.beat(cluster_a, "heartbeats", (b, a), HOUR_MS)
    made.beat(cluster_b, f"{a}.heartbeats", (b, a), HOUR_MS)
    made.beat(cluster_b, "heartbeats", (c, b), 30_000)
    made.beat(cluster_a, f"{b}.{a}.heartbeats", (b, a), HOUR_MS)
    write(cluster_b.bootstrap, f"{a}.heartbeats", [Outgoing(key=b"\x00", value=b"no heartbeat")])
    return made


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    """Run the command. Return exit code, clusters of the JSON output by name, and standard error."""
    code = execute(mm2_app(), ["heartbeats", *words, "--json"])
    captured = capsys.readouterr()
    return (
        code,
        {one["cluster"]: one for one in json.loads(captured.out)["clusters"]} if captured.out else {},
        captured.err,
    )


def of(cluster: dict[str, Any], topic: str, flow: tuple[str, str]) -> dict[str, Any]:
    """Return the heartbeats of one flow in one topic. Other tests write heartbeats to the same clusters."""
    return next(one for one in cluster["heartbeats"] if (one["topic"], one["source"], one["target"]) == (topic, *flow))


def test_arriving_late_and_missing_heartbeats(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = site.a, site.b, site.c
    code, clusters, err = shown(capsys, str(site.path))
    assert (code, err) == (0, "")
    local = of(clusters[b], "heartbeats", (c, b))
    assert (local["state"], local["hops"], local["path"]) == ("on time", 0, [b])  # its interval is a minute
    assert 30 <= local["age_seconds"] < 180
    replicated = of(clusters[b], f"{a}.heartbeats", (b, a))
    assert (replicated["state"], replicated["hops"], replicated["path"]) == ("late", 1, [a, b])
    assert 3_600 <= replicated["age_seconds"] < 4_000
    twice = of(clusters[c], f"{b}.{a}.heartbeats", (b, a))
    assert (twice["state"], twice["path"]) == ("late", [a, b, c])
    missing = of(clusters[c], f"{b}.heartbeats", (c, b))
    assert (missing["state"], missing["age_seconds"]) == ("missing", None)


def test_upstream_clusters(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = site.a, site.b, site.c
    _, clusters, _ = shown(capsys, str(site.path), "--cluster", c)
    assert list(clusters) == [c]
    ours = [one for one in clusters[c]["upstream"] if one["cluster"] in (a, b, c)]
    assert ours == [
        {"cluster": a, "hops": 2, "path": [a, b, c]},
        {"cluster": b, "hops": 1, "path": [b, c]},
    ]


def test_table_output(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), ["heartbeats", str(site.path), "--cluster", site.b]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith(f"{site.b} upstream: ")
    assert f"{site.a} (1 hop)" in lines[0]
    (line,) = (line for line in lines if line.startswith(f"{site.a}.heartbeats"))
    wanted = f"{site.a}.heartbeats {site.b}->{site.a} {site.a}->{site.b} 1 6\\d min ago late"  # written an hour ago
    assert re.fullmatch(wanted, line)


def test_unreachable_cluster_is_reported_and_others_are_shown(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    port = reserve_port()
    try:
        file = site.save(**{f"{site.b}.bootstrap.servers": f"{HOST}:{port}"})
        code, clusters, err = shown(capsys, file)
        alone, _, last = shown(capsys, file, "--cluster", site.b)
    finally:
        release_port(port)
        site.save()
    assert code == 0
    assert err.startswith(f"mm2 heartbeats: cluster {site.b} is unreachable: ")
    assert err.count("\n") == 1
    assert (clusters[site.b]["answered"], clusters[site.b]["heartbeats"]) == (False, [])
    assert of(clusters[site.a], "heartbeats", (site.b, site.a))["state"] == "late"
    assert alone == 1
    assert last.endswith("\nmm2 heartbeats: no cluster is reachable, so heartbeats are unknown\n")


def test_cluster_missing_in_the_file(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, str(site.path), "--cluster", "Z")
    assert code == 2
    assert err.startswith("mm2 heartbeats: no cluster 'Z' with flows. Clusters of the file: ")
