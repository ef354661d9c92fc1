"""Which flows there are (mm2-compat §1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from mm2.config import keys
from mm2.config.connectors import HeartbeatSettings, SourceSettings
from mm2.config.problems import ProblemLog
from mm2.config.values import Properties, Value
from mm2.core.names import Flow

HEARTBEATS = "emit.heartbeats.enabled"


def flows(file: Properties, aliases: Sequence[str]) -> tuple[Flow, ...]:
    """Every ordered pair of different aliases that is enabled or emits heartbeats, in the order of ``aliases``.

    A flow that is not enabled exists by default, because the heartbeats of A that A->B carries are written into A by
    the heartbeat task of B->A.
    """
    return tuple(flow for flow in possible(aliases) if _enabled(file, flow) or _heartbeats(file, flow))


def possible(aliases: Sequence[str]) -> tuple[Flow, ...]:
    """Every ordered pair of different aliases."""
    return tuple(Flow(source, target) for source, target in permutations(aliases, 2))


def check_switches(file: Properties, aliases: Sequence[str], problems: ProblemLog) -> None:
    """Judge the switches of all pairs, also of those that do not exist because a switch is misspelt."""
    flows = possible(aliases)
    for prefix in ("", *(f"{flow}." for flow in flows)):
        if (heartbeats := file.get(f"{prefix}{HEARTBEATS}")) is not None:
            keys.read(HeartbeatSettings, {HEARTBEATS: heartbeats}, problems)
            _warn_of_blanks(heartbeats, problems)
    for flow in flows:
        if (enabled := file.get(f"{flow}.enabled")) is not None:
            keys.read(SourceSettings, {"enabled": enabled}, problems)
            _warn_of_blanks(enabled, problems)


def _warn_of_blanks(switch: Value, problems: ProblemLog) -> None:
    if switch.text.strip().lower() == "true" and switch.text.lower() != "true":
        assert switch.entry is not None
        problems.warning(
            "has a blank at its end, which makes it false where Java decides which flows there are. Remove the blank.",
            at=switch.entry,
        )


def _enabled(file: Properties, flow: Flow) -> bool:
    return _is_true(file, f"{flow}.enabled", default=False)


def _heartbeats(file: Properties, flow: Flow) -> bool:
    return _is_true(file, f"{flow}.{HEARTBEATS}", default=_is_true(file, HEARTBEATS, default=True))


def _is_true(file: Properties, name: str, *, default: bool) -> bool:
    # Boolean.parseBoolean on the text as it stands: "true " is false (trap T8).
    return file[name].text.lower() == "true" if name in file else default
