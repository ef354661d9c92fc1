"""Checks of one flow's settings against each other, and of values that are valid but most likely not intended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mm2.config.grammar.comments import comment_fix, no_comment
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import ProblemLog, shortened
from mm2.config.grammar.properties import as_utf8, escaped
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys.class_keys import GROUP_FILTER, TOPIC_FILTER
from mm2.config.keys.connector_keys import CheckpointSettings, SourceSettings
from mm2.config.keys.declaration import default_fix, specs
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.core.coordination.task_fencing import MOST_TASKS
from mm2.core.settings.client import ProduceSettings

_SWITCHES = {
    "refresh.topics": "new topics and partitions are only found at start",
    "sync.topic.configs": "topic settings are not synced",
    "sync.topic.acls": "ACLs are not synced",
    "refresh.groups": "new consumer groups are only found at start",
    "emit.checkpoints": "no checkpoints are written",
    "sync.group.offsets": "group offsets are not synced",
}
"""Keys with ``.enabled`` and ``.interval.seconds``, and what a negative interval leads to."""

_LISTS = ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude")
_TOPIC_LISTS = ("topics", "topics.exclude", "topics.blacklist")
_QUOTES = "\"'"
_EVERYTHING = (".*", ".+")
_CONTROL = {
    "t": ("\t", "a tab"),
    "n": ("\n", "a line feed"),
    "r": ("\r", "a carriage return"),
    "f": ("\f", "a form feed"),
}
"""Escapes of properties files."""
_ESCAPE_OF_CONTROL = re.compile(r"\\(?:([tnrf])|.)", re.DOTALL)
_SEPARATORS = re.compile(r"[;\s]+")
"""What users write between topics instead of a comma; no topic name contains it."""


def check_enabled_flow(
    properties: Properties, source: SourceSettings, checkpoint: CheckpointSettings, problems: ProblemLog
) -> None:
    """Check the ``properties`` of the connectors of an enabled flow."""
    _check_offset_syncs(properties, source, problems)
    _check_checkpoints(properties, source, checkpoint, problems)
    _check_intervals(properties, source, checkpoint, problems)
    for name in _LISTS:
        if name in properties:
            check_elements(properties[name], problems)
    _check_topics(properties, source, problems)
    _check_groups(properties, checkpoint, problems)


def check_acks(producer: Properties, produce: ProduceSettings, problems: ProblemLog) -> None:
    """Warn about less than acks = all for the record ``producer``: a batch counts as copied that only one broker, or
    none, has written, and it is not copied again."""
    if produce.acks != -1:
        producer["acks"].warn(
            problems,
            "records that the target loses with its broker are not copied again: their source offsets are stored "
            + ("without an acknowledgement" if produce.acks == 0 else "when one replica has them"),
            f"write {producer['acks'].place('acks').rpartition(' ')[2]} = all",
        )


def check_source_tasks(properties: Properties, source: SourceSettings, queries: int, problems: ProblemLog) -> None:
    """Check the highest number of a source task: each of the ``queries`` has as many as tasks.max."""
    most = MOST_TASKS // (queries + 1)
    if queries and source.tasks_max > most:
        properties["tasks.max"].refuse(
            problems,
            f"must be at most {most} with {queries} {'query' if queries == 1 else 'queries'}: each query has as many"
            f" source tasks of its own, and a flow at most {MOST_TASKS}",
            "enter the number of source tasks that run in parallel, such as the number of all cores",
        )


def check_signatures(properties: Properties, worker: WorkerSettings, problems: ProblemLog) -> None:
    """Check that nodes accept their own signatures, as Java does."""
    signature, accepted = worker.inter_worker_signature_algorithm, worker.inter_worker_verification_algorithms
    if signature not in accepted:
        name = next(
            name
            for name in ("inter.worker.signature.algorithm", "inter.worker.verification.algorithms")
            if name in properties
        )
        properties[name].refuse(
            problems,
            f"nodes would reject each other's requests: they sign with {signature} and accept {', '.join(accepted)}",
            f"add {signature} to inter.worker.verification.algorithms",
        )


def _check_offset_syncs(properties: Properties, source: SourceSettings, problems: ProblemLog) -> None:
    """Java's cross-check: no settings of offset syncs without offset syncs."""
    if source.emit_offset_syncs_enabled:
        return
    for name, value in properties.items():
        if name.startswith("offset-syncs"):
            value.refuse(
                problems,
                "cannot be combined with emit.offset-syncs.enabled = false, as in Java",
                "remove one of the two lines",
            )


