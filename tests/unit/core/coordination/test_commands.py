from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mm2.core.coordination.commands import CommandRefusedError, as_message, called_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    command: ClassVar[str] = "named"
    topic: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nameless:
    command: ClassVar[str] = "nameless"
    topic: str


def test_a_refused_command_says_whether_what_it_names_exists() -> None:
    unknown = CommandRefusedError("no topic nosuch", is_unknown=True)
    assert (str(unknown), unknown.is_unknown) == ("no topic nosuch", True)
    assert not CommandRefusedError("the flow has no leader").is_unknown


def test_a_command_gets_the_name_of_who_sent_it_if_it_records_that() -> None:
    assert as_message(called_by(Named(topic="t"), "ann")) == {"command": "named", "topic": "t", "by": "ann"}
    assert as_message(called_by(Nameless(topic="t"), "ann")) == {"command": "nameless", "topic": "t"}
