"""Is every key of the file one that somebody reads? Unknown ones are named, with what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from itertools import product

from mm2.config import class_names, scopes
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry
from mm2.core.names import Flow

_CLOSE = 0.8
"""Ratio from which two names count as alike: one slip in a short word, two in a long one."""

_MEANT = {
    "blacklist": "topics.exclude",
    "enable": "enabled",
    "groups.include": "groups",
    "groups.whitelist": "groups",
    "topics.include": "topics",
    "topics.whitelist": "topics",
    "whitelist": "topics",
}
"""Forms that stand in many files, some in Apache's own documentation."""


_POLICY = "replication.policy."
"""What reaches a flow's connectors though it stands alone and is no key of theirs."""

_CLASS_KEYS = tuple(key.name for key in class_names.CLASS_KEYS)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to say about one line of the file, ``only_if_sound``: unless its value is refused."""

    entry: Entry
    text: str
    weight: Weight
    only_if_sound: bool = False


class Weight(Enum):
    """How a finding is told: as an error, as a warning, or only to who asks (``mm2 explain``)."""

    ERROR = auto()
    WARNING = auto()
    NOTE = auto()


def report(findings: Iterable[Finding], problems: ProblemLog) -> None:
    """Tell errors and warnings, after everything else has been read: what is refused is not also "accepted"."""
    for finding in findings:
        if finding.only_if_sound and problems.has_error_at(finding.entry):
            continue
        if finding.weight is Weight.ERROR:
            problems.error(finding.text, at=finding.entry)
        elif finding.weight is Weight.WARNING:
            problems.warning(finding.text, at=finding.entry)


def findings(entries: Mapping[str, Entry], aliases: Sequence[str]) -> Iterator[Finding]:
    """What the place of every line makes of it, where that may not be what was meant."""
    for entry in entries.values():
        if (found := _finding(entry, entries, aliases)) is not None:
            yield found


def _finding(entry: Entry, entries: Mapping[str, Entry], aliases: Sequence[str]) -> Finding | None:
    if "->" in entry.key:
        return _of_flow(entry, entries, aliases)
    if (alias := _alias_of(entry.key, aliases)) is not None:
        return _of_place(entry, f"{alias}.", scopes.under_cluster(alias))
    if entry.key in aliases:
        return _blank_in_arrow(entry)
    stranger, dot, name = entry.key.partition(".")
    if dot and name == "bootstrap.servers":
        return _unknown_cluster(entry, stranger, aliases)
    return _of_place(entry, "", scopes.ALONE, _own_classes(entries, None))


def _alias_of(key: str, aliases: Sequence[str]) -> str | None:
    """The longest alias in front of ``key``; none where the key as a whole is known: an alias may be called so."""
    if scopes.is_known_alone(key):
        return None
    return max((alias for alias in aliases if key.startswith(f"{alias}.")), key=len, default=None)


def _of_place(entry: Entry, prefix: str, place: scopes.Place, own: Sequence[str] = ()) -> Finding | None:
    """``own``: classes of a user's own, which may have keys of their own."""
    name = entry.key.removeprefix(prefix)
    try:
        remark = place.judge(name, entry.value)
    except scopes.UnknownKeyError as unknown:
        meant = _meant(name, unknown.candidates)
        if own and (not meant or name.startswith(_POLICY)):
            return _for_own(entry, prefix, own)
        repair = f"Did you mean {prefix}{meant}?" if meant else "Remove the line."
        return _warning(entry, f"is no key of MirrorMaker, so it has no effect. {repair}")
    if remark is None:
        return None
    return Finding(entry, remark.text, Weight.WARNING if remark.loud else Weight.NOTE, remark.only_if_sound)


def _for_own(entry: Entry, prefix: str, own: Sequence[str]) -> Finding:
    if prefix or entry.key.startswith(_POLICY):
        return Finding(entry, f"is no key of MirrorMaker: it is told to {', '.join(own)}.", Weight.NOTE)
    return _warning(entry, f"has no effect alone, as in Java. Write A->B.{entry.key} for {', '.join(own)} to be told.")


