"""Check that every key of the file has an effect where it is written; suggestions for unknown keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import permutations, product

from mm2.config.checks import key_scopes
from mm2.config.checks.key_rules import REMOVE, KeyScope, UnknownKeyError, Weight
from mm2.config.checks.meant_keys import CLOSE, is_about_selection, meant_key, meant_sql_key
from mm2.config.checks.near_misses import NearMissRule, Purpose, bare_name, missed_purpose, purpose_of
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.clients.java_derivation import LEGACY_NAMES
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import ARROWS, FOREIGN_COMMENTS, Entry, as_utf8, escaped
from mm2.config.grammar.secrets import is_secret
from mm2.config.keys import class_keys, sql_keys
from mm2.core.naming.names import Flow

_CONSEQUENCES = {
    "enabled": "the flow is not enabled",
    "groups": "the offsets of all groups are translated",
    "topics": "all topics are replicated",
}
"""Consequences of defaults, where they are easier to understand than the default itself."""

_NO_QUERY = "records are copied without this query"

_UNKNOWN = "unknown property"

LONGEST_DEFAULT = 60
"""Characters of a default that a message shows."""

_POLICY = "replication.policy."
"""Keys with this prefix reach connectors without a flow, even if connectors do not define them."""

_ARROW = rf"\s*(?:[-=~>]|{ARROWS.pattern})[-=~>\s]*"
"""An arrow, or an attempt at one."""

_SUGGESTED = re.compile(r"(?:^write|^did you mean|,? or) ([^ ?,]+)")
"""Finds the keys that a fix suggests."""

_CLIENTS = tuple(f"{kind}." for kind in ClientKind)

_CLASS_KEYS = tuple(key.name for key in class_keys.CLASS_KEYS)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule about one line of the file, and the fix.

    ``near_miss``: what the key is for that was meant, if it selects or protects data; ``meant``: that key, without
    cluster or flow, empty if it is not clear. ``refused`` and ``ignored``: the rule of the error and of the warning
    about a near miss.
    """

    entry: Entry
    rule: str
    fix: str
    weight: Weight = Weight.WARNING
    near_miss: Purpose | None = None
    meant: str = ""
    refused: str = ""
    ignored: str = ""


def explain_no_flow(findings: Iterable[Finding]) -> bool:
    """Return whether ``findings`` explain why no flow is enabled: a key that was to enable one is misspelt."""
    return any(finding.near_miss is Purpose.ENABLES for finding in findings)


def report(findings: Iterable[Finding], problems: ProblemLog, near_misses: NearMissRule) -> None:
    """Add the errors and warnings among ``findings`` to ``problems``."""
    is_first = True
    for finding in findings:
        if finding.near_miss and near_misses.refuses(finding.entry, finding.near_miss):
            problems.error(finding.refused, finding.fix + (f"\n{AS_JAVA}" if is_first else ""), at=finding.entry)
            is_first = False
        elif finding.near_miss:
            problems.warning(finding.ignored, finding.fix, at=finding.entry)
        elif finding.weight is Weight.ERROR:
            problems.error(finding.rule, finding.fix, at=finding.entry)
        elif finding.weight is Weight.WARNING:
            problems.warning(finding.rule, finding.fix, at=finding.entry)


AS_JAVA = "or, to have such lines ignored as in Java, add mm2.unknown.keys = warn"
"""The last line of the fix of the first near miss."""


def findings(entries: Mapping[str, Entry], aliases: Sequence[str]) -> Iterator[Finding]:
    """Return the findings about single lines: keys that are unknown, or have no or another effect at their place."""
    found = {
        key: finding
        for key, entry in entries.items()
        if (finding := _foreign_comment(entry) or _finding(entry, entries, aliases)) is not None
    }
    effective = {(_core(key, aliases), entry.value.strip()) for key, entry in entries.items() if key not in found}
    for finding in found.values():
        yield _with_default(_not_again(_unless_repeated(finding, effective), entries), entries)


def _unless_repeated(finding: Finding, effective: Collection[tuple[str, str]]) -> Finding:
    """Return ``finding`` as one that is no near miss if the key is misplaced, and ``effective``, which contains names
    and values of lines that take effect, says the same: nothing is lost with the line."""
    if not finding.near_miss or finding.rule.startswith(_UNKNOWN):
        return finding
    if (finding.meant, finding.entry.value.strip()) not in effective:
        return finding
    return replace(finding, near_miss=None)


def _core(key: str, aliases: Sequence[str]) -> str:
    """Return ``key`` without cluster, flow and client."""
    name = key.partition(".")[2] if "->" in key or _alias_of(key, aliases) is not None else key
    return bare_name(name)


