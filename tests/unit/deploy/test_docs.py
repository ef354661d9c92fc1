"""docs/how-to/deploying.md links all shipped files and lists all alerts."""

from __future__ import annotations

import re

from tests.unit.deploy.shipped import COMPOSE, CONTAINER, DEPLOY, KUBERNETES, MONITORING, SYSTEMD, read_yaml

PAGE = DEPLOY.parent / "docs/how-to/deploying.md"
TEXT = PAGE.read_text("utf-8")


def test_every_shipped_file_is_linked() -> None:
    linked = {(PAGE.parent / link).resolve() for link in re.findall(r"\]\((\.\./[^)#]+)\)", TEXT)}
    assert [link for link in linked if not link.exists()] == []
    shipped = {
        file
        for room in (SYSTEMD, CONTAINER, COMPOSE, KUBERNETES, MONITORING)
        for file in room.rglob("*")
        if file.is_file()
    }
    listed = {KUBERNETES / name for name in read_yaml(KUBERNETES / "kustomization.yaml")["resources"]}
    assert shipped - listed <= linked


def test_listed_alerts_equal_the_rules() -> None:
    written = {
        name: severity
        for names, severity in re.findall(r"^\| (`MM2.*?`) \| (\w+) \|", TEXT, re.MULTILINE)
        for name in re.findall(r"MM2\w+", names)
    }
    rules = [rule for group in read_yaml(MONITORING / "alerts.yml")["groups"] for rule in group["rules"]]
    assert written == {rule["alert"]: rule["labels"]["severity"] for rule in rules}
