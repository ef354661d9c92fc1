"""The flows of a file (Kafka: MirrorMakerConfig.clusterPairs)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from mm2.config.clients import java_derivation
from mm2.config.grammar.comments import no_comment
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.connector_keys import HeartbeatSettings, SourceSettings
from mm2.core.naming.names import Flow

HEARTBEATS = java_derivation.HEARTBEATS


def flows(file: Properties, aliases: Sequence[str]) -> tuple[Flow, ...]:
    """Return every ordered pair of different aliases that is enabled or emits heartbeats, in the order of ``aliases``.

    By default a flow exists even if it is not enabled: the heartbeats of A that A->B replicates are written to A by the
    heartbeat task of B->A.
    """
    return tuple(flow for flow in possible(aliases) if _enabled(file, flow) or _heartbeats(file, flow))


def possible(aliases: Sequence[str]) -> tuple[Flow, ...]:
    """Return every ordered pair of different aliases."""
    return tuple(Flow(source, target) for source, target in permutations(aliases, 2))


def check_switches(file: Properties, aliases: Sequence[str], problems: ProblemLog) -> None:
    """Check the switches of all pairs, including those that do not exist because the value is invalid."""
    for prefix in ("", *(f"{flow}." for flow in possible(aliases))):
        for name, model in ((HEARTBEATS, HeartbeatSettings), ("enabled", SourceSettings)):
            switch = file.get(f"{prefix}{name}")
            if switch is None:
                continue
            if java_derivation.reads_as_false(switch):
                _warn_of_false(switch, problems)
            else:
                declaration.read(model, {name: switch}, problems)
                _warn_of_trailing_space(switch, problems)


def _warn_of_false(switch: Value, problems: ProblemLog) -> None:
    assert switch.entry is not None
    comment = no_comment(switch.entry)
    problems.warning(
        f"is read as false, as in Java{f': {comment}' if comment else ''}",
        f"{'move the comment to its own line, and ' if comment else ''}write {switch.entry.key} = false",
        at=switch.entry,
    )


def _warn_of_trailing_space(switch: Value, problems: ProblemLog) -> None:
    if switch.text.strip().lower() == "true" and switch.text.lower() != "true":
        assert switch.entry is not None
        problems.warning(
            "ends with whitespace, so Java reads it as false when it creates flows",
            f"write {switch.entry.key} = true without whitespace after it",
            at=switch.entry,
        )


def enabled(file: Properties, flows: Iterable[Flow]) -> tuple[Flow, ...]:
    """Return those of ``flows`` that replicate."""
    return tuple(flow for flow in flows if _enabled(file, flow))


def _enabled(file: Properties, flow: Flow) -> bool:
    return _is_true(file, f"{flow}.enabled", default=False)


def _heartbeats(file: Properties, flow: Flow) -> bool:
    return _is_true(file, f"{flow}.{HEARTBEATS}", default=_is_true(file, HEARTBEATS, default=True))


def _is_true(file: Properties, name: str, *, default: bool) -> bool:
    # Boolean.parseBoolean on the untrimmed text: "true " is false.
    return file[name].text.lower() == "true" if name in file else default