def _not_again(finding: Finding, entries: Mapping[str, Entry]) -> Finding:
    """Return ``finding`` with another fix if the key that it suggests is set: of two lines only the last has an effect,
    and the topics, exclusions or protection of the other would be lost."""
    if finding.entry.key == "enabled":  # the fix is about every flow
        return finding
    for key in _SUGGESTED.findall(finding.fix):
        if (other := entries.get(key)) is not None:
            return replace(finding, fix=f"{key} is in line {other.line}: correct that line, then remove this one")
    return finding


def _with_default(finding: Finding, entries: Mapping[str, Entry]) -> Finding:
    """Return ``finding`` with what its fix selects in addition: a list of exclusions replaces the default."""
    if finding.rule.startswith(key_scopes.OLD_NAME):  # the list is used already
        return finding
    for name in ("topics.exclude", "groups.exclude"):
        suggested = [key for key in _SUGGESTED.findall(finding.fix) if f".{key}".endswith(f".{name}")]
        if suggested and name not in entries:
            listed = read_list(finding.entry.value)
            lost = [one for one in read_list(key_scopes.ALONE.defaults[name]) if one not in listed]
            more = f"\nit replaces the default, so that what matches {escaped(', '.join(lost))} is no longer excluded"
            return replace(finding, fix=finding.fix + more) if lost else finding
    return finding


def _foreign_comment(entry: Entry) -> Finding | None:
    sign = next(filter(entry.key.startswith, FOREIGN_COMMENTS), None)
    if sign is None:
        return None
    return Finding(
        entry,
        f"{sign} does not start a comment in a properties file: the line is a key, which is ignored, as in Java",
        f"write # instead of {sign}",
    )


def _finding(entry: Entry, entries: Mapping[str, Entry], aliases: Sequence[str]) -> Finding | None:
    if "->" in entry.key:
        return _of_flow(entry, entries, aliases)
    if (alias := _alias_of(entry.key, aliases)) is not None:
        return _of_place(entry, entries, f"{alias}.", key_scopes.under_cluster(alias))
    if (meant := _arrow(entry, entries, aliases)) is not None:
        return meant
    stranger, dot, name = entry.key.partition(".")
    if dot and name == "bootstrap.servers":
        return _unknown_cluster(entry, stranger, aliases)
    is_cluster = f"{stranger}.bootstrap.servers" in entries or _alike(stranger, aliases) is not None
    if dot and f"{stranger}." not in _CLIENTS and is_cluster and purpose_of(name) is Purpose.PROTECTS:
        return _unknown_cluster(entry, stranger, aliases)
    return _of_place(entry, entries, "", key_scopes.ALONE, _own_classes(entries, None))


def _alias_of(key: str, aliases: Sequence[str]) -> str | None:
    """Return the longest alias that ``key`` starts with; None if the whole key is known, as an alias can be part of
    its name."""
    if key_scopes.is_known_alone(key):
        return None
    return max((alias for alias in aliases if key.startswith(f"{alias}.")), key=len, default=None)


def _of_place(
    entry: Entry, entries: Mapping[str, Entry], prefix: str, place: KeyScope, own: Sequence[str] = ()
) -> Finding | None:
    """Return the finding about a line at ``place``. ``own``: user classes, which can have keys of their own."""
    name = entry.key.removeprefix(prefix)
    try:
        remark = place.judge(name, entry.value)
    except UnknownKeyError as unknown:
        meant = meant_sql_key(name) if place.has_queries else None
        if meant is None and not name.startswith(sql_keys.PREFIX):
            meant = meant_key(name, unknown.candidates)
        if own and (not meant or name.startswith(_POLICY)) and not _is_for_query(name):
            return _for_own(entry, prefix, own)
        purpose = None if own and prefix and not _is_for_query(name) else missed_purpose(name, meant)
        consequence = "" if meant is None else _consequence(meant, prefix, place, entries)
        if is_secret(meant, entry.raw) if meant is not None else purpose is Purpose.PROTECTS:
            entry = replace(entry, hidden=True)
        fix = _unclear(name, prefix, place, purpose) if meant is None else f"did you mean {prefix}{meant}?"
        return _unknown(entry, fix, purpose, bare_name(meant or ""), consequence)
    if remark is None:
        return None
    finding = Finding(entry, remark.rule, remark.fix, remark.weight)
    purpose = purpose_of(name) if remark.is_misplaced and remark.weight is Weight.WARNING else None
    bare = bare_name(LEGACY_NAMES.get(name, name))
    return _misplaced(finding, purpose, bare, _consequence(bare, prefix, key_scopes.ALONE, {}))


