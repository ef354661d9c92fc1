"""Files that are rejected because of replication loops. Messages: tests/snapshots/config/bad/loop*.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import Loaded, load
from tests.unit.config.files import loaded

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
BOTH = "B->A.enabled = true\n"


@pytest.mark.parametrize(
    "lines",
    [
        IDENTITY,  # B->A only writes heartbeats
        BOTH,  # names show copies
        BOTH + "replication.policy.separator = _\n",
        BOTH + IDENTITY + "A->B.topics = orders\nB->A.topics = users\n",
        BOTH + IDENTITY + "topics =\n",  # heartbeats are replicated, under other names
        BOTH + IDENTITY + "B->A.topics.exclude = .*\n",
        BOTH + "replication.policy.separator =\n",
    ],
)
def test_files_without_loops_are_accepted(tmp_path: Path, lines: str) -> None:
    assert not [problem for problem in loaded(tmp_path, lines).problems if "originals" in problem.rule]


@pytest.mark.parametrize(
    "lines",
    [
        BOTH + IDENTITY,
        BOTH + f"A->B.{IDENTITY}",  # B->A adds the prefix B., and no flow reads such topics
        BOTH + IDENTITY + "topics = orders.*, users\nB->A.topics = users\n",
        BOTH + "A->B.replication.policy.separator = _\n",
    ],
)
def test_loops_are_rejected(tmp_path: Path, lines: str) -> None:
    (problem,) = loaded(tmp_path, lines).problems
    assert "endless loop" in str(problem)
    assert (problem.line, problem.is_warning) == (4, False)


def test_loop_through_flows_of_other_nodes(tmp_path: Path) -> None:
    def load_for(*clusters: str) -> Loaded:
        return loaded(tmp_path, BOTH + IDENTITY, clusters=clusters)

    assert [problem.line for problem in load_for("B").problems] == [4]
    assert load_for("B").problems == load_for("A").problems == load_for().problems


def test_invalid_flows_are_not_checked(tmp_path: Path) -> None:
    """Their invalid settings are replaced by defaults, so the result would be wrong."""
    (problem,) = loaded(tmp_path, BOTH + IDENTITY + "tasks.max = 0\n").problems
    assert "at least 1" in str(problem)
    elsewhere = loaded(tmp_path, BOTH + IDENTITY + "B->A.tasks.max = 0\n", clusters=("B",))
    assert elsewhere.problems == ()


def test_user_filter_gives_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_loops.py").write_text(
        "class Few:\n    def should_replicate_topic(self, topic):\n        return topic == 'few'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mm2.properties"
    own = BOTH + IDENTITY + "topic.filter.class = acme_loops:Few\n"
    (problem,) = loaded(tmp_path, own).problems
    assert problem.is_warning
    assert "it cannot be determined from acme_loops:Few whether one exists" in str(problem)
    assert load(path).settings is not None