def _own_classes(entries: Mapping[str, Entry], flow: Flow | None) -> tuple[str, ...]:
    """The classes of a user's own that ``flow`` has; without one, those of the whole file."""
    if flow is None:
        found = [entry for name, entry in entries.items() if name.endswith(_CLASS_KEYS)]
    else:
        found = [entries[name] for key in _CLASS_KEYS for name in (f"{flow}.{key}", key) if name in entries]
    return tuple(sorted({entry.value.strip() for entry in found if class_names.is_own(entry.value)}))


def _meant(name: str, candidates: frozenset[str]) -> str | None:
    if _MEANT.get(name) in candidates:
        return _MEANT[name]
    if f"{name}.enabled" in candidates:
        return f"{name}.enabled"
    close = get_close_matches(name, sorted(candidates), n=1, cutoff=_CLOSE)
    return close[0] if close else None


def _unknown_cluster(entry: Entry, alias: str, aliases: Sequence[str]) -> Finding:
    meant = _alike(alias, aliases)
    repair = f"Did you mean {meant}?" if meant else "Add it there, or remove the line."
    return _warning(entry, f"has no effect: {alias} is not in clusters. {repair}")


def _of_flow(entry: Entry, entries: Mapping[str, Entry], aliases: Sequence[str]) -> Finding | None:
    flows = [Flow(source, target) for source, target in product(aliases, repeat=2)]
    flow = max(
        (flow for flow in flows if entry.key.startswith(f"{flow}.")), key=lambda flow: len(str(flow)), default=None
    )
    if flow is None:
        return _no_dot(entry, flows) or _unknown_flow(entry, aliases)
    if flow.source == flow.target:
        return _warning(entry, "has no effect: no flow runs from a cluster to itself, as in Java. Remove the line.")
    return _of_place(entry, f"{flow}.", scopes.under_flow(flow), _own_classes(entries, flow))


def _no_dot(entry: Entry, flows: Sequence[Flow]) -> Finding | None:
    """``A->B->topics``, ``A->B``."""
    for flow in flows:
        if entry.key == str(flow) or entry.key.startswith(f"{flow}->"):
            name = entry.key.removeprefix(str(flow)).lstrip("->") or "enabled"
            return _warning(entry, f"has no effect: a dot must follow the flow. Did you mean {flow}.{name}?")
    return None


def _unknown_flow(entry: Entry, aliases: Sequence[str]) -> Finding:
    source, _, rest = entry.key.partition("->")
    target, _, name = rest.partition(".")
    strangers = [alias for alias in (source, target) if alias not in aliases]
    meant = [alias if alias in aliases else _alike(alias, aliases) for alias in (source, target)]
    text = f"has no effect: {' and '.join(strangers)} {'is' if len(strangers) == 1 else 'are'} not in clusters. " + (
        f"Did you mean {meant[0]}->{meant[1]}.{name}?"
        if all(meant)
        else "Add what is missing there, or remove the line."
    )
    enables = name == "enabled" and entry.value.strip().lower() == "true"
    return Finding(entry, text, Weight.ERROR if enables else Weight.WARNING)


def _blank_in_arrow(entry: Entry) -> Finding:
    """``A -> B.enabled = true`` is key A with the value ``-> B.enabled = true``."""
    rest = entry.value.lstrip("->= ").partition("=")[0].strip()
    if not entry.value.startswith(("->", "=>", ">")) or not rest:
        return _warning(entry, "is no key of MirrorMaker, so it has no effect. Remove the line.")
    return _warning(
        entry,
        f"has no effect: a blank ends a key. Write {entry.key}->{rest} without blanks around the arrow.",
    )


def _warning(entry: Entry, text: str) -> Finding:
    return Finding(entry, text, Weight.WARNING)


def _alike(alias: str, aliases: Sequence[str]) -> str | None:
    lower = {known.lower(): known for known in aliases}
    close = get_close_matches(alias.lower(), sorted(lower), n=1, cutoff=_CLOSE)
    return lower[close[0]] if close else None
