"""Which files are refused for flows that go round. The words: tests/golden/config/bad/loop*.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.config.settings import Loaded
from tests.unit.config.files import loaded

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
BOTH = "B->A.enabled = true\n"


@pytest.mark.parametrize(
    "lines",
    [
        IDENTITY,  # B->A only writes heartbeats
        BOTH,  # names tell copies
        BOTH + "replication.policy.separator = _\n",
        BOTH + IDENTITY + "A->B.topics = orders\nB->A.topics = users\n",
        BOTH + IDENTITY + "topics =\n",  # heartbeats go along, under other names
        BOTH + IDENTITY + "B->A.topics.exclude = .*\n",
        BOTH + "replication.policy.separator =\n",
    ],
)
def test_safe_files_are_taken(tmp_path: Path, lines: str) -> None:
    assert loaded(tmp_path, lines).problems == ()


@pytest.mark.parametrize(
    "lines",
    [
        BOTH + IDENTITY,
        BOTH + f"A->B.{IDENTITY}",  # the way back puts B. in front, which nobody reads
        BOTH + IDENTITY + "topics = orders.*, users\nB->A.topics = users\n",
        BOTH + "A->B.replication.policy.separator = _\n",
    ],
)
def test_loops_are_refused(tmp_path: Path, lines: str) -> None:
    (problem,) = loaded(tmp_path, lines).problems
    assert "round and round" in problem.text
    assert (problem.line, problem.is_warning) == (4, False)


def test_a_loop_over_other_nodes_is_one_too(tmp_path: Path) -> None:
    def told(*clusters: str) -> Loaded:
        return loaded(tmp_path, BOTH + IDENTITY, clusters=clusters)

    assert [problem.line for problem in told("B").problems] == [4]
    assert told("B").problems == told("A").problems == told().problems


def test_a_flow_that_is_wrong_is_not_also_looked_at(tmp_path: Path) -> None:
    """Settings that are replaced by defaults would be judged otherwise."""
    (problem,) = loaded(tmp_path, BOTH + IDENTITY + "tasks.max = 0\n").problems
    assert "at least 1" in problem.text
    elsewhere = loaded(tmp_path, BOTH + IDENTITY + "B->A.tasks.max = 0\n", clusters=("B",))
    assert elsewhere.problems == ()


def test_a_filter_of_the_users_own_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_loops.py").write_text(
        "class Few:\n    def should_replicate_topic(self, topic):\n        return topic == 'few'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mm2.properties"
    own = BOTH + IDENTITY + "topic.filter.class = acme_loops:Few\n"
    (problem,) = loaded(tmp_path, own).problems
    assert problem.is_warning
    assert "acme_loops:Few does not say whether there is one" in problem.text
    assert load(path).settings is not None
