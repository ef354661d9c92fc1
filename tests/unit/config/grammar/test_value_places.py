from __future__ import annotations

import pytest

from mm2.config.grammar.problems import ProblemLog, SourceSpan
from mm2.config.grammar.properties import Entry, parse
from mm2.config.grammar.value_places import WIDEST_EXCERPT, excerpt, place_in_line, place_in_value


def entry(content: str, key: str = "k") -> Entry:
    return parse(content.encode("iso-8859-1"), ProblemLog("f"))[key]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("k=X", (1, 3)),
        ("k X", (1, 3)),
        ("  k  :  X", (1, 9)),
        ("# comment\n\nk = aX", (3, 6)),
        ("k = a\\\n  bX", (2, 4)),
        ("k = a \\\n\\\n \tX\nl = 1", (3, 3)),
        ("k \\\n = \\\n X", (3, 2)),
        ("k = \\u00e9\\\\\\tX", (1, 15)),
        ("k = \\ud83d\\ude00X", (1, 17)),
        ("k = \\ud83dX", (1, 11)),
        ("k = \\d\\:X", (1, 9)),
        ("\\k\\=\\u0041 = X", (1, 14)),
    ],
)
def test_place_of_a_character(content: str, place: tuple[int, int]) -> None:
    key = next(iter(parse(content.encode(), ProblemLog("f"))))
    found = entry(content, key)
    there = place_in_value(found, found.value.index("X"))
    assert (there.line, there.column) == place
    line, caret = there.excerpt
    assert line[len(caret) - 1] == "X"


def test_end_of_a_value() -> None:
    assert place_in_value(entry("k = abc"), 3) == place_in_value(entry("k = abc"), 99)
    assert place_in_value(entry("k = abc"), 3).excerpt == ("k = abc", "       ^")
    assert place_in_value(entry("k ="), 0) == SourceSpan(file="f", line=1, column=4, excerpt=("k =", "   ^"))


def test_columns_count_the_characters_of_utf8() -> None:
    content = "k = é X".encode().decode("iso-8859-1")
    assert place_in_value(entry(content), 3).excerpt == ("k = é X", "      ^")


def test_only_the_line_of_a_value_with_references_is_known() -> None:
    resolved = entry("\nk = ${env:A}X").resolved("secret X")
    assert place_in_value(resolved, 7) == SourceSpan(file="f", line=2)
    assert place_in_value(Entry(file="f", line=3, key="k", raw="X", value="X"), 0) == SourceSpan(file="f", line=3)


def test_secrets_are_not_printed() -> None:
    place = place_in_value(entry("my.password = sesame X", "my.password"), 7)
    assert (place.column, place.excerpt) == (22, ())


@pytest.mark.parametrize("at", [0, 10, 36, 37, 100, 163, 164, 199])
def test_a_long_line_is_cut_around_the_place(at: int) -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(200))
    line, caret = excerpt(text, at)
    assert len(line) <= WIDEST_EXCERPT
    assert line[len(caret) - 1] == text[at]
    assert line.startswith("…") is (at > 36)
    assert line.endswith("…") is (at < 164)


def test_a_line_that_just_fits_is_not_cut() -> None:
    assert excerpt("a" * WIDEST_EXCERPT, 3) == ("a" * WIDEST_EXCERPT, "   ^")


def test_control_characters_do_not_move_the_caret() -> None:
    assert place_in_line("f", 1, "\tSELECT\x1b x", 9).excerpt == (" SELECT  x", "         ^")
