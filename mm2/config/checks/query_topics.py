"""Check for queries that apply to no topic: a misspelt name, for which records are copied as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from mm2.config.checks.meant_keys import CLOSE
from mm2.config.flows import FlowProperties
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import ProblemLog, shortened
from mm2.config.grammar.properties import escaped
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import sql_keys
from mm2.config.plugins.filters import NameFilter, NamePattern, SlowPatternError
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.settings import FlowSettings

_NAME = re.compile("[A-Za-z0-9._-]+")
"""A topic name. As a regular expression, it matches the topic and few others."""


def check_query_topics(properties: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Add a warning for each element of a query's topics that can match no topic.

    ``flows`` are all of the file; a line can apply to several. What is not a name is only judged if ``topics`` of the
    flow are names. Filters of users are not asked.
    """
    lines: dict[str, tuple[Value, list[FlowSettings]]] = {}
    for flow in flows:
        if flow.enabled:
            for topics in _lines(FlowProperties.of(properties, flow.flow).sql):
                assert topics.entry is not None
                lines.setdefault(topics.entry.key, (topics, []))[1].append(flow)
    for topics, those in lines.values():
        filters = [flow.topic_filter for flow in those]
        if not all(isinstance(one, NameFilter) for one in filters):
            continue
        elements = read_list(topics.text)
        names = [name for flow in those for name in flow.source.topics]
        for element in filter(None, elements):
            if all(_misses(element, flow) for flow in those):
                _warn(topics, elements, element, names, problems)


def _lines(keys: Mapping[str, Value]) -> Iterator[Value]:
    for name in sql_keys.names_in_order(keys):
        of_name = sql_keys.of_name(keys, name)
        if "topics" in of_name:
            yield of_name["topics"]


def _misses(element: str, flow: FlowSettings) -> bool:
    """Return whether no topic that ``flow`` replicates can match ``element``, as far as that is known."""
    try:
        if _NAME.fullmatch(element):
            return not flow.topic_filter(element)
        if all(map(_NAME.fullmatch, flow.source.topics)):
            pattern = NamePattern.of((element,), "topics")
            return not any(pattern(topic) for topic in flow.source.topics)
    except (SlowPatternError, JavaRegexError):  # an error of its own
        return False
    return False


def _warn(topics: Value, elements: Sequence[str], element: str, names: Sequence[str], problems: ProblemLog) -> None:
    assert topics.entry is not None
    meant = next(iter(get_close_matches(element, list(filter(_NAME.fullmatch, names)), n=1, cutoff=CLOSE)), None)
    corrected = ", ".join(escaped(meant if one == element and meant else one) for one in elements)
    topics.warn(
        problems,
        f'element {elements.index(element) + 1} "{shortened(element)}" matches no topic that is replicated, so the'
        " query is not applied for it",
        f"write {topics.entry.key} = {corrected}"
        if meant
        else f"remove {shortened(element)} from the list, or add it to topics",
    )
