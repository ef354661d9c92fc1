from __future__ import annotations

import subprocess
import sys
import time

import pytest

from mm2.config.checks.foreign.tree import UnreadableYaml
from mm2.config.checks.foreign.yaml_reader import read_yaml


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("", None),
        ("# nothing\n\n", None),
        ("a: 1\nb:\n  c: x y # comment\n", {"a": "1", "b": {"c": "x y"}}),
        ("a: yes\nb: 010\nc: 1e3\nd: 2026-01-01\n", {"a": "yes", "b": "010", "c": "1e3", "d": "2026-01-01"}),
        ('\'d e\': "q\\\\\\"\\u00e9" # comment\n', {"d e": 'q\\"é'}),
        ("a: 'it''s'\nb: ~\nc: null\nd:\ne: ''\n", {"a": "it's", "b": None, "c": None, "d": None, "e": ""}),
        ("a: {b: 1}\nb: [1, x]\n", {"a": {"b": "1"}, "b": ["1", "x"]}),
        ("a:\n- x\n- b: 1\n  c: 2\n-\n  d: 3\ne: f\r\n", {"a": ["x", {"b": "1", "c": "2"}, {"d": "3"}], "e": "f"}),
        ("- - y\n  - z\n-\n", [["y", "z"], None]),
        ("a: |\n  one\n    two\n\n  # three\nb: |-\n  x\n", {"a": "one\n  two\n\n# three\n", "b": "x"}),
        ("a: >\n  y\n  z\n", {"a": "y z\n"}),
        ('"a.b/c": http://x:1#y\n', {"a.b/c": "http://x:1#y"}),
        ("a: &unused 1\n", {"a": "1"}),
        ("a: two\n  lines\n", {"a": "two lines"}),
    ],
)
def test_read(text: str, node: object) -> None:
    assert read_yaml(text) == node


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: a key that occurs twice"),
        ("a:\n\tb: 1", "line 2: not valid YAML"),
        ("a: &x 1\nb: *x", "line 2: an alias"),
        ("a: *hunter2", "line 1: an alias"),
        ("a: !secret 1", "line 1: a tag"),
        ("a: !secret!x 1", "line 1: not valid YAML"),
        ("a:\n  <<: {b: 1}", "line 2: a key that is not text"),
        ("? [a]\n: b", "line 1: a key that is not text"),
        ("~: b", "line 1: a key that is not text"),
        ("a: b\n---\na: c", "line 2: not valid YAML"),
        ("a: b: c", "line 1: not valid YAML"),
        ('a: "open', "line 1: not valid YAML"),
        ("a: 1\nb: \x00", "line 2: a control character"),
        ('a: "\\U00110000"', "line 1: a number that is too large"),
        ('a: "\\UFFFFFFFF"', "line 1: a number that is too large"),
        (f"%YAML {'1' * 5_000}.1\n---\na: b", "line 1: a number that is too large"),
    ],
)
def test_unreadable(text: str, reason: str) -> None:
    with pytest.raises(UnreadableYaml) as raised:
        read_yaml(text)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{f'*{chr(97 + n)}, ' * 9}]\n" for n in range(20)),
        "a: &a [*a]",
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 10_000,
        "".join(" " * n + "a:\n" for n in range(1_000)),
    ],
)
def test_bombs_end_at_once(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableYaml, match=r"alias|levels"):
        read_yaml(text)
    assert time.monotonic() - began < 10.0


def test_is_imported_only_for_manifests() -> None:
    code = "import sys, mm2.config.load; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