def _unknown(entry: Entry, fix: str, purpose: Purpose | None, meant: str = "", consequence: str = "") -> Finding:
    """Return the finding about an unknown key. ``purpose``, ``meant``: as in `Finding`."""
    so = f", so {consequence}" if consequence else ""
    finding = Finding(entry, f"{_UNKNOWN}, ignored{so}", fix)
    if purpose is None:
        return finding
    why = f"; ignoring it means that {consequence}" if consequence else f", similar to one that {purpose}"
    as_java = "" if purpose is Purpose.TRANSFORMS else " as in Java"
    return replace(
        finding, near_miss=purpose, meant=meant, refused=_UNKNOWN + why, ignored=f"{_UNKNOWN}, ignored{as_java}{so}"
    )


def _misplaced(finding: Finding, purpose: Purpose | None, name: str, consequence: str = "") -> Finding:
    """Return ``finding`` as a near miss of ``name``, which has an effect elsewhere, if it has a ``purpose``."""
    if purpose is None:
        return finding
    rule = f"{finding.rule}, so {consequence}" if consequence else finding.rule
    return replace(finding, near_miss=purpose, meant=name, refused=rule, ignored=rule)


def _is_for_query(name: str) -> bool:
    """Return whether an unknown key was to be one of a query, whatever classes the file names."""
    return meant_sql_key(name) is not None or name.startswith(sql_keys.PREFIX)


def _unclear(name: str, prefix: str, place: KeyScope, purpose: Purpose | None) -> str:
    """Return the fix for an unknown key of which it is not clear what was meant."""
    if purpose is Purpose.PROTECTS:
        return (
            "find the key that was meant in docs/reference/configuration.md; remove this line if the connections are "
            "protected without it"
        )
    if not is_about_selection(name) and purpose is None:
        return REMOVE
    if name.startswith(sql_keys.PREFIX):
        first = name.removeprefix(sql_keys.PREFIX).partition(".")[0]
        kinds = [f"{prefix}{sql_keys.PREFIX}{first}.{kind}" for kind in sql_keys.KINDS]
        return f"write one of {', '.join(kinds)}"
    if (meant := meant_key(name, key_scopes.ALONE.candidates)) is not None and prefix and not place.has_queries:
        alias = prefix.removesuffix(".")
        return f"did you mean {alias}->X.{meant} or X->{alias}.{meant} for one flow, or {meant} for all?"
    return "find the key that was meant in docs/reference/configuration.md, and write that one"


def _consequence(meant: str, prefix: str, place: KeyScope, entries: Mapping[str, Entry]) -> str:
    """Return which default applies, as the line that was to set ``meant`` is ignored; empty if another line sets it."""
    if meant.startswith(sql_keys.PREFIX):
        return _NO_QUERY
    default = place.defaults.get(meant)
    if default is None or _is_set(meant, prefix, entries):
        return ""
    if meant in _CONSEQUENCES:
        return _CONSEQUENCES[meant]
    shown = f"default {meant} = {default}" if len(default) <= LONGEST_DEFAULT else f"default of {meant}"
    return f"the {shown} applies"


def _is_set(name: str, prefix: str, entries: Mapping[str, Entry]) -> bool:
    """Return whether another line sets ``name`` for ``prefix``, or can: client properties can be set at many levels,
    and a key without prefix for each flow."""
    if name in entries or f"{prefix}{name}" in entries:
        return True
    return (not prefix or name.startswith(_CLIENTS)) and any(key.endswith(f".{name}") for key in entries)


def _for_own(entry: Entry, prefix: str, own: Sequence[str]) -> Finding:
    classes = ", ".join(own)
    if prefix or entry.key.startswith(_POLICY):
        return Finding(entry, f"passed to {classes}", "", Weight.NOTE)
    return Finding(entry, "has no effect without a flow, as in Java", f"write A->B.{entry.key} to pass it to {classes}")


def _own_classes(entries: Mapping[str, Entry], flow: Flow | None) -> tuple[str, ...]:
    """Return the user classes of ``flow``, or of the whole file if it is None."""
    if flow is None:
        found = [entry for name, entry in entries.items() if name.endswith(_CLASS_KEYS)]
    else:
        found = [entries[name] for key in _CLASS_KEYS for name in (f"{flow}.{key}", key) if name in entries]
    return tuple(sorted({entry.value.strip() for entry in found if class_keys.is_own(entry.value)}))


