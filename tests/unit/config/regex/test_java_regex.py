"""Cases not covered by the golden vectors: error messages, and filters built from patterns."""

from __future__ import annotations

import pytest

from mm2.config.plugins.filters import NameFilter, NamePattern, PropertyFilter
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a{2,1}", "is not a valid Java regular expression"),
        ("a{1|3}", "commas separate the list"),
        ("(?x)a", "is not supported: flag x"),
        (r"\p{javaLowerCase}", r"is not supported: character class \p{javaLowerCase}"),
        ("a{1,1001}", "more than 1000"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
        ("[" * 60 + "a" + "]" * 60, "nested more than 50 deep"),
        ("a)", "unmatched )"),
        ("[b-a]", "range b-a is in reverse order"),
        ("\\", "ends with a single backslash"),
        (r"(\1b|)*", "a reference to group 1 within it"),
        (r"(a)((?:b\2|c))+", "a reference to group 2 within it"),
        (r"(?<n>a|\k<n>b)*", "a reference to group n within it"),
        (r"(?<!\d*+)1", "a lazy or possessive repetition within a look-behind"),
        (r".(?<=(?:a+?|b))", "a lazy or possessive repetition within a look-behind"),
        (r"(a)(?<=\1)b", "a reference to a group within a look-behind"),
    ],
)
def test_rejected_patterns_have_a_reason(pattern: str, expected: str) -> None:
    with pytest.raises(JavaRegexError) as caught:
        compile_java(pattern)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "rule", "fix"),
    [
        ("*.log", "nothing to repeat before *", r"write .*\\.log"),
        ("*-test", "nothing to repeat before *", "write .*-test"),
        ("*", "nothing to repeat before *", "write .* to repeat any character"),
        ("a|*b", "nothing to repeat before *", "write .* to repeat any character"),
        ("*?b", "nothing to repeat before *", "write .* to repeat any character"),
        ("(+)", "nothing to repeat before +", "write .+ to repeat any character"),
        ("a**", "nothing to repeat before *", "write .* to repeat any character"),
    ],
)
def test_nothing_to_repeat(pattern: str, rule: str, fix: str) -> None:
    with pytest.raises(JavaRegexError) as refused:
        compile_java(pattern)
    assert str(refused.value) == f"is not a valid Java regular expression: {rule}"
    assert refused.value.fix == fix


def test_patterns_are_joined_as_java_joins_them() -> None:
    pattern = NamePattern.of(("(?i)orders", "Fx", r"a(b)\1"), "topics")
    assert [name for name in ("ORDERS", "fx", "Fx", "abb", "ab") if pattern(name)] == ["ORDERS", "fx", "Fx", "abb"]
    assert pattern.elements == ("(?i)orders", "Fx", r"a(b)\1")


def test_back_reference_takes_as_many_digits_as_there_are_groups() -> None:
    ten = "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)"
    assert compile_java(ten + r"\10").matches("abcdefghijj")
    assert compile_java(ten + r"\11").matches("abcdefghija1")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("(a|ab){2}+", {"aa"}),
        ("(?:a|ab){2,}+b*", {"aa", "aab"}),
        ("((?:a|ab)b?){2}+", {"aa", "aab", "aba", "abab"}),
        ("(?:a|ab)?+b", {"ab", "b"}),
        ("((a)b??){1}+(b)?", {"a", "ab"}),
    ],
)
def test_rounds_of_a_possessive_repetition_keep_what_they_matched(pattern: str, names: set[str]) -> None:
    """The names that Java 17 selects."""
    compiled = compile_java(pattern)
    assert {name for name in ("", "a", "aa", "aab", "ab", "aba", "abab", "b", "bb") if compiled.matches(name)} == names


def test_a_reference_after_its_group_is_no_reference_within_it() -> None:
    assert compile_java(r"(a(b))\1\2").matches("ababb")
    assert compile_java(r"(?<n>a)(?<=x|a)\k<n>").matches("aa")


def test_empty_pattern_list_matches_nothing() -> None:
    nothing = NamePattern.of((), "topics")
    assert not nothing("")
    assert not NameFilter(include=nothing, exclude=nothing)("a")
    assert NameFilter(include=NamePattern.of((".*",), "topics"), exclude=nothing)("a")
    assert PropertyFilter(nothing)("retention.ms")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orders", None),
        ("orders-copy", "excluded by groups.exclude: .*-copy"),
        ("connect-x", "excluded by groups.exclude: .*-copy, connect-(, x)"),
        ("payments", "not matched by groups: orders.*, connect.*"),
    ],
)
def test_reason_names_the_matching_element(name: str, message: str | None) -> None:
    """A comma separates elements even inside parentheses: such elements are valid only when joined again."""
    chosen = NameFilter(
        include=NamePattern.of(("orders.*", "connect.*"), "topics"),
        exclude=NamePattern.of((".*-copy", "connect-(", "x)"), "topics"),
    )
    assert chosen.refusal(name, "groups") == message
    assert chosen(name) is (message is None)


def test_reason_of_an_empty_include_list() -> None:
    nothing = NamePattern.of((), "topics")
    assert NameFilter(include=nothing, exclude=nothing).refusal("a", "topics") == "not matched by topics: it is empty"
