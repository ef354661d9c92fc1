from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mm2.config.load import load
from mm2.config.reload.java_config_diff import differences, selection_differences
from tests.golden.vectors import java_vectors

GOLDEN: dict[str, Any] = java_vectors("internal-topics")
FILE = [line.replace(" ", "") for line in GOLDEN["mm2.properties"]]
JAVA: dict[str, str] = next(
    json.loads(record["value"]["text"])["properties"]
    for record in GOLDEN["topics"]["B:mm2-configs.A.internal"]["records"]
    if record["key"]["text"] == "connector-MirrorSourceConnector"
)


def found(directory: Path, *lines: str, java: dict[str, str] = JAVA) -> list[str]:
    """Return the differences from the file that Java ran with, after appending ``lines``."""
    path = directory / "mm2.properties"
    keys = {line.partition("=")[0] for line in lines}
    path.write_text("\n".join([*(line for line in FILE if line.partition("=")[0] not in keys), *lines]))
    settings = load(path, ()).settings
    assert settings is not None
    return [str(one) for one in differences(settings.flows[0], java)]


def test_file_of_java_has_no_differences(tmp_path: Path) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A->B.topics=gold.*,silver", "topics = gold.*, silver (was gold.*)"),
        ("A->B.groups=.*", "groups = .* (was gold.*)"),
        ("sync.group.offsets.enabled=false", "sync.group.offsets.enabled = false (was true)"),
        ("replication.policy.separator=_", "replication.policy.separator = _ (was .)"),
        ("offset-syncs.topic.location=target", "offset-syncs.topic.location = target (was source)"),
        ("A.bootstrap.servers=other:9092", "A.bootstrap.servers = other:9092 (was 127.0.0.1:19092)"),
    ],
)
def test_relevant_differences_are_reported(tmp_path: Path, line: str, expected: str) -> None:
    assert found(tmp_path, line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "tasks.max=7",
        "refresh.topics.interval.seconds=60",
        "A.bootstrap.servers=new:9092,127.0.0.1:19092",
        "sync.group.offsets.enabled=TRUE",
    ],
)
def test_irrelevant_differences_are_not_reported(tmp_path: Path, line: str) -> None:
    assert found(tmp_path, line) == []


def test_references_to_other_files_are_not_compared(tmp_path: Path) -> None:
    java = {**JAVA, "topics": "${file:/etc/mm2/topics:all}", "source.cluster.bootstrap.servers": "${env:A}"}
    assert found(tmp_path, java=java) == []


def test_java_only_settings_are_reported(tmp_path: Path) -> None:
    (expected,) = found(tmp_path, java={**JAVA, "errors.tolerance": "all"})
    assert expected == "errors.tolerance = none (was all)"


def test_values_that_are_invalid_here_are_reported_as_java_stored_them(tmp_path: Path) -> None:
    (expected,) = found(tmp_path, java={**JAVA, "offset-syncs.topic.location": "elsewhere"})
    assert expected == "offset-syncs.topic.location = source (was elsewhere)"


def selected(directory: Path, *lines: str, java: dict[str, str] = JAVA) -> list[str]:
    """Return the differences in selection and protection from the file that Java ran with, after ``lines``."""
    path = directory / "mm2.properties"
    keys = {line.partition("=")[0] for line in lines}
    path.write_text("\n".join([*(line for line in FILE if line.partition("=")[0] not in keys), *lines]))
    settings = load(path, ()).settings
    assert settings is not None, load(path, ()).problems
    return [str(one) for one in selection_differences(settings.flows[0], java)]


def test_selection_as_in_java(tmp_path: Path) -> None:
    warn = "mm2.unknown.keys=warn"
    assert selected(tmp_path, "A->B.tpoics=orders", "A->B.tasks.max=7", warn) == []
    assert selected(tmp_path, "A->B.topics=orders") == [f"topics = orders (was {JAVA['topics']})"]
    (only,) = selected(tmp_path, "A->B.groups.exclude=old")
    assert only.startswith("groups.exclude = old (was ")
    old = {name: text for name, text in JAVA.items() if name != "topics.exclude"} | {"topics.blacklist": "x"}
    (only,) = selected(tmp_path, java=old)
    assert only.endswith("(was x)")


def test_protection_as_in_java(tmp_path: Path) -> None:
    assert selected(tmp_path, "A.security.protocol=SSL") == ["source.cluster.security.protocol = SSL (was PLAINTEXT)"]
    java = JAVA | {"target.cluster.security.protocol": "SSL"}
    assert selected(tmp_path, java=java) == ["target.cluster.security.protocol = PLAINTEXT (was SSL)"]
    assert selected(tmp_path, java=JAVA | {"target.cluster.security.protocol": "${env:X}"}) == []