def _check_checkpoints(
    properties: Properties, source: SourceSettings, checkpoint: CheckpointSettings, problems: ProblemLog
) -> None:
    """Warn about combinations for which Java does not create the checkpoint connector and only logs an error."""
    if not checkpoint.emit_checkpoints_enabled:
        if checkpoint.sync_group_offsets_enabled:
            properties["sync.group.offsets.enabled"].warn(
                problems,
                "has no effect with emit.checkpoints.enabled = false: group offsets are synced from checkpoints, as in "
                "Java",
                "remove one of the two lines",
            )
    elif not source.emit_offset_syncs_enabled:
        properties["emit.offset-syncs.enabled"].warn(
            problems,
            "no checkpoints are written and no group offsets are synced: both need offset syncs, as in Java",
            "remove the line, or add emit.checkpoints.enabled = false if that is intended",
        )


def _check_intervals(
    properties: Properties, source: SourceSettings, checkpoint: CheckpointSettings, problems: ProblemLog
) -> None:
    """Warn about negative intervals, which disable a periodic job, as in Java (Scheduler.scheduleRepeating)."""
    for settings in (source, checkpoint):
        for spec in specs(type(settings)):
            switch = spec.name.removesuffix(".interval.seconds")
            if switch in _SWITCHES and spec.name != switch and getattr(settings, spec.field) < 0:
                properties[spec.name].warn(
                    problems,
                    f"is negative, so {_SWITCHES[switch]}, as in Java",
                    f"{default_fix(spec.default)}, or write {switch}.enabled = false if that is intended",
                )


def check_elements(value: Value, problems: ProblemLog) -> None:
    """Warn about quotes, brackets and comments, which a properties file does not have: they are part of the pattern."""
    if value.entry is None or problems.has_error_at(value.entry):
        return
    if comment := comment_fix(value.entry):
        value.warn(problems, f"{no_comment(value.entry)}, so it is part of the list", comment)
        return
    elements = read_list(value.text)
    if _check_control_characters(value, elements, problems):
        return
    quoted = any(element[:1] in _QUOTES or element[-1:] in _QUOTES for element in elements if element)
    bracketed = any(element.startswith("[") and "]" not in element for element in elements)
    if quoted or bracketed:
        what = " and ".join([*(["quotes"] if quoted else []), *(["brackets"] if bracketed else [])])
        value.warn(
            problems,
            f"{what} are not removed, so only names that contain them match",
            f"write {value.entry.key} = {escaped(as_utf8(_bare(elements)))}",
        )
    elif value.entry.key.endswith(_TOPIC_LISTS):
        _check_separators(value, value.entry.key, elements, problems)


def _check_separators(value: Value, key: str, elements: Sequence[str], problems: ProblemLog) -> None:
    """Warn about the first of ``elements``, topics, that contains another separator than a comma."""
    for number, element in enumerate(elements, 1):
        if (found := _SEPARATORS.search(element)) is not None:
            separator = "a space" if found[0].isspace() else 'a ";"'
            names = tuple(name for text in elements for name in _SEPARATORS.split(text) if name)
            every = any(name in _EVERYTHING for name in names) and not any(name in _EVERYTHING for name in elements)
            value.warn(
                problems,
                f'element {number} "{shortened(element)}" contains {separator}, which no topic name contains',
                f"correct element {number}: split there, it would match every topic"
                if every
                else f"write {key} = {escaped(as_utf8(_bare(names)))}",
            )
            return


