"""What a line of the log is about, in which form lanes send it to the node, and from which level on it is logged.

No log call has to pass the fields: they are found in its arguments, in the flow that begins its message, and in the
flow whose asyncio task logs it. Only texts that are made before need `about`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mm2.core.naming.names import Flow, TopicPartition

OURS = ("mm2", "flows")
"""The loggers of this program: these, and those below them."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_FIELDS: Mapping[str, type] = {"flow": str, "topic": str, "partition": int, "lane": int}

ATTRIBUTE = "mm2_fields"
"""The attribute of a `logging.LogRecord` that contains what `about` returned."""

_current_flow: ContextVar[Flow | None] = ContextVar("current_flow", default=None)
_current_lane: ContextVar[int | None] = ContextVar("current_lane", default=None)

_BEGINS_WITH_FLOW = re.compile(r"\s*([\w.-]+->[\w.-]+)(?:[:\s]|$)")
_RELAYED = re.compile(rf"({'|'.join(LEVELS)}) ((?:{'|'.join(OURS)})(?:\.\w+)*) (?:(\{{[^}}]*\}}) )?(.*)")


def work_for(flow: Flow) -> None:
    """Give the lines of this asyncio task, and of those that it starts from now on, the field ``flow``."""
    _current_flow.set(flow)


def work_in_lane(lane: int) -> None:
    """Give the lines of this asyncio task, and of those that it starts from now on, the field ``lane``."""
    _current_lane.set(lane)


def about(
    *, partition: TopicPartition | None = None, topic: str | None = None, flow: Flow | str | None = None
) -> dict[str, Any]:
    """Return ``extra`` for a log call whose arguments do not contain these as `Flow` and `TopicPartition`."""
    named = partition.topic if partition is not None else topic
    number = None if partition is None else partition.partition
    return {ATTRIBUTE: _known(flow=None if flow is None else str(flow), topic=named, partition=number)}


def fields_of(message: str, arguments: Iterable[object], given: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the fields of a line: ``flow``, ``topic``, ``partition`` and ``lane``, as far as it is about one.

    ``arguments`` are those of the log call, ``given`` is what `about` returned for it. The first partition among the
    arguments counts: the source's, where a line also names its copy.
    """
    flow: Flow | None = None
    partition: TopicPartition | None = None
    for one in arguments:
        if flow is None and isinstance(one, Flow):
            flow = one
        elif partition is None and isinstance(one, TopicPartition):
            partition = one
    begins = _BEGINS_WITH_FLOW.match(message)
    if flow is None and begins is None:
        flow = _current_flow.get()
    name = begins.group(1) if begins is not None and flow is None else str(flow or "")
    found = _known(flow=name or None, lane=_current_lane.get())
    if partition is not None:
        found |= {"topic": partition.topic, "partition": partition.partition}
    return found | dict(given)


def _known(**fields: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedLine:
    """A line of an engine or of a lane for the log of its node: ``WARNING flows.target.producer {"flow":"A->B"} …``."""

    level: str
    logger: str
    message: str
    fields: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        fields = f"{json.dumps(self.fields, separators=(',', ':'))} " if self.fields else ""
        return f"{self.level} {self.logger} {fields}{self.message}"

    @classmethod
    def read(cls, line: str) -> RelayedLine | None:
        """Read a line; None if it is another one, such as a line of the JVM, of a library, or of a user's code.

        Fields that this program does not write are left out.
        """
        found = _RELAYED.fullmatch(line)
        if found is None:
            return None
        level, logger, text, message = found.groups()
        try:
            fields: dict[str, Any] = json.loads(text or "{}")
        except ValueError:
            fields, message = {}, f"{text} {message}"
        known: dict[str, Any] = {one: value for one, value in fields.items() if type(value) is _FIELDS.get(one)}
        return cls(level=level, logger=logger, message=message, fields=known)


def read_levels(elements: Iterable[str]) -> dict[str, str]:
    """Return the level of each logger in elements such as ``mm2.kafka=DEBUG``. Raises ValueError, with the rule."""
    levels: dict[str, str] = {}
    for element in elements:
        name, _, level = (part.strip() for part in element.partition("="))
        if not re.fullmatch(r"\w+(\.\w+)*", name) or level.upper() not in LEVELS:
            raise ValueError(
                f"must be comma-separated loggers with levels such as mm2.kafka=DEBUG (the levels are"
                f" {', '.join(LEVELS)}), unlike {element}"
            )
        levels[name] = level.upper()
    return levels