def _unknown_cluster(entry: Entry, alias: str, aliases: Sequence[str]) -> Finding:
    meant = _alike(alias, aliases)
    name = entry.key.removeprefix(f"{alias}.")
    rule = f"has no effect: {alias} is not in clusters"
    if meant is None:
        return Finding(entry, rule, f"add {alias} to clusters, or remove the line")
    return _misplaced(Finding(entry, rule, f"did you mean {meant}.{name}?"), purpose_of(name), bare_name(name))


def _of_flow(entry: Entry, entries: Mapping[str, Entry], aliases: Sequence[str]) -> Finding | None:
    flows = [Flow(source, target) for source, target in product(aliases, repeat=2)]
    flow = max(
        (flow for flow in flows if entry.key.startswith(f"{flow}.")), key=lambda flow: len(str(flow)), default=None
    )
    if flow is None:
        return _no_dot(entry, flows) or _arrow(entry, entries, aliases) or _unknown_flow(entry, aliases)
    if flow.source == flow.target:
        return Finding(entry, "has no effect: source and target are the same cluster", REMOVE)
    return _of_place(entry, entries, f"{flow}.", key_scopes.under_flow(flow), _own_classes(entries, flow))


def _no_dot(entry: Entry, flows: Sequence[Flow]) -> Finding | None:
    """Return the finding about ``A->B->topics``, ``A->B`` or ``A->B .topics``."""
    for flow in flows:
        if entry.key == str(flow) or entry.key.startswith(f"{flow}->"):
            behind = _BEHIND_SPACE.match(entry.value) if entry.key == str(flow) else None
            name = entry.key.removeprefix(str(flow)).lstrip("->") or (behind["name"] if behind else "enabled")
            rule = "has no effect: a dot must follow the flow"
            finding = Finding(entry, rule, f"did you mean {flow}.{name}?")
            return _misplaced(finding, purpose_of(name), bare_name(name), _CONSEQUENCES.get(name, ""))
    return None


_BEHIND_SPACE = re.compile(r"\.(?P<name>[\w.]+)\s*[=:]")
"""The rest of a key behind a space, in the value."""


def _unknown_flow(entry: Entry, aliases: Sequence[str]) -> Finding:
    source, _, rest = entry.key.partition("->")
    target, _, name = rest.partition(".")
    unknown = [alias for alias in (source, target) if alias not in aliases]
    meant = [alias if alias in aliases else _alike(alias, aliases) for alias in (source, target)]
    missing = " and ".join(unknown)
    rule = f"has no effect: {missing} {'is' if len(unknown) == 1 else 'are'} not in clusters"
    if not all(meant):
        weight = Weight.ERROR if name == "enabled" and entry.value.strip().lower() == "true" else Weight.WARNING
        return Finding(entry, rule, f"add {missing} to clusters, or {REMOVE}", weight)
    fix = f"did you mean {meant[0]}->{meant[1]}.{name}?"
    if name == "enabled" and entry.value.strip().lower() == "true":
        return Finding(entry, rule, fix, Weight.ERROR)
    return _misplaced(Finding(entry, rule, fix), purpose_of(name), bare_name(name), _CONSEQUENCES.get(name, ""))


def _arrow(entry: Entry, entries: Mapping[str, Entry], aliases: Sequence[str]) -> Finding | None:
    """Return the finding about a key with another arrow than ``->``: ``A-B.enabled``, ``A→B.enabled``, ``A -> B``.

    A space or an equals sign ends the key, so the rest of it is in the value.
    """
    text = as_utf8(entry.key)
    if entry.key in aliases or entry.key.endswith(("-", ">", "=")):
        text += " " + as_utf8(entry.value)
    for source, target in permutations(sorted(aliases, key=len, reverse=True), 2):
        match = re.match(rf"{re.escape(source)}{_ARROW}{re.escape(target)}(?:\.([^=:\s]+)|[=:\s]|\Z)", text)
        if match is not None:
            flow, name = Flow(source, target), match[1] or "enabled"
            place = key_scopes.under_flow(flow)
            try:
                place.judge(name, entry.value)
            except UnknownKeyError as unknown:
                name = meant_sql_key(name) or meant_key(name, unknown.candidates) or name
            consequence = _consequence(name, f"{flow}.", place, entries)
            fix = f"did you mean {flow}.{name}?"
            return _unknown(entry, fix, missed_purpose(name, name), bare_name(name), consequence)
    return _unknown(entry, REMOVE, None) if entry.key in aliases else None


def _alike(alias: str, aliases: Sequence[str]) -> str | None:
    lower = {known.lower(): known for known in aliases}
    close = get_close_matches(alias.lower(), sorted(lower), n=1, cutoff=CLOSE)
    return lower[close[0]] if close else None