def _check_control_characters(value: Value, elements: Sequence[str], problems: ProblemLog) -> bool:
    r"""Return whether an element contains a control character that the file has as an escape, and warn about the first.

    The ``\r`` of ``.*\replica`` is a carriage return in a properties file, and no name contains one.
    """
    assert value.entry is not None
    escapes = dict.fromkeys(filter(None, _ESCAPE_OF_CONTROL.findall(value.entry.source)))
    for number, element in enumerate(elements, 1):
        found = next((letter for letter in escapes if _CONTROL[letter][0] in element), None)
        if found is None:
            continue
        character, name = _CONTROL[found]
        dot, without = (escaped(element.replace(character, text)) for text in (rf"\.{found}", found))
        value.warn(
            problems,
            f"element {number}: \\{found} is {name}, as in Java, and no name contains one",
            f"replace element {number}, by {dot} if a dot was meant, else by {without}",
        )
        return True
    return False


def _bare(elements: Iterable[str]) -> str:
    """Return the list as it is written without quotes, and without the brackets of the whole list."""
    texts = [element.strip(_QUOTES) for element in elements]
    if texts[0].startswith("[") and "]" not in texts[0]:
        texts[0], texts[-1] = texts[0].removeprefix("["), texts[-1].removesuffix("]")
    return ", ".join(text.strip(f"{_QUOTES} ") for text in texts)


def _check_topics(properties: Properties, source: SourceSettings, problems: ProblemLog) -> None:
    if source.topic_filter_class not in TOPIC_FILTER.built_in:
        return
    only = "only heartbeats are replicated" if source.heartbeats_replication_enabled else "nothing is replicated"
    if not any(source.topics):
        properties["topics"].warn(
            problems,
            f"matches no topic, so {only}",
            "list the topics, for example orders, payments.*, or remove the line to replicate every topic",
        )
    elif any(pattern in _EVERYTHING for pattern in source.topics_exclude):
        properties["topics.exclude"].warn(
            problems,
            f"excludes every topic, so {only}",
            _without_everything(properties["topics.exclude"], source),
        )
    elif set(source.topics) <= set(source.topics_exclude):
        if "topics.exclude" in properties:
            properties["topics.exclude"].warn(
                problems,
                f"contains every element of topics, so {only}",
                f"remove from the list those of {', '.join(source.topics)} that are to be replicated",
            )
        else:
            rest = ", ".join(name for name in source.topics_exclude if name not in source.topics)
            properties["topics"].warn(
                problems,
                f"the default of topics.exclude contains every element, so {only}",
                f"add {_beside(properties['topics'])}topics.exclude = {escaped(rest)}, the rest of the default, so "
                f"that what matches {', '.join(source.topics)} is replicated",
            )


def _beside(topics: Value) -> str:
    """Return the prefix of the line of ``topics``."""
    assert topics.entry is not None
    return topics.entry.key.removesuffix("topics")


def _without_everything(exclude: Value, source: SourceSettings) -> str:
    """Return the fix for a list that excludes every topic. Other elements of it still exclude what they match."""
    assert exclude.entry is not None
    others = ", ".join(element for element in source.topics_exclude if element not in _EVERYTHING)
    kept = others or ", ".join(SourceSettings.model_fields["topics_exclude"].default)
    which = "its other elements" if others else "the default"
    return f"write {exclude.entry.key} = {escaped(kept)} to exclude only {which}; all other topics are replicated"


def _check_groups(properties: Properties, checkpoint: CheckpointSettings, problems: ProblemLog) -> None:
    """Warn about an empty list of groups if the file also asks for what needs groups."""
    if any(checkpoint.groups) or checkpoint.group_filter_class not in GROUP_FILTER.built_in:
        return
    asked = [
        line.entry.key
        for line, enabled in (
            (properties.get("emit.checkpoints.enabled"), checkpoint.emit_checkpoints_enabled),
            (properties.get("sync.group.offsets.enabled"), checkpoint.sync_group_offsets_enabled),
        )
        if enabled and line is not None and line.entry is not None
    ]
    if asked:
        properties["groups"].warn(
            problems,
            f"matches no group, so {asked[0]} = true has no effect",
            f"list the groups, or remove the line of {asked[0]}",
        )
