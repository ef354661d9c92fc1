"""Options in the forms that Kafka's Java tools accept (joptsimple), as `mm2.cli.command_parser` reads them.

``--name value``, ``--name=value`` and ``-name value`` are the same. A name can be abbreviated, as in the tools of Kafka
0.7 to 0.10, if only one option starts so. The word after an option that needs a value is its value, also if it starts
with a dash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from mm2.cli.errors import UsageError
from mm2.cli.parameters import Parameter

_HELP = ("--help", "-h")


def canonical(words: Sequence[str], parameters: Sequence[Parameter]) -> list[str]:
    """Return ``words`` with full names and every value as ``--name=value``.

    Raises UsageError for unknown and ambiguous options, missing values and other words.
    """
    takes_value = {name: bool(one.value) for one in parameters for name in one.names} | dict.fromkeys(_HELP, False)
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument {word!r}.")
        written, equals, value = word.partition("=")
        name = _full_name(written, takes_value)
        if not takes_value[name]:
            if equals:
                raise UsageError(f"{name} takes no value.")
            found.append(name)
            continue
        if not equals:
            if not left:
                raise UsageError(f"{name} needs a value.")
            value = left.pop(0)
        found.append(f"{name}={value}")
    return found


def _full_name(written: str, known: Mapping[str, bool]) -> str:
    name = written if written in known else f"--{written.lstrip('-')}"
    if name in known:
        return name
    starting = [one for one in known if one.startswith(name)] if len(name) > 2 else []
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise UsageError(f"option {written} is ambiguous: {', '.join(starting)}.")
    similar = get_close_matches(name, known, n=1)
    guess = f" Did you mean {similar[0]}?" if similar else ""
    raise UsageError(f"unknown option {written}.{guess}")
