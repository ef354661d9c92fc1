"""``mm2 translate``: positions of one cluster of a flow on the other one, read from the clusters.

After a disaster there is no source, and possibly no node.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from mm2.cli.clusters.cluster_access import ask, choose_flow, note, read_settings, reason
from mm2.cli.clusters.flow_offsets import translate_groups
from mm2.cli.errors import DONE, NOT_EXACT, USAGE, CommandError, UsageError
from mm2.cli.parameters import whole_number
from mm2.cli.terminal.screen import print_json
from mm2.config.grammar.problem_report import write_problems
from mm2.config.grammar.problems import Problem
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.positions.forms import (
    FormProblem,
    PlacedPosition,
    PositionForm,
    PositionsFile,
    PositionsInvalidError,
    parse_positions,
    write_positions,
)
from mm2.core.positions.position_names import PositionRejectedError
from mm2.core.positions.positions import Position, PositionAnswers, TranslatedPosition
from mm2.core.printable import printable_lines
from mm2.core.settings.client import OffsetReset, read_start_point
from mm2.kafka.errors import ClusterError
from mm2.node.checkpoint.flow_positions import FlowPositions, NoTimeError, open_flow_positions

STDIN = "-"

_PLACES = "--topic T --partition P with --offset N or --time T, --positions FILE, or --groups REGEX"


class _PositionsRejectedError(Exception):
    """Positions of a file that the flow cannot translate, with their lines."""

    def __init__(self, problems: Sequence[FormProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(len(problems))


def translate(
    file: Path,
    *,
    flow: str | None = None,
    topic: str | None = None,
    partition: str | None = None,
    offset: str | None = None,
    time: str | None = None,
    positions: str | None = None,
    groups: str | None = None,
    reverse: bool = False,
    json: bool = False,
) -> int:
    """Print the positions on the other cluster. Raises CommandError if they cannot be read."""
    if sum(one is not None for one in (topic, positions, groups)) != 1:
        raise UsageError(f"say which positions: {_PLACES}.")
    if topic is None and (partition, offset, time) != (None, None, None):
        raise UsageError("--partition, --offset and --time belong to --topic.")
    if groups is not None and reverse:
        raise UsageError(
            "--groups are groups of the source, so there is no --reverse: use the flow in the other direction, or"
            " --positions."
        )
    wanted = None if topic is None else _one_position(topic, partition, offset, time)
    pattern = None if groups is None else _pattern(groups)
    settings = choose_flow(read_settings(file), flow)
    read: PositionsFile | None = None
    if positions is not None:
        place = "standard input" if positions == STDIN else positions
        try:
            read = parse_positions(_text(positions), _alias(settings, on_target=reverse))
        except PositionsInvalidError as error:
            _write_form_problems(place, error.problems, error.count)
            return USAGE
    what = f"translating positions of {settings.flow}"
    try:
        if pattern is not None:
            form, found = PositionForm.GROUPS, ask(translate_groups(settings, pattern), what)
        elif read is not None:
            form, found = read.form, ask(_positions(settings, read, reverse=reverse), what)
        else:
            assert wanted is not None
            form, found = PositionForm.LINES, ask(_single(settings, *wanted, reverse=reverse), what)
    except _PositionsRejectedError as error:
        _write_form_problems(place, error.problems, len(error.problems))
        return USAGE
    except PositionRejectedError as error:
        raise UsageError(str(error)) from error
    except NoTimeError as error:
        raise CommandError(str(error)) from error
    return _print(found, form, settings, reverse=reverse, json=json)


def _print(found: PositionAnswers, form: PositionForm, settings: FlowSettings, *, reverse: bool, json: bool) -> int:
    for text in found.notes:
        note(f"mm2 translate: {text}")
    inexact = [one for one in found.rows if not one.exact]
    if json:
        print_json([one.as_json() for one in found.rows])
    else:
        text = write_positions(form, found.rows, _alias(settings, on_target=not reverse))
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)  # names of groups can be any text
        for one in inexact:
            note(str(one))
    return NOT_EXACT if inexact else DONE


def _alias(settings: FlowSettings, *, on_target: bool) -> str:
    """Return the alias of a cluster in stored source offsets."""
    return settings.aliases.target if on_target else settings.aliases.source


# -- the command line


def _one_position(
    topic: str, partition: str | None, offset: str | None, time: str | None
) -> tuple[TopicPartition, int | None, int | None]:
    """Return the partition, its offset, and its time (epoch ms); one of them is None. Raises UsageError."""
    if partition is None:
        raise UsageError("--topic needs --partition P.")
    if (offset is None) == (time is None):
        raise UsageError("--topic needs either --offset N or --time T.")
    place = TopicPartition(topic, whole_number("--partition", partition, "a partition"))
    if offset is not None:
        return place, whole_number("--offset", offset, "an offset"), None
    assert time is not None
    return place, None, _time_ms(time)


def _time_ms(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = read_start_point(text)
    except ValueError:
        found = OffsetReset.LATEST
    if isinstance(found, OffsetReset):
        raise UsageError(
            f"--time {text} must be a time with a time zone, such as 2026-11-01T00:00:00Z, or milliseconds since 1970."
        )
    return found


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--groups {text} is not a regular expression: {error}.") from error


def _text(positions: str) -> str:
    """Return the content of a file, or of standard input. Raises UsageError."""
    try:
        raw = sys.stdin.buffer.read() if positions == STDIN else Path(positions).read_bytes()
        return raw.decode()
    except OSError as error:
        raise UsageError(f"--positions {positions}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--positions {positions} is not UTF-8.") from error


def _write_form_problems(place: str, problems: Sequence[FormProblem], count: int) -> None:
    shown = [
        Problem(file=place, line=one.line, key=None, value=None, rule=one.rule, fix=one.fix, is_warning=False)
        for one in problems
    ]
    write_problems(shown, sys.stderr)
    more = "" if count == len(shown) else f", of which the first {len(shown)} are shown"
    note(f"{place}: {count:,} {'error' if count == 1 else 'errors'}{more}")


# -- the clusters


async def _read(flow: FlowPositions) -> None:
    try:
        await flow.read()
    except ClusterError as error:
        target = flow.settings.flow.target
        raise CommandError(
            f"cluster {target} is unreachable, and only it has the exact offset map: {reason(target, error)}"
        ) from error


async def _single(
    settings: FlowSettings, place: TopicPartition, offset: int | None, time_ms: int | None, *, reverse: bool
) -> PositionAnswers:
    asked = Position(place.topic, place.partition, offset or 0)
    async with open_flow_positions(settings) as flow:
        await _read(flow)
        try:
            (rejection,) = await flow.rejections([asked], reverse=reverse)
            if rejection is not None:
                raise rejection
            if time_ms is not None:
                rows: tuple[TranslatedPosition, ...] = (await flow.at_time(place, time_ms, reverse=reverse),)
            else:
                rows = await flow.translate([asked], reverse=reverse)
        except ClusterError as error:
            raise CommandError(f"cannot translate {place}: {error}") from error
        return PositionAnswers(rows=rows, notes=flow.notes)


async def _positions(settings: FlowSettings, read: PositionsFile, *, reverse: bool) -> PositionAnswers:
    asked = [one.position for one in read.positions]
    async with open_flow_positions(settings) as flow:
        await _read(flow)
        try:
            rejections = await flow.rejections(asked, reverse=reverse)
            if problems := _rejected(read.positions, rejections):
                raise _PositionsRejectedError(problems)
            rows = await flow.translate(asked, reverse=reverse)
        except ClusterError as error:
            raise CommandError(f"cannot translate the positions: {error}") from error
        return PositionAnswers(rows=rows, notes=flow.notes)


def _rejected(
    positions: Sequence[PlacedPosition], rejections: Sequence[PositionRejectedError | None]
) -> list[FormProblem]:
    """Return the rejections with their lines; each rule of a line once."""
    found = {
        (one.line, error.rule): FormProblem(line=one.line, rule=error.rule, fix=error.fix)
        for one, error in zip(positions, rejections, strict=True)
        if error is not None
    }
    return list(found.values())
