"""Alerts, dashboard and scrape configuration: every query uses metrics that a node exposes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.prometheus_rule import prometheus_rule
from tests.lab.tools import command
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
    """Return each query with its panel's title, with Grafana's own variables replaced by values."""
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
def test_invalid_queries_are_detected(query: str, objection: str) -> None:
    assert list(objections(query, exposed())) == [objection]


@pytest.mark.parametrize("name", ALERTS)
def test_alerts_use_exposed_metrics(name: str) -> None:
    assert list(objections(ALERTS[name]["expr"], exposed())) == []


@pytest.mark.parametrize("name", ALERTS)
def test_alerts_have_a_summary_and_a_description(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    summary, description = rule["annotations"]["summary"], rule["annotations"]["description"]
    assert description.endswith(".")
    kept = asked(rule["expr"]).labels | {"instance"}  # an alert has the labels that its query groups by
    assert set(PLACEHOLDER.findall(summary + description)) <= kept


@pytest.mark.parametrize("name", ALERTS)
def test_alerts_link_to_their_runbook(name: str) -> None:
    annotations = ALERTS[name]["annotations"]
    assert set(annotations) == {"runbook_url", "summary", "description"}
    assert (MONITORING.parents[1] / annotations["runbook_url"]).is_file()


def test_critical_metrics_have_an_alert() -> None:
    watched = {metric for rule in ALERTS.values() for metric, _ in asked(rule["expr"]).selectors}
    assert watched >= {
        "up",
        "mm2_flow_state",
        "mm2_source_dead_letters_total",
        "mm2_cluster_reachable",
        "mm2_flow_paused_since_seconds",
        "mm2_flow_partitions",
        "mm2_flow_topics",
        "mm2_task_state",
        "mm2_flow_assignment",
        "mm2_flow_nodes",
        "mm2_node_is_leader",
        "mm2_source_lag_seconds",
        "mm2_source_unaccepted_losses",
        "mm2_flow_config_differs",
        "mm2_flow_topics_left_selection",
        "mm2_heartbeats_total",
        "mm2_checkpoint_latency_seconds_count",
    }


@pytest.mark.parametrize("query", [pytest.param(query, id=title) for title, query in dashboard_queries()])
def test_panels_use_exposed_metrics(query: str) -> None:
    assert list(objections(query, exposed())) == []


def test_panels_show_no_number_where_nothing_was_measured() -> None:
    assert [title for title, query in dashboard_queries() if "vector(" in query] == []


@pytest.mark.needs("promtool")
def test_counts_are_0_only_if_a_node_answers(tmp_path: Path) -> None:
    """While nodes answer at first, with one flow of two that runs, and then none does."""
    queries: dict[str, str] = dict(dashboard_queries())
    flow = 'source="A", target="B", enabled="true"'
    series = {
        f'mm2_flow_state{{instance="n1", {flow}, state="RUNNING"}}': "1x10 stale",
        f'mm2_flow_state{{instance="n2", {flow}, state="RUNNING"}}': "0x10 stale",
        f'mm2_flow_state{{instance="n1", {flow.replace("A", "C")}, state="RUNNING"}}': "0x10 stale",
        'up{job="mm2", instance="n1"}': "1x10 0x30",
    }
    answers = {"Flows not running": 1, "Records lost": 0, "Nodes that respond": 1}
    expected = [
        {
            "expr": variables_replaced(queries[title]),
            "eval_time": "5m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for title, value in answers.items()
    ]
    expected += [
        {"expr": variables_replaced(queries[title]), "eval_time": "30m", "exp_samples": []}
        for title in ("Flows not running", "Records lost")
    ]
    tests = {
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": expected,
            }
        ]
    }
    (tmp_path / "panels.yml").write_text(yaml.safe_dump(tests))
    run_promtool("test", "rules", str(tmp_path / "panels.yml"))


def variables_replaced(query: str) -> str:
    return re.sub(r"\$(source|target)", ".*", query)


def test_dashboard_shows_every_metric() -> None:
    shown = {metric for _, query in dashboard_queries() for metric, _ in asked(query).selectors}
    not_for_people = {"mm2_node_info", "mm2_flow_topics"}  # its partitions are shown, and failed topics are an alert
    buckets = {metric for metric in exposed() if metric.endswith("_bucket")}  # quantiles need neither sum nor count
    unneeded = {metric.removesuffix("bucket") + part for metric in buckets for part in ("sum", "count")}
    assert set(exposed()) - shown - unneeded == not_for_people


def test_dashboard_layout_and_variables() -> None:
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
def test_scrape_job_name_equals_that_of_the_queries(name: str) -> None:
    config = read_yaml(MONITORING / name)
    (job,) = config["scrape_configs"]
    queries = [*(query for _, query in dashboard_queries()), *(rule["expr"] for rule in ALERTS.values())]
    asked_for = [matcher for query in queries for _, matchers in asked(query).selectors for matcher in matchers]
    assert {value for label, _, value in asked_for if label == "job"} == {job["job_name"]}
    assert [(MONITORING / file).name for file in config["rule_files"]] == ["alerts.yml"]


def test_prometheus_discovers_the_pods() -> None:
    (job,) = read_yaml(MONITORING / "prometheus-kubernetes.yml")["scrape_configs"]
    kept = {
        tuple(rule["source_labels"]): rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"
    }
    labels = read_yaml(KUBERNETES / "kustomization.yaml")["labels"][0]["pairs"]
    assert kept["__meta_kubernetes_pod_label_app_kubernetes_io_name",] == labels["app.kubernetes.io/name"]
    (container,) = read_yaml(KUBERNETES / "statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    assert kept["__meta_kubernetes_pod_container_port_name",] in {port["name"] for port in container["ports"]}


def test_grafana_provisioning() -> None:
    (source,) = read_yaml(COMPOSE / "grafana" / "datasources.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == read_yaml(MONITORING / "prometheus.yml")["global"]["scrape_interval"]
    (provider,) = read_yaml(COMPOSE / "grafana" / "dashboards.yml")["providers"]
    mounts = read_yaml(COMPOSE / "compose.yaml")["services"]["grafana"]["volumes"]
    assert f"../monitoring/dashboard.json:{provider['options']['path']}/mm2.json:ro" in mounts


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_configuration() -> None:
    run_promtool("check", "config", str(MONITORING / "prometheus.yml"))


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("file", ["alerts_test.yml", "alerts_of_days_test.yml"])
def test_alert_rules_with_promtool(file: str) -> None:
    run_promtool("test", "rules", str(HERE / file))


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_configuration_for_kubernetes(tmp_path: Path) -> None:
    """Without service discovery: Debian's promtool is built without support for Kubernetes."""
    config = read_yaml(MONITORING / "prometheus-kubernetes.yml")
    for job in config["scrape_configs"]:
        (discovery,) = job.pop("kubernetes_sd_configs")
        assert discovery["role"] == "pod"
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    copied = tmp_path / "prometheus.yml"
    copied.write_text(yaml.safe_dump(config))
    run_promtool("check", "config", str(copied))


