from __future__ import annotations

import pytest

from mm2.config.grammar.simple_yaml import NotUnderstood, read_yaml


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("", None),
        ("# nothing\n\n", None),
        ("a: 1\nb:\n  c: x y # comment\n", {"a": "1", "b": {"c": "x y"}}),
        ('\'d e\': "q\\\\\\"\\u00e9" # comment\n', {"d e": 'q\\"é'}),
        ("a: 'it''s'\nb: ~\nc: null\nd:\n", {"a": "it's", "b": None, "c": None, "d": None}),
        ("a: {}\nb: []\n", {"a": {}, "b": []}),
        ("a:\n- x\n- b: 1\n  c: 2\n-\n  d: 3\ne: f\r\n", {"a": ["x", {"b": "1", "c": "2"}, {"d": "3"}], "e": "f"}),
        ("- - y\n  - z\n-\n", [["y", "z"], None]),
        ("a: |\n  one\n    two\n\n  # three\nb: |-\n  x\nc: |\n", {"a": "one\n  two\n\n# three\n", "b": "x", "c": ""}),
        ('"a.b/c": http://x:1#y\n', {"a.b/c": "http://x:1#y"}),
        ("a: # comment\n  b: c\n", {"a": {"b": "c"}}),
    ],
)
def test_read(text: str, node: object) -> None:
    assert read_yaml(text) == node


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "a: 1\na: 2",
        "a:\n\tb: 1",
        "a: &anchor 1",
        "a: *alias",
        "a: !tag 1",
        "a: {b: 1}",
        "a: [1]",
        "a: >\n  folded",
        "a: |+\n  kept",
        "a: two\n  lines",
        "a: b: c",
        "a: b:",
        'a: "\\q"',
        'a: "open',
        "a:\n    b: 1\n  c: 2",
        "a: - b",
        "a: |\n    b\n  c",
        "? a\n: b",
        "- a\nb: c",
    ],
)
def test_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood):
        read_yaml(text)
