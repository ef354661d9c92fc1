"""Files, keys, patterns and logins, compared with vectors of Java 4.3.1 (java/ConfigVectors.java)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mm2.config.clients import client_keys
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS, ClientKind
from mm2.config.flows import FlowProperties
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import read_file
from mm2.config.grammar.values import Properties
from mm2.config.keys import connector_keys, declaration, ignored_java_keys, node_keys, worker_keys
from mm2.config.keys.declaration import KeyModel, KeySpec
from mm2.config.load import load, read
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java
from mm2.config.security import jaas, security_keys
from mm2.core.naming.names import Flow
from tests.golden.vectors import java_vectors

FILES = Path(__file__).parent / "config"

KEYS: list[tuple[str, str, str, str | None]] = [tuple(row) for row in java_vectors("config-keys")]
DERIVED: list[dict[str, Any]] = java_vectors("config-derived")
PROPERTIES: list[tuple[str, dict[str, str] | None]] = [tuple(row) for row in java_vectors("properties")]
REGEX: list[tuple[str, list[str] | None]] = [tuple(row) for row in java_vectors("regex")]
JAAS: list[tuple[str, list[Any] | None]] = [tuple(row) for row in java_vectors("jaas")]


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.setenv("MM2_GOLDEN_TASKS", "6")


def specs(*models: type[KeyModel]) -> dict[str, KeySpec]:
    return {spec.name: spec for model in models for spec in declaration.specs(model)}


TYPED: Mapping[str, dict[str, KeySpec]] = {
    "top": specs(node_keys.FileSettings, node_keys.RestSettings, *security_keys.MODELS),
    "source": specs(connector_keys.SourceSettings, *security_keys.MODELS),
    "checkpoint": specs(connector_keys.SourceSettings, connector_keys.CheckpointSettings, *security_keys.MODELS),
    "heartbeat": specs(connector_keys.SourceSettings, connector_keys.HeartbeatSettings, *security_keys.MODELS),
    "worker": specs(client_keys.WorkerClientKeys, worker_keys.WorkerSettings, *security_keys.MODELS),
    "consumer": specs(client_keys.ConsumerKeys, *security_keys.MODELS),
    "producer": specs(client_keys.ProducerKeys, *security_keys.MODELS),
    "admin": specs(client_keys.AdminKeys, *security_keys.MODELS),
    "client": specs(client_keys.ClientKeys, *security_keys.MODELS),
}
NAMED: Mapping[str, set[str]] = {
    "source": set(ignored_java_keys.CONNECTOR),
    "checkpoint": set(ignored_java_keys.CONNECTOR),
    "heartbeat": set(ignored_java_keys.CONNECTOR),
    "worker": set(ignored_java_keys.WORKER),
    **{kind.value: set(POINTLESS[kind]) | set(MISSED[kind]) for kind in ClientKind},
}
OURS = {
    # keys without a default in Java, or where a connector's default differs from the client's
    ("consumer", "auto.offset.reset"): "earliest",
    ("consumer", "client.id"): None,
    ("producer", "client.id"): None,
    ("admin", "client.id"): None,
    ("worker", "client.id"): "",
    ("worker", "group.id"): "",
    ("worker", "config.storage.topic"): "",
    ("worker", "offset.storage.topic"): "",
    ("worker", "status.storage.topic"): "",
    ("producer", "compression.type"): None,
    # set by the program for every flow: the alias of its target
    **{(kind, "target.cluster.alias"): None for kind in ("source", "checkpoint", "heartbeat")},
    # our own default, see docs/reference/configuration.md
    ("top", "listeners"): None,
    ("worker", "offset.flush.interval.ms"): "5000",
    ("worker", "scheduled.rebalance.max.delay.ms"): "0",
    ("worker", "task.shutdown.graceful.timeout.ms"): "10000",
    **{  # the operating system's, which adapts them
        (client, f"{way}.buffer.bytes"): "-1"
        for client in ("worker", "consumer", "producer", "admin")
        for way in ("send", "receive")
    },
    **{(connector, "enabled"): "false" for connector in ("source", "checkpoint", "heartbeat")},
}


def deviation(definition: str, name: str, java_type: str, default: str | None) -> str | None:
    spec = TYPED[definition].get(name)
    if spec is None:
        known = NAMED.get(definition, set()) | security_keys.NAMES | set(security_keys.REFUSED_ALWAYS)
        return None if name in known else "unknown"
    if spec.java_type != ("STRING" if java_type == "PASSWORD" else java_type):
        return f"typed {spec.java_type}"
    expected = OURS.get((definition, name), default)
    same = (spec.default or "").replace(", ", ",") == (expected or "").replace(", ", ",")
    return None if same else f"default {spec.default}, not {expected}"


def test_every_java_key_is_known_with_its_type_and_default() -> None:
    deviations = {(row[0], row[1]): deviation(*row) for row in KEYS}
    assert {key: deviation for key, deviation in deviations.items() if deviation} == {}


def test_keys_declared_as_java_keys_exist_in_java() -> None:
    java = {name for _, name, _, _ in KEYS}
    ours = set(ignored_java_keys.CONNECTOR) | set(ignored_java_keys.WORKER) | security_keys.NAMES
    ours |= {name for kind in ClientKind for name in (*POINTLESS[kind], *MISSED[kind])}
    leaked = {"poll.timeout.ms", "timeout.ms"}
    assert ours - leaked <= java


def name_of(answer: dict[str, Any]) -> str:
    return f"{answer['file']} {answer['flow']}"


def flow_of(answer: dict[str, Any]) -> FlowProperties:
    file = read(Path(answer["file"]), (), ProblemLog(answer["file"]))
    assert file is not None
    return FlowProperties.of(file.properties, Flow.parse(answer["flow"]))


def texts(properties: Properties, *without: str) -> dict[str, str]:
    return {name: value.text for name, value in properties.items() if not name.startswith(without)}


def java_texts(answer: dict[str, str], *without: str) -> dict[str, str]:
    return {name: text for name, text in answer.items() if not name.startswith(without)}


def test_same_flows_as_java() -> None:
    for file in {answer["file"] for answer in DERIVED}:
        found = read(Path(file), (), ProblemLog(file))
        assert found is not None
        assert {str(flow) for flow in found.flows} == {answer["flow"] for answer in DERIVED if answer["file"] == file}


@pytest.mark.parametrize("answer", DERIVED, ids=name_of)
def test_same_worker_properties_as_java(answer: dict[str, Any]) -> None:
    bytes_only = ("key.converter", "value.converter", "header.converter", "config.providers")
    assert texts(flow_of(answer).worker, *bytes_only) == java_texts(answer["worker"], *bytes_only)


@pytest.mark.parametrize(
    "answer", [answer for answer in DERIVED if answer["file"] != "providers.properties"], ids=name_of
)
def test_same_connector_properties_as_java(answer: dict[str, Any]) -> None:
    """Config providers are excluded: Java stores references unresolved and resolves them later."""
    by_name = ("name", "connector.class")
    assert texts(flow_of(answer).connector, *by_name) == java_texts(answer["connector"], *by_name)


@pytest.mark.parametrize("answer", DERIVED, ids=name_of)
@pytest.mark.parametrize("client", [f"{side}_{kind}" for side in ("source", "target") for kind in ClientKind])
def test_same_client_properties_as_java(answer: dict[str, Any], client: str) -> None:
    forced = ("client.id", "enable.auto.commit", "auto.offset.reset")
    assert texts(flow_of(answer).clients[client], *forced) == java_texts(answer[client], *forced)


@pytest.mark.parametrize("answer", DERIVED, ids=name_of)
def test_same_enabled_flows_and_client_ids_as_java(answer: dict[str, Any]) -> None:
    settings = load(Path(answer["file"])).settings
    assert settings is not None
    flow = next(flow for flow in settings.flows if str(flow.flow) == answer["flow"])
    assert flow.enabled == answer["enabled"]
    for client, role in (
        ("source_consumer", ClientRole.REPLICATION_CONSUMER),
        ("source_producer", ClientRole.OFFSET_SYNCS_SOURCE_PRODUCER),
        ("source_admin", ClientRole.REPLICATION_SOURCE_ADMIN),
        ("target_producer", ClientRole.OFFSET_SYNCS_TARGET_PRODUCER),
        ("target_admin", ClientRole.REPLICATION_TARGET_ADMIN),
    ):
        java = answer[client].get("client.id", f"{flow.flow}|MirrorSourceConnector|offset-syncs-target-producer")
        assert flow.clients.of(role).client_id == java


@pytest.mark.parametrize(("text", "java"), PROPERTIES, ids=repr)
def test_same_properties_parser_as_java(text: str, java: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_bytes(text.encode("iso-8859-1"))
    problems = ProblemLog(str(path))
    entries = read_file(path, problems)
    assert entries is not None
    if java is None:
        assert problems.failed
    else:
        assert {key: entry.value for key, entry in entries.items()} == java


UNSUPPORTED_PATTERNS = {
    *("(?x)a b", "(?m)^a$", "(?d).", "(?u)a", r"(?U)\w", "(?iu)É"),
    *(r"\R", r"\X", r"\N{LATIN SMALL LETTER A}", r"\b{g}a", r"\Ga", r"\1", r"\1(a)", r"\141", r"(a\1)"),
    *(r"\p{javaLowerCase}", r"\p{javaLetter}", r"\p{LC}", r"\p{L1}", r"\p{all}", r"(?i)\p{Lu}"),
    *("a{1}{2}", "{1}", ".*{1}", "[a-z&&[b]c]", "[a&&]", "[&&a]", "[a&&&b]", "[a&&&&b]"),
}
"""Patterns that Java accepts and that are rejected here, because they cannot have the same meaning or never match."""
EVERY_NAME = {name for _, names in REGEX for name in names or ()}


@pytest.mark.parametrize(("pattern", "java"), REGEX, ids=lambda value: repr(value) if isinstance(value, str) else "")
def test_patterns_match_the_same_names_or_are_rejected(pattern: str, java: list[str] | None) -> None:
    try:
        compiled = compile_java(pattern)
    except JavaRegexError:
        assert java is None or pattern in UNSUPPORTED_PATTERNS
    else:
        assert pattern not in UNSUPPORTED_PATTERNS
        assert java is not None
        assert {name for name in EVERY_NAME if compiled.matches(name)} == set(java)


@pytest.mark.parametrize(("text", "java"), JAAS, ids=lambda value: repr(value) if isinstance(value, str) else "")
def test_same_jaas_parser_as_java(text: str, java: list[Any] | None) -> None:
    try:
        module = jaas.parse(text)
    except jaas.JaasError:
        assert java is None
    else:
        assert [module.name, module.options] == java
