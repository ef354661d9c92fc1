"""Comments behind a value, and switches that Java reads as false."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.core.naming.names import Flow
from tests.unit.config.files import loaded

HALF = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"


@pytest.mark.parametrize("comment", ["# standby", "// standby"])
@pytest.mark.parametrize("switch", ["B->A.enabled", "enabled", "emit.heartbeats.enabled"])
def test_false_with_a_comment_is_false_as_in_java(tmp_path: Path, switch: str, comment: str) -> None:
    result = loaded(tmp_path, f"{switch} = false {comment}\n")
    (problem,) = (one for one in result.problems if "enables every flow" not in one.rule)
    assert problem.is_warning
    assert problem.rule == f"is read as false, as in Java: {comment[:2].strip()} does not start a comment after a value"
    assert problem.fix == f"move the comment to its own line, and write {switch} = false"
    assert result.settings is not None
    enabled = [flow.flow for flow in result.settings.flows if flow.enabled]
    assert enabled == [Flow("A", "B")]


@pytest.mark.parametrize("value", ["falsee", "false;", "false, # off"])
def test_what_starts_with_false_is_false(tmp_path: Path, value: str) -> None:
    (problem,) = loaded(tmp_path, f"B->A.enabled = {value}\n").problems
    assert problem.is_warning
    assert problem.fix.endswith("write B->A.enabled = false")


@pytest.mark.parametrize("comment", ["# on", "// on"])
def test_true_with_a_comment_stays_an_error(tmp_path: Path, comment: str) -> None:
    """Java would copy nothing, without a word."""
    path = tmp_path / "mm2.properties"
    path.write_text(f"{HALF}A->B.enabled = true {comment}\n")
    (problem,) = (one for one in load(path).problems if not one.is_warning)
    assert problem.fix == "move the comment to its own line, and write A->B.enabled = true"


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("on", "write sync.topic.acls.enabled = true, or remove the line to use the default (true)"),
        ("off", "write sync.topic.acls.enabled = false"),
        ("flase", "write sync.topic.acls.enabled = false"),
        ("no # never", "move the comment to its own line, and write sync.topic.acls.enabled = false"),
        ("7", "write sync.topic.acls.enabled = true or sync.topic.acls.enabled = false"),
    ],
)
def test_the_fix_of_a_switch_never_proposes_the_opposite(tmp_path: Path, value: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"sync.topic.acls.enabled = {value}\n").problems
    assert problem.fix == fix


@pytest.mark.parametrize("comment", ["# all but pii", "// all but pii"])
def test_the_list_without_its_comment_is_written_with_its_backslashes(tmp_path: Path, comment: str) -> None:
    (problem,) = loaded(tmp_path, f"topics.exclude = pii\\\\..* {comment}\n").problems
    assert problem.fix == r"move the comment to its own line, and write topics.exclude = pii\\..*"
