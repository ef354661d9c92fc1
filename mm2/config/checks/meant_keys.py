"""Finds the key that an unknown one was probably meant to be.

A guess that is wrong can do more harm than none: with ``topics.exclude`` in the place of ``topics.includes`` the
topics are excluded that were to be replicated. So other names that many files contain are in tables, and what merely
looks similar must be about the same thing: topics or groups, configs or ACLs, what is selected or what is excluded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from mm2.config.keys import sql_keys

CLOSE = 0.8
"""Ratio from which two names count as similar: one typing error in a short word, two in a long one."""

_CLOSE_WORD = 0.7
"""The same for one word of a name, which only has to differ from few others."""

_EXCLUDE = "exclude"
_INCLUDE = "include"
_SUBJECTS = ("topic", "group", "config", "acl", "heartbeat", "checkpoint", "offset")

_WORDS: Mapping[str, str] = {
    **{word: subject for subject in _SUBJECTS for word in (subject, f"{subject}s")},
    **dict.fromkeys(
        (
            *(
                "blacklist",
                "blacklists",
                "blacklisted",
                "denied",
                "deny",
                "denylist",
                "exclude",
                "excluded",
                "excludes",
            ),
            *("excluding", "exclusion", "exclusions", "ignore", "ignored", "skip", "without"),
        ),
        _EXCLUDE,
    ),
    **dict.fromkeys(
        (
            *("allow", "allowed", "allowlist", "include", "included", "includes", "including", "inclusion"),
            *("inclusions", "only", "select", "selected", "whitelist", "whitelisted", "whitelists"),
        ),
        _INCLUDE,
    ),
    "configuration": "config",
    "configurations": "config",
}
"""Words of names, in lower case, and what they are about."""

_ELSE = frozenset(("consumer", "consumers", "list", "mirror", "names", "pattern", "patterns", "regex", "source"))
"""Words that users add to names of lists of topics or groups."""

_LISTS: Mapping[frozenset[str], str] = {
    frozenset(("topic",)): "topics",
    frozenset(("topic", _INCLUDE)): "topics",
    frozenset(("topic", _EXCLUDE)): "topics.exclude",
    frozenset(("group",)): "groups",
    frozenset(("group", _INCLUDE)): "groups",
    frozenset(("group", _EXCLUDE)): "groups.exclude",
    frozenset(("config", _EXCLUDE)): "config.properties.exclude",
    frozenset(("topic", "config", _EXCLUDE)): "config.properties.exclude",
    frozenset((_INCLUDE,)): "topics",
    frozenset((_EXCLUDE,)): "topics.exclude",
}
"""Keys of lists, by what their other names are about, such as ``topic.blacklist`` and ``exclude.topics``."""

_PROPERTIES = frozenset(("properties", "property"))

_OTHER_NAMES: Mapping[str, str] = {
    "enable": "enabled",
    "num.streams": "tasks.max",
    "num.tasks": "tasks.max",
    "max.tasks": "tasks.max",
    "separator": "replication.policy.separator",
    "sync.topics.acls.enable": "sync.topic.acls.enabled",
    "sync.topics.configs.enable": "sync.topic.configs.enabled",
    "sync.consumer.offsets.enabled": "sync.group.offsets.enabled",
    "sync.offsets.enabled": "sync.group.offsets.enabled",
    "sync.group.offset.enabled": "sync.group.offsets.enabled",
    "sync.group.offsets": "sync.group.offsets.enabled",
    "emit.heartbeat.enabled": "emit.heartbeats.enabled",
    "emit.checkpoint.enabled": "emit.checkpoints.enabled",
}
"""Names that many files contain, some of them from Apache's own documentation."""

_ENDING_NAMES = {".path": ".location", ".file": ".location", ".pass": ".password", ".passwd": ".password"}
_ENDINGS = re.compile(r"\.(?:path|file|pass|passwd)\Z")
"""Other names for the ends of keys, such as that of ``ssl.truststore.path``."""

_SQL_KINDS: Mapping[str, str] = {
    **{kind: kind for kind in sql_keys.KINDS},
    **dict.fromkeys(("topic", "topics.include", "topics.whitelist", "include", "sources", "from"), "topics"),
    **dict.fromkeys(("sql", "select", "statement", "queries"), "query"),
    **dict.fromkeys(("path", "query.file", "sql.file", "filename"), "file"),
    **dict.fromkeys(("function", "python", "udf", "transforms"), "transform"),
}
"""Other names of the last part of ``mm2.sql.NAME.…``."""

