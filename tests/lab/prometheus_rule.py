"""``python -m tests.lab.prometheus_rule``: writes the alert rules as a PrometheusRule of the Prometheus operator."""

from __future__ import annotations

from tests.lab.commands import ROOT

RULES = ROOT / "deploy/monitoring/alerts.yml"
RESOURCE = ROOT / "deploy/monitoring/prometheusrule.yaml"
_HEAD = """\
# The alert rules of alerts.yml for the Prometheus operator, written by make docs.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: mm2
spec:
"""


def prometheus_rule(rules: str) -> str:
    """Return the resource with these rules, the text of a file of rules."""
    groups = rules[rules.index("groups:\n") :]
    return _HEAD + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True))


if __name__ == "__main__":
    RESOURCE.write_text(prometheus_rule(RULES.read_text("utf-8")), encoding="utf-8")
