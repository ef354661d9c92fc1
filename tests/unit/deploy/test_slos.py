"""The rules of docs/how-to/slos.md are valid, and use metrics that a node exposes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.commands import ROOT
from tests.lab.tools import command
from tests.unit.deploy.queries import Exposed, exposed, objections

PAGE = ROOT / "docs/how-to/slos.md"
RULES = re.compile(r"^```yaml\n(?P<rules>.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE_METRIC = re.compile(r"`(mm2_\w+)")
HISTOGRAM = "_count"


def rules_text() -> str:
    (found,) = RULES.findall(PAGE.read_text("utf-8"))
    return str(found)


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(rules_text())["groups"] for rule in group["rules"]]


def known() -> Exposed:
    """Return what nodes expose, and what the recording rules before an alert record."""
    flow = {"source": {"A"}, "target": {"B"}}
    return {**exposed(), **{rule["record"]: flow for rule in rules() if "record" in rule}}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("record") or rule["alert"])
def test_rules_use_exposed_metrics(rule: dict[str, Any]) -> None:
    assert list(objections(rule["expr"], known())) == []


def test_objectives_name_exposed_metrics() -> None:
    names = set(TABLE_METRIC.findall(PAGE.read_text("utf-8")))
    assert {name for name in names if name not in exposed() and name + HISTOGRAM not in exposed()} == set()
    assert len(names) > 5


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_rules_and_burns_the_budget(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text())
    series = {
        'mm2_flow_unreplicated_seconds{instance="n1", source="A", target="B"}': "2x60 90x60",
        'mm2_flow_unreplicated_unknown_partitions{instance="n1", source="A", target="B"}': "0x120",
        'mm2_flow_state{instance="n1", source="A", target="B", enabled="true", state="RUNNING"}': "1x120",
        # one node does not know what is missing of its partitions
        'mm2_flow_unreplicated_seconds{instance="n1", source="C", target="B"}': "2x120",
        'mm2_flow_unreplicated_unknown_partitions{instance="n1", source="C", target="B"}': "0x120",
        'mm2_flow_unreplicated_unknown_partitions{instance="n2", source="C", target="B"}': "0x60 5x60",
        'mm2_flow_state{instance="n1", source="C", target="B", enabled="true", state="RUNNING"}': "1x120",
    }
    firing = 'count by (source) (ALERTS{alertname="MM2RPOBudgetBurns", alertstate="firing"})'
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": "50m", "exp_samples": []},
                    {
                        "expr": firing,
                        "eval_time": "80m",
                        "exp_samples": [
                            {"labels": '{source="A"}', "value": 1},
                            {"labels": '{source="C"}', "value": 1},
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    promtool("check", "rules", str(tmp_path / "rules.yml"))
    promtool("test", "rules", str(tmp_path / "tests.yml"))


def promtool(*arguments: str) -> None:
    completed = subprocess.run([command("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
