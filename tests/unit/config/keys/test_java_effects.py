"""What Java does with the keys that are ignored here, and the warnings where its copies differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS
from mm2.config.keys import ignored_java_keys
from mm2.config.keys.java_effects import CHANGING_CLASSES, EFFECTS, Aspect
from tests.unit.config.files import flow, loaded

JSON = "org.apache.kafka.connect.json.JsonConverter"
OTHER_WARNINGS = {"interceptor.classes", "key.serializer", "value.serializer"}


def test_every_ignored_key_has_its_effect_in_java() -> None:
    ignored = set(ignored_java_keys.CONNECTOR) | set(ignored_java_keys.WORKER)
    for reasons in (POINTLESS, MISSED):
        ignored |= {name for names in reasons.values() for name in names}
    assert set(EFFECTS) == ignored


def test_a_key_that_changes_the_copy_is_reported() -> None:
    changing = {name for name, effect in EFFECTS.items() if set(effect.differs) - {Aspect.TIMING}}
    assert changing == set(CHANGING_CLASSES) | OTHER_WARNINGS


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
@pytest.mark.parametrize("level", ["", "B.", "A->B."])
def test_converters_that_change_records(tmp_path: Path, level: str, key: str) -> None:
    result = loaded(tmp_path, f"{level}{key} = {JSON}\n{level}{key}.schemas.enable = false\n")
    (problem,) = result.problems
    assert problem.is_warning
    assert problem.key == f"{level}{key}"
    does = (
        "converts headers of copies with it"
        if key == "header.converter"
        else "converts keys, values or headers of copies, heartbeats and checkpoints with it"
    )
    assert problem.rule == (
        f"has no effect: keys, values and headers are copied as bytes. Java {does}: its copies differ"
    )
    assert result.settings is not None


@pytest.mark.parametrize("value", ["org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter"])
@pytest.mark.parametrize("level", ["", "B.", "A->B."])
def test_the_converter_of_bytes_changes_nothing(tmp_path: Path, level: str, value: str) -> None:
    lines = "".join(f"{level}{key} = {value}\n" for key in CHANGING_CLASSES if key != "connector.class")
    assert loaded(tmp_path, lines).problems == ()


@pytest.mark.parametrize("level", ["", "A->B."])
def test_the_class_of_all_connectors(tmp_path: Path, level: str) -> None:
    (problem,) = loaded(
        tmp_path, f"{level}connector.class = org.apache.kafka.connect.mirror.MirrorSourceConnector\n"
    ).problems
    assert problem.is_warning
    assert "copied several times" in problem.rule


def test_converters_by_which_java_changes_the_records_of_a_flow(tmp_path: Path) -> None:
    """Those of connectors, without a prefix or with that of the flow, take precedence over the target's."""
    lines = f"B.key.converter = {JSON}\nB.value.converter = {JSON}\nA->B.value.converter = ByteArrayConverter\n"
    assert [str(one) for one in flow(tmp_path, lines).converters] == [f"B.key.converter = {JSON}"]
    assert [one.key for one in flow(tmp_path, f"value.converter = {JSON}\n").converters] == ["value.converter"]
    assert flow(tmp_path).converters == ()