def run_promtool(*arguments: str) -> None:
    completed = subprocess.run([command("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_the_prometheus_rule_has_the_alert_rules() -> None:
    rules = (MONITORING / "alerts.yml").read_text("utf-8")
    assert (MONITORING / "prometheusrule.yaml").read_text("utf-8") == prometheus_rule(rules), "run make docs"
    assert read_yaml(MONITORING / "prometheusrule.yaml")["spec"] == read_yaml(MONITORING / "alerts.yml")


def test_the_pod_monitor_selects_the_pods_and_their_job() -> None:
    spec = read_yaml(MONITORING / "podmonitor.yaml")["spec"]
    labels = read_yaml(KUBERNETES / "kustomization.yaml")["labels"][0]["pairs"]
    assert spec["selector"]["matchLabels"] == labels
    (job,) = read_yaml(MONITORING / "prometheus-kubernetes.yml")["scrape_configs"]
    assert labels[spec["jobLabel"]] == job["job_name"]
    (endpoint,) = spec["podMetricsEndpoints"]
    (container,) = read_yaml(KUBERNETES / "statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert endpoint["tlsConfig"]["serverName"] == job["tls_config"]["server_name"]
    secret, ca = read_yaml(KUBERNETES / "secret.example.yaml"), endpoint["tlsConfig"]["ca"]["secret"]
    assert secret["metadata"]["name"] == ca["name"]
    assert ca["key"] in secret["stringData"]


@pytest.mark.needs("promtool")
def test_alerts_with_the_labels_of_the_pod_monitor() -> None:
    run_promtool("test", "rules", str(HERE / "pod_monitor_test.yml"))


@pytest.mark.needs("kustomize")
def test_kustomize_makes_a_monitor_rules_and_a_dashboard() -> None:
    completed = subprocess.run(
        [command("kustomize"), "build", str(MONITORING)], capture_output=True, text=True, check=False, timeout=60
    )
    assert completed.returncode == 0, completed.stderr
    rendered = {one["kind"]: one for one in yaml.safe_load_all(completed.stdout)}
    assert set(rendered) == {"ConfigMap", "PodMonitor", "PrometheusRule"}
    assert rendered["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(rendered["ConfigMap"]["data"]["dashboard.json"]) == dashboard()
    assert rendered["PodMonitor"]["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": "mm2"}