_SQL = re.compile(r"(?:mm2?[._-]+)?(?:sqls?|query|queries)[._-]+(?P<rest>.+)", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def meant_key(name: str, candidates: Collection[str]) -> str | None:
    """Return the one of ``candidates`` that ``name``, an unknown key at their place, was meant to be; None: unclear."""
    lower = _CAMEL.sub(".", name).lower() if name != name.upper() else name.lower()
    if (known := _OTHER_NAMES.get(lower)) in candidates:
        return known
    if (renamed := _ENDINGS.sub(lambda match: _ENDING_NAMES[match[0]], lower)) != lower and renamed in candidates:
        return renamed
    if f"{lower}.enabled" in candidates:
        return f"{lower}.enabled"
    if (listed := _list_key(lower)) in candidates:
        return listed
    same = [candidate for candidate in sorted(candidates) if _may_mean(lower, candidate)]
    close = get_close_matches(lower, same, n=1, cutoff=CLOSE)
    return close[0] if close else None


def meant_sql_key(name: str) -> str | None:
    """Return the key of a query that ``name`` was meant to be; None: unclear.

    ``mm2.sql.mask.topics`` for ``mm2.sql.mask.topic`` and ``sql.mask.topics``; ``NAME`` is in the place of a missing
    name.
    """
    match = _SQL.fullmatch(name)
    rest = match["rest"] if match is not None else _after_misspelt_prefix(name)
    if rest is None:
        return None
    first, _, kind = rest.partition(".")
    if not kind:
        first, kind = "NAME", first
    lower = kind.lower()
    meant = _SQL_KINDS.get(lower)
    if meant is None:
        meant = next(iter(get_close_matches(lower, sql_keys.KINDS, n=1, cutoff=_CLOSE_WORD)), None)
    return None if meant is None else f"{sql_keys.PREFIX}{first}.{meant}"


def _after_misspelt_prefix(name: str) -> str | None:
    """Return what follows a first part that was meant as ``mm2.sql``, such as ``mm2.slq``; None: there is none."""
    words = re.split(r"([._-])", name)
    for size in (3, 1):
        first, rest = "".join(words[:size]).lower(), "".join(words[size + 1 :])
        if rest and SequenceMatcher(None, first, sql_keys.PREFIX.rstrip(".")).ratio() >= CLOSE:
            return rest
    return None


def asks_for_selection(name: str) -> bool:
    """Return whether an unknown key, of which it is not clear what was meant, was to select topics or groups, or to
    exclude them."""
    about = _about(name.lower())
    return bool(about & {"topic", "group"}) and bool(about & {_INCLUDE, _EXCLUDE})


def asks_for_query(name: str) -> bool:
    """Return whether an unknown key was to be part of a query."""
    return _SQL.match(name) is not None or _after_misspelt_prefix(name) is not None


def is_about_selection(name: str) -> bool:
    """Return whether an unknown key can have been meant to select or to exclude something, or to be part of a query: a
    line that must not simply be removed."""
    return bool(_about(name.lower()) & {"topic", "group", _INCLUDE, _EXCLUDE}) or _SQL.match(name) is not None


def _list_key(name: str) -> str | None:
    words = re.split(r"[._-]+", name)
    about = frozenset(_about(name))
    others = [word for word in words if _word(word) is None and word not in _ELSE]
    if "config" in about:
        others = [word for word in others if word not in _PROPERTIES]
    return None if others else _LISTS.get(about)


def _may_mean(name: str, candidate: str) -> bool:
    """Return whether ``candidate`` is about what ``name`` is about, as far as the words of ``name`` tell."""
    own, other = _about(name), _about(candidate)
    if (_EXCLUDE in own) != (_EXCLUDE in other):
        return False
    return own - {_INCLUDE} <= other and not (_INCLUDE in own and _EXCLUDE in other)


@lru_cache(maxsize=4096)
def _about(name: str) -> frozenset[str]:
    return frozenset(about for word in re.split(r"[._-]+", name) if (about := _word(word)) is not None)


@lru_cache(maxsize=4096)
def _word(word: str) -> str | None:
    """Return what ``word`` is about, also if it is misspelt."""
    if word in _WORDS:
        return _WORDS[word]
    if len(word) < 3:
        return None
    ratio, best = max((SequenceMatcher(None, word, known).ratio(), known) for known in _WORDS)
    return _WORDS[best] if ratio >= (_CLOSE_WORD if len(word) > 5 else CLOSE) else None
