"""The reader of YAML against PyYAML's BaseLoader: it refuses some texts, and never reads something else."""

from __future__ import annotations

import yaml
from hypothesis import event, given
from hypothesis import strategies as st

from mm2.config.checks.foreign.tree import UnreadableYaml
from mm2.config.checks.foreign.yaml_reader import read_yaml

PARTS = ("a", "b", "- ", "-", "c: ", "d:", ": ", "\n", "\n  ", "\n    ", "\n  - ", "\n- ", " ", "#", " # x", "'", '"')
MORE = ("\\", "''", "{}", "[]", "e: f", "'k': ", '"q": ', "~", "null", "a:b", ",", ">", "&", "*", "é", "|", "? ", "!")
ODD = ("\t", "%YAML ", "\n---", "\n...", "<<: ", "&x ", "*x", "[", "]", "{", "}", "\\U", "ffffffff", "\x00", "\r")


def without_nulls(node: object) -> object:
    """Return ``node`` with None for everything that is null in YAML: PyYAML's BaseLoader returns text only."""
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_nulls(value) for value in node]
    return None if node in ("", "~", "null") else node


@given(st.lists(st.sampled_from((*PARTS, *MORE, *ODD)), max_size=18).map("".join))
def test_what_is_read_is_what_yaml_means(text: str) -> None:
    try:
        node = read_yaml(text)
    except UnreadableYaml:
        event("unreadable")
        return
    assert without_nulls(node) == without_nulls(yaml.load(text, yaml.BaseLoader))
