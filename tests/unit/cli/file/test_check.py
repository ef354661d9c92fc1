from __future__ import annotations

import json
from pathlib import Path

import pytest

from mm2.cli.file.check import check

GOOD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def test_json_of_a_valid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD + "ssl.key.passwort = sesame\nmm2.unknown.keys = warn\n")
    assert check(file, json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    (problem,) = answer.pop("problems")
    assert answer == {
        "file": str(file),
        "ok": True,
        "errors": 0,
        "warnings": 1,
        "flows": [
            {"flow": "A->B", "enabled": True, "heartbeats": True, "queries": []},
            {"flow": "B->A", "enabled": False, "heartbeats": True, "queries": []},
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


def test_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        GOOD + "A->B.mm2.sql.mask.topics = orders.*, pay\n"
        "A->B.mm2.sql.mask.query = SELECT upper(CAST(value AS STRING)) AS value FROM records WHERE offset > 3\n"
        "A->B.mm2.sql.own.topics = users\nA->B.mm2.sql.own.transform = my.module:users\n"
    )
    assert check(file) == 0
    assert capsys.readouterr().out == "ok: A->B (SQL: mask, own), B->A (heartbeats only)\n"
    assert check(file, json=True) == 0
    mask, own = json.loads(capsys.readouterr().out)["flows"][0]["queries"]
    assert len(mask.pop("sha256")) == 64
    assert mask == {
        "name": "mask",
        "topics": ["orders.*", "pay"],
        "sets": ["value"],
        "drops": True,
        "transform": None,
    }
    assert own == {
        "name": "own",
        "topics": ["users"],
        "sets": None,
        "drops": None,
        "sha256": None,
        "transform": "my.module:users",
    }


def test_place_of_an_error_in_a_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD + "mm2.sql.x.topics = a\nmm2.sql.x.query = SELECT vlaue AS key FROM records\n")
    assert check(file) == 2
    assert capsys.readouterr().out == (
        f"{file}:6: error: mm2.sql.x.query: column 26: records has no column vlaue\n"
        "    mm2.sql.x.query = SELECT vlaue AS key FROM records\n"
        "                             ^\n"
        "    fix: did you mean value?\n"
        f"{file}: 1 error, 0 warnings\n"
    )
    assert check(file, json=True) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["line"], problem["column"]) == (6, 26)
    assert problem["value"] == "SELECT vlaue AS key FROM records"


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
    file.write_text(GOOD.replace("enabled", "enabeld") + "mm2.unknown.keys = warn\n")
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


def test_a_secret_that_everyone_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"{GOOD}mm2.rest.admin.token = 0123456789abcdef\n")
    for mode, warnings in ((0o644, 1), (0o600, 0)):
        file.chmod(mode)
        assert check(file) == 0
        assert capsys.readouterr().out.count("every user of this machine can read it") == warnings
