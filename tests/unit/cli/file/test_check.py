from __future__ import annotations

import json
from pathlib import Path

import pytest

from mm2.cli.file.check import check

GOOD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def test_json_of_a_valid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD + "ssl.key.passwort = sesame\n")
    assert check(file, json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    (problem,) = answer.pop("problems")
    assert answer == {
        "file": str(file),
        "ok": True,
        "errors": 0,
        "warnings": 1,
        "flows": [
            {"flow": "A->B", "enabled": True, "heartbeats": True},
            {"flow": "B->A", "enabled": False, "heartbeats": True},
        ],
    }
    assert problem["fix"] == "did you mean ssl.key.password?"
    assert {name: problem[name] for name in ("file", "line", "severity", "key", "value")} == {
        "file": str(file),
        "line": 5,
        "severity": "warning",
        "key": "ssl.key.passwort",
        "value": "[hidden]",
    }


def test_json_of_an_invalid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    assert check(file, json=True) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["errors"], answer["flows"]) == (False, 1, [])
    (problem,) = answer["problems"]
    assert (problem["line"], problem["severity"], problem["key"]) == (None, "error", None)
    assert problem["message"] == "does not exist"


def test_the_last_line_without_an_enabled_flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD.replace("enabled", "enabeld"))
    assert check(file) == 0
    out = capsys.readouterr().out
    assert out.count("warning:") == 1  # not also that no flow is enabled
    assert out.endswith("ok: no flow is enabled; heartbeats only: A->B, B->A (1 warning)\n")


def test_clusters_without_a_flow_are_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD)
    assert check(file, clusters=("Z",)) == 2
    assert capsys.readouterr().out == (
        f"{file}: error: --clusters: no flow replicates to Z\n"
        "    fix: use one of the targets: B, A\n"
        f"{file}: 1 error, 0 warnings\n"
    )
