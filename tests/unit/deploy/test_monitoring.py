"""Alerts, dashboard and scrape configuration: every query asks for what a node exposes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.deploy.queries import asked, exposed, objections
from tests.unit.deploy.shipped import COMPOSE, KUBERNETES, MONITORING, read_yaml

PLACEHOLDER = re.compile(r"\$labels\.(\w+)")
LABEL_VALUES = re.compile(r"label_values\((?P<query>.+), (?P<label>\w+)\)")
HERE = MONITORING.parents[1] / "tests" / "unit" / "deploy"


def rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(MONITORING / "alerts.yml")["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules()}


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
    return loaded


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Each query with its panel's title, Grafana's own variables replaced by what they become."""
    shown = dashboard()
    found = [(panel["title"], target["expr"]) for panel in shown["panels"] for target in panel.get("targets", ())]
    found += [(note["name"], note["expr"]) for note in shown["annotations"]["list"]]
    return ((title, query.replace("$__rate_interval", "1m")) for title, query in found)


@pytest.mark.parametrize(
    ("query", "objection"),
    [
        ("rate(mm2_source_record_total[5m])", "there is no metric mm2_source_record_total"),
        ('mm2_task_state{status="FAILED"}', "mm2_task_state has no label status"),
        ('mm2_task_state{state=~"RUNNING|BROKEN"}', "mm2_task_state is never state=BROKEN"),
        ("sum by (topic) (mm2_heartbeats_total)", "nothing in it has a label topic"),
        ("mm2_heartbeats_total unless on (flow) up", "nothing in it has a label flow"),
    ],
)
def test_a_wrong_query_is_noticed(query: str, objection: str) -> None:
    assert list(objections(query, exposed())) == [objection]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_for_what_nodes_expose(name: str) -> None:
    assert list(objections(ALERTS[name]["expr"], exposed())) == []


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    summary, description = rule["annotations"]["summary"], rule["annotations"]["description"]
    assert description.endswith(".")
    kept = asked(rule["expr"]).labels | {"instance"}  # an alert has the labels that its query groups by
    assert set(PLACEHOLDER.findall(summary + description)) <= kept


def test_what_has_to_be_watched_has_an_alert() -> None:
    watched = {metric for rule in ALERTS.values() for metric, _ in asked(rule["expr"]).selectors}
    assert watched >= {
        "up",
        "mm2_flow_state",
        "mm2_flow_partitions",
        "mm2_flow_topics",
        "mm2_task_state",
        "mm2_flow_coverage",
        "mm2_source_lag_seconds",
        "mm2_source_lost_records_total",
        "mm2_heartbeats_total",
        "mm2_checkpoint_latency_seconds_count",
    }


@pytest.mark.parametrize("query", [pytest.param(query, id=title) for title, query in dashboard_queries()])
def test_a_panel_asks_for_what_nodes_expose(query: str) -> None:
    assert list(objections(query, exposed())) == []


def test_the_dashboard_shows_every_metric_of_a_node() -> None:
    shown = {metric for _, query in dashboard_queries() for metric, _ in asked(query).selectors}
    not_for_people = {"mm2_node_info", "mm2_flow_topics"}  # its partitions are shown, and failed topics are an alert
    assert set(exposed()) - shown == not_for_people


def test_the_dashboard_hangs_together() -> None:
    shown = dashboard()
    variables = {one["name"] for one in shown["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(shown))) - {"__rate_interval", "__all"} <= variables
    for variable in shown["templating"]["list"]:
        if variable["type"] == "query":
            asks = LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert asks is not None
            assert list(objections(f"count by ({asks['label']}) ({asks['query']})", exposed())) == []
    numbers = [panel["id"] for panel in shown["panels"]]
    assert len(set(numbers)) == len(numbers)
    covered: set[tuple[int, int]] = set()
    for panel in shown["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24  # Grafana's columns
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & covered, f"{panel['title']} covers another panel"
        covered |= cells


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_prometheus_scrapes_under_the_name_that_queries_use(name: str) -> None:
    config = read_yaml(MONITORING / name)
    (job,) = config["scrape_configs"]
    queries = [*(query for _, query in dashboard_queries()), *(rule["expr"] for rule in ALERTS.values())]
    asked_for = [matcher for query in queries for _, matchers in asked(query).selectors for matcher in matchers]
    assert {value for label, _, value in asked_for if label == "job"} == {job["job_name"]}
    assert [(MONITORING / file).name for file in config["rule_files"]] == ["alerts.yml"]


def test_prometheus_finds_the_pods() -> None:
    (job,) = read_yaml(MONITORING / "prometheus-kubernetes.yml")["scrape_configs"]
    kept = {
        tuple(rule["source_labels"]): rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"
    }
    labels = read_yaml(KUBERNETES / "kustomization.yaml")["labels"][0]["pairs"]
    assert kept["__meta_kubernetes_pod_label_app_kubernetes_io_name",] == labels["app.kubernetes.io/name"]
    (container,) = read_yaml(KUBERNETES / "statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    assert kept["__meta_kubernetes_pod_container_port_name",] in {port["name"] for port in container["ports"]}


def test_grafana_gets_the_data_source_and_the_dashboard() -> None:
    (source,) = read_yaml(COMPOSE / "grafana" / "datasources.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == read_yaml(MONITORING / "prometheus.yml")["global"]["scrape_interval"]
    (provider,) = read_yaml(COMPOSE / "grafana" / "dashboards.yml")["providers"]
    mounts = read_yaml(COMPOSE / "compose.yaml")["services"]["grafana"]["volumes"]
    assert f"../monitoring/dashboard.json:{provider['options']['path']}/mm2.json:ro" in mounts


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed; it comes with Prometheus")
    return found


def test_promtool_takes_the_configuration(promtool: str) -> None:
    run_promtool(promtool, "check", "config", str(MONITORING / "prometheus.yml"))


def test_the_alerts_fire_when_they_should_and_not_otherwise(promtool: str) -> None:
    run_promtool(promtool, "test", "rules", str(HERE / "alerts_test.yml"))


def test_promtool_takes_the_configuration_for_kubernetes(promtool: str) -> None:
    said = subprocess.run(
        [promtool, "check", "config", str(MONITORING / "prometheus-kubernetes.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    if "field kubernetes_sd_configs not found" in said.stdout + said.stderr:
        pytest.skip("this promtool was built without service discovery for Kubernetes, as Debian's is")
    assert said.returncode == 0, said.stdout + said.stderr


def run_promtool(promtool: str, *arguments: str) -> None:
    said = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
