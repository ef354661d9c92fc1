"""Keys of SQL flows, which have a name in the middle: ``mm2.sql.NAME.topics``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from mm2.config.grammar.java_types import ListOf, OptionalString, one_of, require
from mm2.config.grammar.values import Value
from mm2.config.keys.declaration import KeyModel, flow_key
from mm2.core.settings.row_query import LetterContent

PREFIX = "mm2.sql."
NAME = re.compile("[A-Za-z0-9_-]{1,100}")
"""Names appear in logs, metrics and messages."""

ACTIONS = ("query", "file", "transform")
"""Keys that say what is done; each name has one of them."""

LETTERS = "dead.letters"

KINDS = ("topics", *ACTIONS, LETTERS)

_FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")


def declared(kind: str) -> str:
    """Return the key of ``kind`` with ``NAME`` in the place of the name, as `SqlKeys` declares it."""
    return f"{PREFIX}NAME.{kind}"


def field_of(kind: str) -> str:
    """Return the field of `SqlKeys` for a kind of key."""
    return kind.replace(".", "_")


class SqlKeys(KeyModel):
    """The keys of one name."""

    topics: Annotated[
        ListOf, require(any, "must contain at least one topic", "list the topics, for example orders, payments.*")
    ] = flow_key(
        declared("topics"),
        (),
        "Topics whose records the query transforms: names or regular expressions, as in `topics`, which still selects "
        "what is replicated. If several names match a topic, the one whose lines come first in the file applies; "
        "topics without a query are copied as they are, and so are heartbeats.",
    )
    query: OptionalString = flow_key(
        declared("query"),
        None,
        "`SELECT … FROM records [WHERE …]` in Spark SQL, evaluated for each record. It can set `key`, `value`, "
        "`headers` and `timestamp`; what it does not set is preserved. Records for which the condition is not true are "
        "dropped.",
    )
    file: OptionalString = flow_key(
        declared("file"),
        None,
        "File with the query, in UTF-8; a relative path starts at the directory of the properties file.",
    )
    transform: Annotated[
        OptionalString,
        require(_FUNCTION.fullmatch, "must have the form module:function", "write it as in my.module:my_function"),
    ] = flow_key(
        declared("transform"),
        None,
        "Function in Python that returns Spark columns instead of a query, as `module:function`.",
    )
    dead_letters: Annotated[OptionalString, one_of(*LetterContent)] = flow_key(
        declared(LETTERS),
        None,
        "What is shown of records for which the query fails, and of batches that cannot be decoded for it: `full`, "
        "dead letters with key, value and headers, and Spark's message, which can quote them, in `/flows`, the log and "
        "recorded losses; or `without-values`, none of these. If not set: `full` for a query that drops no records and "
        "sets at most `timestamp`, `without-values` for others.",
    )


def split(key: str) -> tuple[str, str]:
    """Return name and kind of a key that begins with `PREFIX`, such as ``mask`` and ``topics``."""
    rest = key.removeprefix(PREFIX)
    for kind in KINDS:
        if rest.endswith(f".{kind}"):
            return rest.removesuffix(f".{kind}"), kind
    name, _, kind = rest.rpartition(".")
    return name, kind


def is_sql_key(key: str) -> bool:
    """Return whether ``key`` is one of a name, which can be invalid."""
    return key.startswith(PREFIX) and split(key)[1] in KINDS and bool(split(key)[0])


def is_sql_file(key: str) -> bool:
    """Return whether ``key``, as it is written with or without a flow, names the file of a query."""
    return is_sql_key(key[max(0, key.find(PREFIX)) :]) and split(key)[1] == "file"


def of_flow(everywhere: Mapping[str, Value], own: Mapping[str, Value]) -> dict[str, Value]:
    """Return the SQL keys of a flow: its ``own``, and those without a flow that they do not override.

    A query of its own replaces a file or a function of the same name, too: each name has one of them.
    """
    shared = {key: value for key, value in everywhere.items() if is_sql_key(key)}
    mine = {key: value for key, value in own.items() if is_sql_key(key)}
    replaced = {split(key)[0] for key in mine if split(key)[1] in ACTIONS}
    kept = {
        key: value for key, value in shared.items() if split(key)[1] not in ACTIONS or split(key)[0] not in replaced
    }
    return kept | mine


def names_in_order(keys: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the names of ``keys`` in the order of their first lines."""
    first: dict[str, int] = {}
    for key, value in keys.items():
        assert value.entry is not None, f"{key} has no line"
        name = split(key)[0]
        first[name] = min(value.entry.line, first.get(name, value.entry.line))
    return tuple(sorted(first, key=first.__getitem__))


def of_name(keys: Mapping[str, Value], name: str) -> dict[str, Value]:
    """Return the keys of ``name`` by their kind, in the order of `KINDS`."""
    return {kind: keys[key] for kind in KINDS if (key := f"{PREFIX}{name}.{kind}") in keys}
