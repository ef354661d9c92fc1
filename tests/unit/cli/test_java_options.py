"""Forms of options that joptsimple accepts."""

from __future__ import annotations

import pytest

from mm2.cli.command_parser import canonical
from mm2.cli.errors import UsageError
from mm2.cli.mirror1_table import MIRROR1_COMMAND

OPTIONS = MIRROR1_COMMAND.parameters


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--include", ".*"], ["--include=.*"]),
        (["--include=a=b"], ["--include=a=b"]),
        (["-include", "a"], ["--include=a"]),
        (["-include=a"], ["--include=a"]),
        (["--inc", "a"], ["--include=a"]),
        (["--message.handler.args="], ["--message.handler.args="]),
        (["--include", "-a"], ["--include=-a"]),
        (["--message.handler.args", "--x y"], ["--message.handler.args=--x y"]),
        (["--message.handler", "a:B"], ["--message.handler=a:B"]),  # also the start of --message.handler.args
        (["--new.c", "--whitelist", "a b"], ["--new.consumer", "--whitelist=a b"]),
        (["--help"], ["--help"]),
        (["-h"], ["-h"]),
    ],
)
def test_forms(words: list[str], expected: list[str]) -> None:
    assert canonical(words, OPTIONS) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--consumer", "f"], "option --consumer is ambiguous: --consumer.config, --consumer.rebalance.listener."),
        (["--incude", "f"], "unknown option --incude. Did you mean --include?"),
        (["--x"], "unknown option --x."),
        (["-"], "unknown option -."),
        (["--"], "unknown option --."),
        (["--include"], "--include needs a value."),
        (["--include=", "a"], "unexpected argument 'a'."),
        (["--check=true"], "--check takes no value."),
        (["topics"], "unexpected argument 'topics'."),
    ],
)
def test_usage_errors(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        canonical(words, OPTIONS)
    assert str(caught.value) == message
