"""Reader of the SQL keys of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.config.flow_checks import check_elements
from mm2.config.grammar.java_types import one_of_words
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.class_loading import load
from mm2.config.keys.sql_keys import ACTIONS, NAME, PREFIX, SqlKeys, declared, names_in_order, of_name
from mm2.config.plugins.filters import read_pattern
from mm2.config.sql.query_source import QueryInLine, QuerySource, read_query_file
from mm2.config.sql.topic_queries import TopicQueries, TopicQuery
from mm2.core.settings.row_query import LetterContent, RowQuery, RowTransform

_CHECK = "mm2.config.sql.query_parser:check_query"
"""Loaded for the first query: sqlglot takes half a second to import, and flows without queries do not need it."""

_EXAMPLE = "SELECT … FROM records"
_EVERYTHING = (".*", ".+")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReader:
    """Reads the SQL keys of one flow (`mm2.config.keys.sql_keys.of_flow`). Errors are added to ``problems``, and names
    with errors are left out. ``directory`` is that of the properties file. ``enabled``: the flow replicates; one that
    does not can have names without topics or without a query, which other flows complete."""

    keys: Properties
    enabled: bool
    directory: Path
    problems: ProblemLog

    def read(self) -> TopicQueries:
        """Return the queries in the order of the file."""
        found: list[TopicQuery] = []
        for name in names_in_order(self.keys):
            keys = of_name(self.keys, name)
            if NAME.fullmatch(name) is None:
                self._refuse_name(name, keys)
            elif (query := self._query(name, keys)) is not None:
                self._warn_if_hidden(keys["topics"], found)
                found.append(query)
        return TopicQueries(tuple(found))

    def _refuse_name(self, name: str, keys: Mapping[str, Value]) -> None:
        for kind, value in keys.items():
            value.refuse(
                self.problems,
                f"{name} is not a valid name: it must have 1 to 100 letters, digits, hyphens and underscores",
                f"choose another name, as in {PREFIX}mask.{kind}",
            )

    def _query(self, name: str, keys: Mapping[str, Value]) -> TopicQuery | None:
        settings = declaration.read(SqlKeys, {declared(kind): value for kind, value in keys.items()}, self.problems)
        first = next(iter(keys.values()))
        action: RowQuery | RowTransform | None = None
        actions = [kind for kind in ACTIONS if kind in keys]
        if len(actions) == 1:
            action = self._action(settings, keys, actions[0])
        elif actions or self.enabled:
            self._refuse_actions(name, keys, actions)
        if "topics" not in keys:
            if self.enabled:
                first.refuse(
                    self.problems,
                    f"{PREFIX}{name}.topics is missing, so the query applies to no topic",
                    f"add {self._prefix(first)}{PREFIX}{name}.topics with a list of topics",
                )
            return None
        topics = read_pattern("topics", settings.topics, keys, self.problems)
        check_elements(keys["topics"], self.problems)
        if action is None or not topics.elements:
            return None
        letters = settings.dead_letters
        hides_values = action.may_hide if letters is None else letters == LetterContent.WITHOUT_VALUES
        return TopicQuery(name=name, topics=topics, action=action, hides_values=hides_values)

    def _refuse_actions(self, name: str, keys: Mapping[str, Value], actions: Sequence[str]) -> None:
        names = one_of_words(ACTIONS)
        if not actions:
            topics = keys["topics"]
            topics.refuse(
                self.problems,
                f"there is no query for these topics: {PREFIX}{name} needs {names}",
                f"add {self._prefix(topics)}{PREFIX}{name}.query = {_EXAMPLE}",
            )
        for kind in actions[1:]:
            keys[kind].refuse(
                self.problems,
                f"cannot be combined with {PREFIX}{name}.{actions[0]}: a name has one of {names}",
                "remove one of the two lines, or choose another name for one of them",
            )

    def _prefix(self, value: Value) -> str:
        """Return what is before the SQL key in the file, such as ``A->B.``."""
        assert value.entry is not None
        return value.entry.key.partition(PREFIX)[0]

    def _action(self, settings: SqlKeys, keys: Mapping[str, Value], kind: str) -> RowQuery | RowTransform | None:
        value = keys[kind]
        assert value.entry is not None
        if value.entry.broken:
            return None
        if kind == "query":
            return self._checked(value, QueryInLine(value.entry))
        if kind == "file":
            source = read_query_file(value, self.directory, self.problems)
            return None if source is None else self._checked(value, source)
        if not settings.transform:
            return None  # invalid, which is reported
        module, _, function = settings.transform.partition(":")
        return RowTransform(module=module, function=function)

    def _checked(self, value: Value, source: QuerySource) -> RowQuery | None:
        assert value.entry is not None
        checked = load(_CHECK)(source.text, source.stored_text)
        for finding in checked.findings:
            self.problems.within(
                value.entry, source.place(finding.offset), finding.rule, finding.fix, is_warning=finding.is_warning
            )
        query: RowQuery | None = checked.query
        return query

    def _warn_if_hidden(self, topics: Value, earlier: Sequence[TopicQuery]) -> None:
        """Warn about a name that never applies, because an earlier one applies to every topic."""
        for query in earlier:
            if any(element in _EVERYTHING for element in query.topics.elements):
                topics.warn(
                    self.problems,
                    f"never applies: {query.name}, which comes first in the file, applies to every topic",
                    f"move the lines of {query.name} to the end, or limit its topics",
                )
                return
