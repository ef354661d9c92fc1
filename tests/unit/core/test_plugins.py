from __future__ import annotations

import sys

import pytest

from mm2.core.masking import hide
from mm2.core.plugins import LONGEST_TEXT, Plugin, PluginError, TopicFilter, described

SECRET = "open-sesame-of-the-plugin"


class Moody(TopicFilter):
    def should_replicate_topic(self, topic: str) -> bool:
        match topic:
            case "ends":
                sys.exit(3)
            case "raises":
                raise ValueError("not\n  today")
            case "is silent":
                raise KeyError
            case "numbers":
                return 1  # type: ignore[return-value]
            case "talks":
                return "x" * 1_000  # type: ignore[return-value]
            case "quotes":
                raise ValueError(f"{'x' * (LONGEST_TEXT - 30)} {SECRET}")
            case "returns a secret":
                return SECRET  # type: ignore[return-value]
        return topic == "yes"


def asked(topic: str) -> str:
    moody = Moody()
    moody.configure({})
    with pytest.raises(PluginError) as caught:
        Plugin("topic.filter.class my:Moody", moody).ask_whether("should_replicate_topic", topic)
    return str(caught.value)


def test_results_are_returned() -> None:
    plugin = Plugin("topic.filter.class my:Moody", Moody())
    assert plugin.ask_whether("should_replicate_topic", "yes")
    assert not plugin.ask_whether("should_replicate_topic", "no")
    assert plugin.ask("should_replicate_topic", "numbers") == 1


def test_exceptions_are_reported_with_their_line() -> None:
    line = Moody.should_replicate_topic.__code__.co_firstlineno + 5
    assert asked("raises") == (
        "topic.filter.class my:Moody: should_replicate_topic('raises') raised ValueError: not today"
        f" (test_plugins.py:{line})"
    )
    assert f"raised SystemExit: 3 (test_plugins.py:{line - 2})" in asked("ends")
    assert f"raised KeyError (test_plugins.py:{line + 2})" in asked("is silent")


def test_only_booleans_are_accepted() -> None:
    assert asked("numbers") == (
        "topic.filter.class my:Moody: should_replicate_topic('numbers') returned 1, not True or False"
    )
    assert f"returned '{'x' * (LONGEST_TEXT - 1)}…, not True or False" in asked("talks")


def test_own_errors_have_no_line_of_the_user_class() -> None:
    assert described(ValueError("plain")) == "ValueError: plain"
    with pytest.raises(PluginError, match=r"raised AttributeError: .* 'missing'$"):
        Plugin("x", object()).ask("missing")


@pytest.mark.parametrize("topic", ["quotes", "returns a secret"])
def test_secrets_are_masked_before_an_error_is_shortened(topic: str) -> None:
    hide(SECRET)
    assert "sesame" not in asked(topic)
