"""The command line of one command: its help, and the call that the words on it ask for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import NoReturn

from mm2.cli.errors import UsageError
from mm2.cli.parameters import CliCommand, Parameter

HELP = ("-h", "--help")
WIDTH = 100


_HELP = ("--help", "-h")


def canonical(words: Sequence[str], parameters: Sequence[Parameter]) -> list[str]:
    """Return ``words`` with full names and every value as ``--name=value``.

    They are in the forms that Kafka's Java tools accept (joptsimple): ``--name value``, ``--name=value`` and ``-name
    value`` are the same. A name can be abbreviated, as in the tools of Kafka 0.7 to 0.10, if only one option starts so.
    The word after an option that needs a value is its value, also if it starts with a dash.

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


class HelpRequested(Exception):
    """The command line asks for help."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(command: CliCommand, words: Sequence[str]) -> tuple[list[object], dict[str, object]]:
    """Return the positional and the keyword arguments of the command's function.

    An option that is not given is left out, so that the function's default applies. Raises HelpRequested, and
    UsageError with what is wrong and how to correct it.
    """
    arguments = [parameter for parameter in command.parameters if not parameter.is_option]
    options = [parameter for parameter in command.parameters if parameter.is_option]
    if command.java_options:
        words = canonical(words, options)
    _check_options(words, options)
    found, surplus = _match(command, options, words)
    if found.pop("help", False):
        raise HelpRequested
    if surplus:
        raise UsageError(f"unexpected argument {surplus[0]!r}.")
    values = [_argument(parameter, found, words, options) for parameter in arguments]
    return values, {option.function_parameter: _value(option, found) for option in options if _given(option, found)}


def help_text(program: str, command: CliCommand) -> str:
    """Return the text of ``--help``, at most 100 columns wide."""
    arguments = [(parameter.name, parameter.help) for parameter in command.parameters if not parameter.is_option]
    options = [
        (f"{', '.join(parameter.names)} {parameter.value}".rstrip(), parameter.help)
        for parameter in command.parameters
        if parameter.is_option
    ]
    parts = [
        _wrapped(f"Usage: {program}", [parameter.usage for parameter in command.parameters]),
        command.help.strip(),
        *([f"Arguments:\n{columns(arguments)}"] if arguments else []),
        f"Options:\n{columns([*options, (', '.join(HELP), 'Show this help.')])}",
        f"Example:\n  {command.example}",
    ]
    return "\n\n".join(parts) + "\n"


def usage(program: str, command: CliCommand) -> str:
    """Return the form of the command line; ``program`` is the program with the command's name."""
    if command.java_options:  # too many, and none has a place
        return f"{program} OPTIONS"
    return " ".join([program, *(parameter.usage for parameter in command.parameters)])


def _wrapped(start: str, words: Iterable[str]) -> str:
    """Return the words after ``start`` in lines of at most `WIDTH` columns."""
    lines = [start]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return "\n".join(lines)


def columns(rows: Iterable[tuple[str, str]]) -> str:
    """Return ``rows`` as two aligned columns, indented."""
    rows = list(rows)
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"  {left:{width}}  {right}" for left, right in rows)


def _match(
    command: CliCommand, options: Iterable[Parameter], words: Sequence[str]
) -> tuple[dict[str, object], list[str]]:
    """Return what argparse finds, and the words that it has no place for."""
    parser = _Parser(add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    parser.add_argument(*HELP, action="store_true", dest="help")
    for parameter in command.parameters:
        if not parameter.is_option:
            parser.add_argument(parameter.name).required = False  # reported here, after words it does not know
        elif not parameter.value:
            parser.add_argument(*parameter.names, action="store_true", dest=parameter.name)
        elif parameter.noun:
            parser.add_argument(*parameter.names, nargs="+", action="extend", dest=parameter.name)
        else:
            parser.add_argument(*parameter.names, action="append", dest=parameter.name)
    try:
        namespace, surplus = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(_wrong_value(error, options)) from error
    return vars(namespace), [word for word in surplus if word != "--"]


def _wrong_value(error: argparse.ArgumentError, options: Iterable[Parameter]) -> str:
    for option in options:
        if error.argument_name == "/".join(option.names):
            if option.noun:
                return f"{option.name} needs at least one {option.noun}."
            return f"{option.name} needs a value." if option.value else f"{option.name} takes no value."
    return f"{error}."


def _check_options(words: Sequence[str], options: Iterable[Parameter]) -> None:
    """Reject unknown options; argparse would take ``-d`` for ``-daemon``, and report a missing argument first."""
    known = [*HELP, *(name for option in options for name in option.names)]
    for word in takewhile(lambda word: word != "--", words):
        name = word.partition("=")[0]
        is_value = not word.startswith("-") or word == "-" or " " in word or word[1:].isdigit()
        if not is_value and name not in known:
            similar = get_close_matches(name, known, n=1)
            guess = f" Did you mean {similar[0]}?" if similar else ""
            raise UsageError(f"unknown option {name}.{guess}")


def _argument(
    parameter: Parameter, found: dict[str, object], words: Sequence[str], options: Iterable[Parameter]
) -> object:
    if parameter.name in found:
        return parameter.convert(str(found[parameter.name]))
    for option in options:
        if option.noun and any(name in words for name in option.names):
            raise UsageError(
                f"{parameter.name} is missing: {option.name} takes every word after it, so put {parameter.name} first."
            )
    raise UsageError(f"{parameter.name} is missing.")


def _given(option: Parameter, found: dict[str, object]) -> bool:
    if option.name not in found and option.required:
        raise UsageError(f"{option.name} is missing.")
    return option.name in found


def _value(option: Parameter, found: dict[str, object]) -> object:
    value = found[option.name]
    if not isinstance(value, list):
        return value
    if option.noun:
        return tuple(value)
    if len(value) > 1:
        raise UsageError(f"{option.name} is given more than once.")
    return value[0]
