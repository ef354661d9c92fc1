"""Regular expressions that backtrack without end for some names."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from mm2.config.plugins.filters import SlowPatternError
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import INTERRUPTED, JavaPattern, SlowMatchError, compile_java
from mm2.core.plugins import PluginError
from mm2.core.topics.replication_filter import TopicVerdict
from tests.unit.config.files import flow, loaded, settings

SLOW = "(a|aa)+c"
NAME = "a" * 248 + "b"
PROMPT_S = 2.0  # forty times the limit of a match


@pytest.mark.parametrize(
    ("pattern", "name"),
    [(SLOW, NAME), ("(([a-z])+.)+[A-Z]([a-z])+$", "a" * 240), ("(?i)(?:b|bb)*d", "B" * 249)],
)
def test_a_match_has_a_limit_of_time(pattern: str, name: str) -> None:
    compiled = compile_java(pattern)
    began = time.monotonic()
    for _ in range(100):  # the second time it is known
        with pytest.raises(SlowMatchError):
            compiled.matches(name)
    assert time.monotonic() - began < PROMPT_S


def test_what_took_long_is_remembered_either_way() -> None:
    class Regex:
        calls = 0

        def fullmatch(self, text: str, **_: object) -> bool | None:
            self.calls += 1
            until = time.thread_time() + 0.003
            while time.thread_time() < until:
                pass
            return True if text == "a" else None

    engine = Regex()
    pattern = JavaPattern(engine)  # type: ignore[arg-type]
    assert [pattern.matches("a"), pattern.matches("b"), pattern.matches("a"), pattern.matches("b")] == [
        True,
        False,
        True,
        False,
    ]
    assert engine.calls == 2


def test_it_is_unknown_whether_a_slow_pattern_selects_a_topic(tmp_path: Path) -> None:
    rules = flow(tmp_path, f"topics = orders, {SLOW}\ntopics.exclude = .*-copy\n").replication_filter
    assert rules.verdict("orders") is TopicVerdict.REPLICATED
    assert rules.verdict("payments") is TopicVerdict.NOT_SELECTED
    with pytest.raises(PluginError) as caught:
        rules.verdict(NAME)
    file = tmp_path / "mm2.properties"
    assert str(caught.value) == (
        f"{file}:5: topics = {SLOW}: the regular expression takes more than 50 ms for the name {NAME}, so it is unknown"
        " whether it matches; write it without nested repetitions such as (a|aa)+ or (a+)+"
    )


@pytest.mark.parametrize("key", ["topics.exclude", "groups", "groups.exclude", "config.properties.exclude"])
def test_every_list_of_names_has_the_limit(tmp_path: Path, key: str) -> None:
    found = flow(tmp_path, f"{key} = {SLOW}\n")
    filters = {"topics": found.topic_filter, "groups": found.group_filter, "config": found.config_property_filter}
    chosen = filters[key.partition(".")[0]]
    with pytest.raises(SlowPatternError, match=f"mm2.properties:5: {key} = "):
        chosen(NAME)
    if key != "config.properties.exclude":
        assert chosen.refusal(NAME, key.partition(".")[0]) == _text(chosen, NAME)  # type: ignore[union-attr]


def _text(chosen: object, name: str) -> str:
    with pytest.raises(SlowPatternError) as caught:
        chosen(name)  # type: ignore[operator]
    return str(caught.value)


def test_topics_of_queries_have_the_limit(tmp_path: Path) -> None:
    lines = f"mm2.sql.mask.topics = {SLOW}\nmm2.sql.mask.query = SELECT value FROM records\n"
    found = flow(tmp_path, lines)
    assert found.query_of("orders") is None
    with pytest.raises(SlowPatternError, match=r"mm2\.sql\.mask\.topics = "):
        found.query_of(NAME)


def test_a_list_that_is_slow_only_when_joined_is_named_as_a_whole(tmp_path: Path) -> None:
    topics = flow(tmp_path, "topics = (a|aa, b)+c\n").topic_filter
    assert ": topics = (a|aa, b)+c: " in _text(topics, "a" * 247 + "cx")


def test_origins_have_the_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = f"listeners = http://127.0.0.1:0\naccess.control.allow.origin = https://shop, {SLOW}\n"
    allowed = settings(tmp_path, lines).listening.cross_origin
    assert allowed is not None
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        assert [allowed.allows(f"{NAME}{number}") for number in range(100)] == [False] * 100
    assert time.monotonic() - began < PROMPT_S
    assert allowed.allows("https://shop")
    (line,) = caplog.messages
    assert f"{NAME}0 is not allowed: a regular expression of access.control.allow.origin takes more than 1 ms" in line


def test_environment_variables_have_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "text")
    (problem,) = loaded(
        tmp_path,
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        f"config.providers.env.param.allowlist.pattern = {SLOW}\n"
        f"A->B.topics = ${{env:{NAME}}}\n",
    ).problems
    assert "allowlist.pattern takes too long for environment variable" in problem.rule


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "((a{100}b{2}){100}c){2}", "(?:[a-z]?(?:x|(y{101})+)){100}"])
def test_repetitions_in_repetitions_are_limited(pattern: str) -> None:
    with pytest.raises(JavaRegexError):
        compile_java(pattern)


def test_repetitions_one_after_the_other_do_not_multiply() -> None:
    assert compile_java("(a{1000}b{1000}){10}|(c{1000}){0}|(d{100}e)*f{1000}").matches("d" * 100 + "e" + "f" * 1000)


class UsedUp:
    """A pattern whose first matches are ended because other threads of the process used up the time."""

    def __init__(self, ended: int) -> None:
        self.left = ended

    def fullmatch(self, text: str, **_: object) -> str | None:
        if self.left:
            self.left -= 1
            raise TimeoutError
        return text


def test_time_of_other_threads_does_not_count() -> None:
    assert JavaPattern(UsedUp(3)).matches("orders")  # type: ignore[arg-type]
    engine = UsedUp(INTERRUPTED)
    pattern = JavaPattern(engine)  # type: ignore[arg-type]
    with pytest.raises(SlowMatchError):
        pattern.matches("orders")
    assert engine.left == 0
    assert pattern.matches("orders"), "what was unknown is tried again"
