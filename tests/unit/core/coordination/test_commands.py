from __future__ import annotations

from mm2.core.coordination.commands import CommandRefusedError


def test_a_refused_command_says_whether_what_it_names_exists() -> None:
    unknown = CommandRefusedError("no topic nosuch", is_unknown=True)
    assert (str(unknown), unknown.is_unknown) == ("no topic nosuch", True)
    assert not CommandRefusedError("the flow has no leader").is_unknown
