"""Keys that are unknown or have no effect. Messages: tests/snapshots/config/bad."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.config.checks import key_scopes, unknown_keys
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS
from mm2.config.clients.java_derivation import LEGACY_NAMES
from mm2.config.grammar.properties import Entry
from mm2.config.load import load
from mm2.core.naming.names import Flow
from tests.unit.config.files import CLUSTERS, loaded

ALIASES = ("A", "B", "X")
NAMES = sorted(
    key_scopes.ALONE.candidates
    | key_scopes.under_cluster("B").candidates
    | key_scopes.under_flow(Flow("A", "B")).candidates
    | set(LEGACY_NAMES)
    | {name for reasons in (MISSED, POINTLESS) for names in reasons.values() for name in names}
    | {f"{kind}.{name}" for reasons in (MISSED, POINTLESS) for kind, names in reasons.items() for name in names}
)


WARN = "mm2.unknown.keys = warn\n"


def rule(directory: Path, lines: str) -> str:
    (problem,) = loaded(directory, lines + WARN).problems
    assert problem.is_warning
    return problem.rule


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A->B.topcs = orders", ", so all topics are replicated"),
        ("A->B.topcs = orders\ntopics = users", ""),
        ("A->B.topcs = orders\nB->A.topics = users", ", so all topics are replicated"),
        ("topcs = orders\nA->B.topics = users", ""),
        ("A->B.group = orders", ", so the offsets of all groups are translated"),
        ("A->B.task.max = 4", ", so the default tasks.max = 1 applies"),
        ("A->B.config.propertys.exclude = x", ", so the default of config.properties.exclude applies"),
        ("B->A.enabeld = true", ", so the flow is not enabled"),
        ("A.consumer.fetch.min.byte = 9", ", so the default consumer.fetch.min.bytes = 1 applies"),
        ("A.consumer.fetch.min.byte = 9\nA->B.source.consumer.fetch.min.bytes = 8", ""),
        ("completely.different = 1", ""),
    ],
)
def test_the_consequence_of_an_unknown_key(tmp_path: Path, line: str, expected: str) -> None:
    assert rule(tmp_path, f"{line}\n").replace(" as in Java", "") == f"unknown property, ignored{expected}"


def advised() -> Iterator[tuple[str, str]]:
    for level in ("", "B.", "A->B."):
        for name in NAMES:
            key = level + name
            for finding in unknown_keys.findings({key: _entry(key)}, ALIASES):
                if finding.fix.startswith("write "):
                    yield from ((key, instead) for instead in re.findall(r"\b(?:write|or) ([\w.>-]+)", finding.fix))


def test_suggested_keys_have_an_effect() -> None:
    checked = 0
    for key, instead in advised():
        found = list(unknown_keys.findings({instead: _entry(instead)}, ALIASES))
        assert not found, f"{key}: {found}"
        checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    "key",
    [
        "rest.extension.classes",
        "plugin.path",
        "client.dns.lookup",
        "consumer.client.dns.lookup",
        "A->B.plugin.path",
        "A->B.sasl.oauthbearer.jwks.endpoint.url",
    ],
)
def test_keys_without_any_effect_are_to_be_removed(tmp_path: Path, key: str) -> None:
    (problem,) = loaded(tmp_path, f"{key} = none\n").problems
    assert problem.rule.startswith("has no effect")
    assert problem.fix == "remove the line"


@pytest.mark.parametrize(
    ("line", "level", "instead"),
    [
        ("exactly.once.source.support = enabled", "without a cluster", "B.exactly.once.source.support"),
        ("A->B.exactly.once.source.support = PREPARING", "for a flow", "B.exactly.once.source.support"),
        ("exactly.once.support = required", "without a flow", "A->B.exactly.once.support"),
        ("B.exactly.once.support = required", "for a cluster", "X->B.exactly.once.support"),
    ],
)
def test_exactly_once_at_a_level_where_java_ignores_it(tmp_path: Path, line: str, level: str, instead: str) -> None:
    (problem,) = loaded(tmp_path, f"{line}\n").problems
    assert problem.rule == f"has no effect {level}, as in Java, so it does not make any flow exactly-once"
    assert problem.fix.startswith(f"write {instead} for ")
    assert problem.is_warning == ("required" not in line)


@pytest.mark.parametrize("level", ["", "A.", "B."])
@pytest.mark.parametrize("key", ["transaction.boundary", "transaction.boundary.interval.ms"])
def test_boundaries_are_only_read_for_a_flow(tmp_path: Path, level: str, key: str) -> None:
    (problem,) = loaded(tmp_path, f"{level}{key} = 1\n").problems
    assert problem.rule.startswith("has no effect")
    assert f"->B.{key}" in problem.fix or f"->A.{key}" in problem.fix


@pytest.mark.parametrize("level", ["", "A.", "B.", "A->B."])
def test_the_default_of_exactly_once_is_accepted_at_every_level(tmp_path: Path, level: str) -> None:
    assert loaded(tmp_path, f"{level}exactly.once.source.support = disabled\n").problems == ()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("num.streams = 4", "tasks.max"),
        ("mirror.topics.whitelist = a", "topics"),
        ("A->B.mirror.topics.blacklist = a", "A->B.topics.exclude"),
    ],
)
def test_keys_of_mirror_maker_1(tmp_path: Path, line: str, meant: str) -> None:
    (problem,) = loaded(tmp_path, f"{line}\n").problems
    assert problem.fix.split("\n")[0] == f"did you mean {meant}?"


@pytest.mark.parametrize("key", ["A-B", "A-->B", "A=>B", "A→B", "A ->B", "A -> B", "A\\u2192B", "A \u2013> B"])
def test_other_arrows(tmp_path: Path, key: str) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(CLUSTERS.replace("A->B.enabled", f"{key}.enabled"), "utf-8")
    (problem,) = load(path).problems
    assert problem.rule == "unknown property; ignoring it means that the flow is not enabled"
    assert problem.fix.split("\n")[0] == "did you mean A->B.enabled?"


def test_an_arrow_between_other_aliases_is_no_arrow(tmp_path: Path) -> None:
    assert rule(tmp_path, "A-C.enabled = true\n") == "unknown property, ignored"
    assert rule(tmp_path, "A = > C.enabled\n") == "unknown property, ignored"


def _entry(key: str) -> Entry:
    return Entry(file="f", line=1, key=key, raw="none", value="none")
