"""Keys that look like one that selects or protects data. Messages: tests/snapshots/config/bad/near-misses.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.checks.near_misses import Purpose, missed_purpose, purpose_of
from mm2.config.load import load_file
from tests.unit.config.files import CLUSTERS, loaded


@pytest.mark.parametrize(
    ("key", "purpose"),
    [
        ("topics", Purpose.SELECTS),
        ("groups.blacklist", Purpose.SELECTS),
        ("enabled", Purpose.ENABLES),
        ("mm2.sql.mask.query", Purpose.TRANSFORMS),
        ("security.protocol", Purpose.PROTECTS),
        ("source.consumer.ssl.truststore.location", Purpose.PROTECTS),
        ("source.cluster.sasl.mechanism", Purpose.PROTECTS),
        ("producer.override.sasl.jaas.config", Purpose.PROTECTS),
        ("ssl.client.auth", None),
        ("tasks.max", None),
        ("sync.topic.configs.enabled", None),
        ("config.properties.exclude", None),
    ],
)
def test_what_a_key_is_for(key: str, purpose: Purpose | None) -> None:
    assert purpose_of(key) is purpose


@pytest.mark.parametrize(
    ("key", "meant", "purpose"),
    [
        ("tpoics", "topics", Purpose.SELECTS),
        ("task.max", "tasks.max", None),
        ("sasl.enabled.mechanisms", "sasl.mechanism", None),
        ("ssl.whatever", None, Purpose.PROTECTS),
        ("kafka.security.protocol", None, Purpose.PROTECTS),
        ("source.topics", None, Purpose.SELECTS),
        ("acme.topics", None, None),
        ("topics.to.skip", None, Purpose.SELECTS),
        ("query.mask", None, Purpose.TRANSFORMS),
        ("sql.mask", None, Purpose.TRANSFORMS),
        ("topic.creation.groups", None, None),
        ("completely.different", None, None),
    ],
)
def test_what_an_unknown_key_was_to_be_for(key: str, meant: str | None, purpose: Purpose | None) -> None:
    assert missed_purpose(key, meant) is purpose


@pytest.mark.parametrize(
    "lines",
    [
        "A->B.topic.filter.class = tests.unit.config.checks.own_filter:Own\nA->B.topic = x",
        "A.ssl.principal.mapping.rules = DEFAULT",
        "C.bootstrap.servers = c:9092\nC.security.protocol = SSL",
        "C->B.topics = orders",
        "A.security.protocol = PLAINTEXT\nA->B.security.protocol = PLAINTEXT",
        "topics = orders\nA.topics = orders",
        "A->B.task.max = 3",
    ],
)
def test_what_is_only_a_warning(tmp_path: Path, lines: str) -> None:
    problems = [one for one in loaded(tmp_path, f"{lines}\n").problems if "class" not in str(one.key)]
    assert problems
    assert all(problem.is_warning for problem in problems)


def test_another_value_elsewhere_does_not_replace_the_line(tmp_path: Path) -> None:
    result = loaded(tmp_path, "topics = .*\nA.topics = orders\n")
    assert [one.key for one in result.problems if not one.is_warning] == ["A.topics"]


def test_lines_are_accepted_with_their_value(tmp_path: Path) -> None:
    """A line that is changed later has not been that of Java."""
    file = tmp_path / "mm2.properties"
    login = "A.sasl.mechanism = PLAIN\n"
    file.write_text(f"{CLUSTERS}A->B.tpoics = orders\nA->B.mm2.slq.x.query = SELECT 1\n{login}")
    strict, _ = load_file(file)
    assert strict.near_misses == {"A->B.tpoics": "orders", "A.sasl.mechanism": "PLAIN"}
    lenient, _ = load_file(file, accepted=strict.near_misses)
    assert [one.key for one in lenient.problems if not one.is_warning] == ["A->B.mm2.slq.x.query"]
    file.write_text(f"{CLUSTERS}A->B.tpoics = orders, users\n{login}")
    changed, _ = load_file(file, accepted=strict.near_misses)
    assert [one.key for one in changed.problems if not one.is_warning] == ["A->B.tpoics"]
