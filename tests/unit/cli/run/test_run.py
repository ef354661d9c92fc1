"""What ``mm2 run`` prints before the node starts."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file
from mm2.cli.run.run import run
from mm2.program import node_program
from tests.golden.vectors import java_vectors
from tests.unit.config.files import CLUSTERS

CHANGING = [one["keys"] for one in java_vectors("ignored-keys") if one["differs"] and "transforms" not in one["keys"]]
DONE = 7


@pytest.mark.parametrize("keys", CHANGING, ids=lambda keys: next(iter(keys)))
def test_a_start_warns_of_keys_with_which_java_copies_something_else(
    tmp_path: Path, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same warning as that of ``mm2 check``, and the node runs."""
    monkeypatch.setattr(node_program, "run", lambda _taken, _settings: DONE)
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS + "".join(f"A->B.{key} = {value}\n" for key, value in keys.items()), "utf-8")
    assert run(file) == DONE
    printed = capsys.readouterr().err
    for key in keys:
        assert f"warning: A->B.{key} = " in printed
    checked = StringIO()
    assert check_file(file, (), checked) == 0
    assert printed in checked.getvalue()


NEAR_MISS = "unknown property; ignoring it means that all topics are replicated"


def test_a_near_miss_of_a_key_prevents_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The target, which could say that Java has run the flow, is unreachable."""
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS.replace("b:9092", "127.0.0.1:1") + "A->B.tpoics = orders\nrequest.timeout.ms = 1000\n")
    assert run(file) == 2
    printed = capsys.readouterr().err
    assert f"{file}:5: error: A->B.tpoics = orders: {NEAR_MISS}\n    fix: did you mean A->B.topics?\n" in printed
    assert "errors: it is unknown whether Java MirrorMaker 2 has run A->B: B: " in printed


def test_no_target_is_asked_about_other_errors_or_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    for line in ("tasks.max = 0", "mm2.slq.mask.topics = orders"):
        file.write_text(f"{CLUSTERS}A->B.tpoics = orders\n{line}\n")
        assert run(file) == 2
        assert capsys.readouterr().err.endswith("2 errors, 0 warnings\n")


def test_no_target_is_asked_if_no_flow_is_enabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS.replace("enabled", "enabeld"))
    assert run(file) == 2
    assert capsys.readouterr().err.endswith(" are errors: no flow is enabled\n")
