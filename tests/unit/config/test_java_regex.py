"""What Java's answers (tests/golden) do not reach: how refusals read, and filters made of patterns."""

from __future__ import annotations

import pytest

from mm2.config.filters import NameFilter, NamePattern, PropertyFilter
from mm2.config.java_regex import compile_java
from mm2.config.java_regex_sets import JavaRegexError


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a{2,1}", "is no Java regular expression"),
        ("a{1|3}", "a comma parts the list"),
        ("(?x)a", "flags other than i and s have no equal here (x)"),
        (r"\p{javaLowerCase}", r"\p{javaLowerCase} has no equal here"),
        ("a{1,1001}", "may be 1000 at most"),
        ("(" * 60 + "a" + ")" * 60, "50 deep in each other"),
        ("[" * 60 + "a" + "]" * 60, "50 deep in each other"),
        ("a)", "a ) has no ( before it"),
        ("[b-a]", "the range b-a runs backwards"),
        ("\\", "it ends too early"),
    ],
)
def test_refusals_say_why(pattern: str, words: str) -> None:
    with pytest.raises(JavaRegexError) as refused:
        compile_java(pattern)
    assert words in str(refused.value)


def test_patterns_are_joined_as_java_joins_them() -> None:
    pattern = NamePattern.of(("(?i)orders", "Fx", r"a(b)\1"))
    assert [name for name in ("ORDERS", "fx", "Fx", "abb", "ab") if pattern(name)] == ["ORDERS", "fx", "Fx", "abb"]
    assert pattern.elements == ("(?i)orders", "Fx", r"a(b)\1")


def test_a_reference_takes_as_many_digits_as_there_are_groups() -> None:
    ten = "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)"
    assert compile_java(ten + r"\10").fullmatch("abcdefghijj")
    assert compile_java(ten + r"\11").fullmatch("abcdefghija1")


def test_no_pattern_matches_nothing() -> None:
    nothing = NamePattern.of(())
    assert not nothing("")
    assert not NameFilter(include=nothing, exclude=nothing)("a")
    assert NameFilter(include=NamePattern.of((".*",)), exclude=nothing)("a")
    assert PropertyFilter(nothing)("retention.ms")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("orders", None),
        ("orders-copy", "groups.exclude leaves it out: .*-copy"),
        ("connect-x", "groups.exclude leaves it out: .*-copy, connect-(, x)"),
        ("payments", "groups does not name it: orders.*, connect.*"),
    ],
)
def test_a_refusal_names_the_element(name: str, sentence: str | None) -> None:
    """A comma parts the list inside parentheses too: such elements mean something only when joined again."""
    chosen = NameFilter(
        include=NamePattern.of(("orders.*", "connect.*")), exclude=NamePattern.of((".*-copy", "connect-(", "x)"))
    )
    assert chosen.refusal(name, "groups") == sentence
    assert chosen(name) is (sentence is None)


def test_a_filter_without_includes_says_so() -> None:
    nothing = NamePattern.of(())
    assert NameFilter(include=nothing, exclude=nothing).refusal("a", "topics") == "topics does not name it: it is empty"
