"""The Kubernetes manifests: references, shutdown, and rendering with kustomize."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import javaproperties
import pytest
import yaml

from mm2.node.engine.engine_process import END_WITHIN_S
from tests.lab.shipped import GUIDE, make_node_certificate
from tests.lab.tools import command
from tests.unit.deploy.shipped import CONTAINER, KUBERNETES, MONITORING, handshake, read_yaml

KUSTOMIZATION = read_yaml(KUBERNETES / "kustomization.yaml")
PAIRS = KUSTOMIZATION["labels"][0]["pairs"]
PROPERTIES = javaproperties.loads((KUBERNETES / "mm2.properties").read_text("utf-8"))


def manifest(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = read_yaml(KUBERNETES / f"{kind.lower()}.yaml")
    assert loaded["kind"] == kind
    return loaded


POD = manifest("StatefulSet")["spec"]["template"]["spec"]
(NODE,) = POD["containers"]


def test_every_manifest_is_listed() -> None:
    here = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(KUSTOMIZATION["resources"]) == here


def test_termination_grace_period_covers_the_drain() -> None:
    drain_s = int(PROPERTIES["task.shutdown.graceful.timeout.ms"]) / 1000
    assert POD["terminationGracePeriodSeconds"] >= drain_s + 2 * END_WITHIN_S


def test_liveness_and_readiness_probes() -> None:
    """/health is 503 on all nodes while a cluster is unavailable; a restart would not help, and an update can.

    See docs/how-to/deploying.md.
    """
    for probe in ("startupProbe", "livenessProbe"):
        assert NODE[probe]["httpGet"] == {"path": "/health/live", "port": "rest", "scheme": "HTTPS"}
    assert NODE["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "rest", "scheme": "HTTPS"}
    assert manifest("StatefulSet")["spec"]["minReadySeconds"] > 0
    assert manifest("Service")["spec"]["publishNotReadyAddresses"] is True


def test_container_port_is_the_listener_port() -> None:
    (port,) = NODE["ports"]
    assert PROPERTIES["listeners"].endswith(f":{port['containerPort']}")
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert manifest("NetworkPolicy")["spec"]["ingress"][0]["ports"] == [{"port": port["name"]}]


def test_nodes_connect_only_to_what_they_need() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (monitoring_or_nodes,) = policy["ingress"]
    dns, nodes, brokers = policy["egress"]
    assert [one["port"] for one in dns["ports"]] == [53, 53]
    assert nodes["ports"] == monitoring_or_nodes["ports"]
    assert nodes["to"] == monitoring_or_nodes["from"][:1]
    ports = {int(PROPERTIES[f"{alias}.bootstrap.servers"].rpartition(":")[2]) for alias in "AB"}
    assert {one["port"] for one in brokers["ports"]} == ports


def test_the_certificate_of_the_guide_is_for_all_pods(tmp_path: Path) -> None:
    set_ = manifest("StatefulSet")
    pods = [f"{set_['metadata']['name']}-{number}.mm2" for number in range(set_["spec"]["replicas"])]
    (names,) = re.findall(r"^    (NAMES=.*mm2-0\.mm2.*)$", GUIDE.read_text("utf-8"), re.MULTILINE)
    make_node_certificate(tmp_path, names)
    for name in (*pods, "localhost", "127.0.0.1"):
        handshake(tmp_path, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "mm2-9.mm2")


def test_prometheus_verifies_the_certificate() -> None:
    (job,) = read_yaml(MONITORING / "prometheus-kubernetes.yml")["scrape_configs"]
    assert job["scheme"] == PROPERTIES["listeners"].partition(":")[0] == "https"
    assert job["tls_config"]["server_name"] == f"{manifest('StatefulSet')['metadata']['name']}-0.mm2"
    assert job["tls_config"]["ca_file"].endswith(PROPERTIES["listeners.https.ssl.truststore.location"][-11:])


def test_pod_runs_as_the_unprivileged_user_of_the_image() -> None:
    found = re.search(r"^USER (\d+):(\d+)$", (CONTAINER / "Containerfile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(found[1]), int(found[2]))
    assert context["runAsNonRoot"] is True
    assert NODE["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "/tmp" in {mount["mountPath"] for mount in NODE["volumeMounts"]}


def test_every_referenced_secret_is_mounted() -> None:
    mounted = {mount["name"]: mount["mountPath"] for mount in NODE["volumeMounts"]}
    (volume,) = [one for one in POD["volumes"] if "secret" in one]
    secret = read_yaml(KUBERNETES / "secret.example.yaml")
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    where = mounted[volume["name"]]
    text = (KUBERNETES / "mm2.properties").read_text("utf-8")
    asked = set(re.findall(rf"\$\{{dir:{where}:([^}}]+)\}}", text)) | set(re.findall(rf"{where}/(\S+)", text))
    assert asked == set(secret["stringData"])
    assert set(re.findall(r"\$\{env:([^}]+)\}", text)) <= {variable["name"] for variable in NODE["env"]}


def test_selectors_match_the_pods() -> None:
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == PAIRS
    assert manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == PAIRS
    (spread,) = POD["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == PAIRS


def test_disruption_budget() -> None:
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert manifest("PodDisruptionBudget")["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert manifest("StatefulSet")["spec"]["replicas"] > 1


@pytest.mark.needs("kustomize")
def test_kustomize_output() -> None:
    completed = subprocess.run(
        [command("kustomize"), "build", str(KUBERNETES)], capture_output=True, text=True, check=False, timeout=60
    )
    assert completed.returncode == 0, completed.stderr
    rendered = {one["kind"]: one for one in yaml.safe_load_all(completed.stdout)}
    assert set(rendered) == {
        "ConfigMap",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
        "StatefulSet",
    }
    text = (KUBERNETES / "mm2.properties").read_text("utf-8")
    assert rendered["ConfigMap"]["data"] == {"mm2.properties": text}
    spec = rendered["StatefulSet"]["spec"]
    assert spec["selector"]["matchLabels"] == rendered["Service"]["spec"]["selector"] == PAIRS
    assert spec["template"]["metadata"]["labels"] == PAIRS
    (config,) = [one for one in spec["template"]["spec"]["volumes"] if "configMap" in one]
    assert (
        config["configMap"]["name"] == rendered["ConfigMap"]["metadata"]["name"] != "mm2"
    )  # a changed file changes the name
