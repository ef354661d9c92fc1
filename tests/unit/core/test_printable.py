from __future__ import annotations

import json

import pytest

from mm2.core.printable import one_line, printable_json, printable_lines

ESCAPE = "\x1b[2J"
RIGHT_TO_LEFT = "\u202e"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zürich, 東京", "Zürich, 東京"),
        (f"orders{ESCAPE}", r"orders\x1b[2J"),
        ("first\nsecond", r"first\nsecond"),
        (f"a{RIGHT_TO_LEFT}b", r"a\u202eb"),
    ],
)
def test_one_line(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_lines_keep_their_ends_and_tabs() -> None:
    assert printable_lines("plain") == "plain"
    assert printable_lines(f"a\tb\n{ESCAPE}\r") == "a\tb\n\\x1b[2J\\r"


def test_json_is_the_same_without_control_characters() -> None:
    value = {"topic": f"a{RIGHT_TO_LEFT}\x9b"}
    printable = printable_json(json.dumps(value, ensure_ascii=False))
    assert printable == r'{"topic": "a\u202e\u009b"}'
    assert json.loads(printable) == value
