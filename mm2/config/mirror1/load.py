"""Loads the files that a command line names into settings, and collects their problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mm2.config.grammar.java_types import Int, at_least
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.keys import declaration
from mm2.config.keys.class_keys import ClassKey
from mm2.config.keys.class_loading import ClassProblem, load_own
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.config.mirror1.consumer_file import ConsumerFile, read_consumer
from mm2.config.mirror1.old_keys import BLACKLIST, STREAMS, WHITELIST
from mm2.config.mirror1.options import PROGRAM, MirrorOptions
from mm2.config.mirror1.producer_file import ProducerFile, read_producer
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java
from mm2.core.mirror1.settings import MirrorSettings, Partitioning
from mm2.core.mirror1.user_class import UserClass

WITHOUT_EFFECT: Mapping[str, tuple[str, str]] = {
    "--new.consumer": ("there is only one consumer", "remove the option"),
    "--new.producer": ("there is only one producer", "remove the option"),
    "--num.producers": (
        "each stream has a producer of its own, with a connection to every broker",
        "remove the option; use --num.streams for more throughput",
    ),
    "--queue.size": (
        "the bytes between fetch and acknowledgement are limited, not the number of records",
        "remove the option, or write buffer.memory = BYTES in the file of --producer.config",
    ),
    "--whitelist": ("--include is given", "remove the option"),
}
"""Options of Kafka 0.8 to 3.9 that are accepted, and what replaces them."""

HANDLER = ClassKey(
    name="--message.handler",
    noun="a message handler",
    built_in={},
    base="mm2.core.mirror1.user_class:MessageHandler",
    methods=("handle",),
)
LISTENER = ClassKey(
    name="--consumer.rebalance.listener",
    noun="a rebalance listener",
    built_in={},
    base="mm2.core.mirror1.user_class:RebalanceListener",
    methods=("on_partitions_assigned", "on_partitions_revoked"),
)


_QUOTES = re.compile(r"\A[\"']+|[\"']+\Z")


def topic_pattern(text: str) -> str:
    """Return the Java regular expression that ``text`` stands for; it has to match whole topic names.

    Whitespace around it is removed, commas separate alternatives, blanks have no meaning, and quotes at both ends are
    removed, as properties files may contain them (Kafka: TopicFilter, IncludeList). Raises JavaRegexError.
    """
    pattern = _QUOTES.sub("", text.strip().replace(",", "|").replace(" ", ""))
    if not pattern:
        raise JavaRegexError("is empty, so it matches no topic", "write .* to match all topics")
    compile_java(pattern)
    return pattern


class StreamKeys(KeyModel):
    """Read if --num.streams is not given."""

    streams: Annotated[Int, at_least(1)] = node_key(STREAMS, 1, "Number of streams.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMirror:
    """``settings`` is None if ``problems``, those of all files, contain an error."""

    settings: MirrorSettings | None
    problems: tuple[Problem, ...]
    consumers: tuple[ConsumerFile, ...]
    producer: ProducerFile


def load(options: MirrorOptions, *, joins_group: bool = True) -> LoadedMirror:
    """Read the files. Never raises for their content: all problems are returned together, errors first.

    ``joins_group`` False: for a program that only reads the offsets of the group.
    """
    command_line = ProblemLog(PROGRAM)
    for name in options.without_effect:
        why, fix = WITHOUT_EFFECT[name]
        command_line.warning(f"has no effect: {why}", fix, key=name)
    consumers = tuple(read_consumer(path, joins_group=joins_group) for path in options.consumer_files)
    producer = read_producer(options.producer_file)
    include, exclude = _topics(options, consumers, command_line)
    settings = MirrorSettings(
        consumers=tuple(consumer.settings for consumer in consumers),
        target=producer.client,
        target_zookeeper=producer.zookeeper,
        produce=producer.produce,
        include=include,
        exclude=exclude,
        streams=_streams(options, consumers),
        commit_interval_ms=options.commit_interval_ms,
        abort_on_send_failure=options.abort_on_send_failure,
        partitions=options.partitions,
        handler=_user_class(options.handler, options.handler_arguments, HANDLER, command_line),
        listener=_user_class(options.listener, options.listener_arguments, LISTENER, command_line),
        lane_buffer_bytes=producer.lane_buffer_bytes,
        spark=producer.spark,
        hidden_spark=producer.hidden_spark,
        inherited=producer.engine.engine_environment,
    )
    _check_loop(settings, consumers)
    _check_acks(settings, producer)
    logs = (command_line, *(consumer.file.problems for consumer in consumers), producer.file.problems)
    failed = any(log.failed for log in logs)
    return LoadedMirror(
        settings=None if failed else settings, problems=_in_order(logs), consumers=consumers, producer=producer
    )


def _in_order(logs: Sequence[ProblemLog]) -> tuple[Problem, ...]:
    problems = [problem for log in logs for problem in log.in_order()]
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.is_warning))


def _topics(
    options: MirrorOptions, consumers: Sequence[ConsumerFile], command_line: ProblemLog
) -> tuple[str | None, str | None]:
    """Return the patterns of included and of excluded topics: one of them is None.

    The command line decides; without --include, --whitelist and --blacklist it is the first consumer file with
    mirror.topics.whitelist or mirror.topics.blacklist (Kafka 0.7).
    """

    def pattern(text: str, refuse: Callable[[str, str], None]) -> str:
        try:
            return topic_pattern(text)
        except JavaRegexError as error:
            refuse(str(error), error.fix)
            return ""

    given = [("--include", options.include), ("--blacklist", options.exclude)]
    asked = [(name, text) for name, text in given if text is not None]
    if len(asked) > 1:
        command_line.error("must not be given with --include or --whitelist", "remove one of both", key="--blacklist")
    for name, text in asked:
        found = pattern(text, lambda rule, fix: command_line.error(rule, fix, key=name))  # noqa: B023 called at once
        return (found, None) if name == "--include" else (None, found)
    lines = [
        (name, consumer.file)
        for consumer in consumers
        for name in (WHITELIST, BLACKLIST)
        if name in consumer.file.properties
    ]
    if not lines:
        if not any(consumer.file.unreadable for consumer in consumers):
            command_line.error("missing: no topics are selected", "add --include '.*' to mirror all", key="--include")
        return None, None
    name, file = lines[0]
    for other, again in lines[1:]:
        again.properties[other].refuse(
            again.problems, f"must not be set with {name} of {file.path}", "remove the line, and use --include"
        )
    value = file.properties[name]
    found = pattern(value.text, lambda rule, fix: value.refuse(file.problems, rule, fix))
    return (found, None) if name == WHITELIST else (None, found)


def _streams(options: MirrorOptions, consumers: Sequence[ConsumerFile]) -> int:
    """Return --num.streams, or the first mirror.consumer.numthreads of a file (Kafka 0.7), or 1."""
    for consumer in consumers:
        file = consumer.file
        streams = declaration.read(StreamKeys, file.properties, file.problems).streams
        if STREAMS in file.properties and options.streams is None:
            return streams
    return options.streams or 1


def _user_class(name: str | None, arguments: str | None, key: ClassKey, command_line: ProblemLog) -> UserClass | None:
    """Return the class after importing it, so that a wrong name is reported now."""
    if name is None:
        if arguments is not None:
            option = "--message.handler.args" if key is HANDLER else "--rebalance.listener.args"
            command_line.warning("has no effect: there is no class for it", f"add {key.name} module:Class", key=option)
        return None
    if ":" not in name:
        fix = f"write {key.noun} in Python, and give it as {key.name} module:Class"
        command_line.error(f"{name}: Java classes cannot be loaded", fix, key=key.name)
        return None
    try:
        load_own(name, key, Path())
    except ClassProblem as error:
        command_line.error(f"{name}: {error.rule}", error.fix, key=key.name)
    return UserClass(name=name, arguments=arguments)


def _check_acks(settings: MirrorSettings, producer: ProducerFile) -> None:
    """Warn if acks has no effect, because all records are written one by one, which is done with acks=all only."""
    by = "--message.handler" if settings.handler is not None else "--partitions key"
    if settings.produce.acks != -1 and (settings.handler is not None or settings.partitions is Partitioning.KEY):
        producer.file.properties["acks"].warn(
            producer.file.problems,
            f"has no effect with {by}: records are acknowledged by all in-sync replicas",
            "write acks = all",
        )


def _check_loop(settings: MirrorSettings, consumers: Sequence[ConsumerFile]) -> None:
    """Refuse to mirror a cluster into itself: each record would be copied again and again."""
    for consumer in consumers:
        shared = set(consumer.settings.client.bootstrap_servers) & set(settings.target.bootstrap_servers)
        if shared and settings.handler is None:
            consumer.file.properties["bootstrap.servers"].refuse(
                consumer.file.problems,
                f"{min(shared)} is a broker of the target, too: each record would be copied again without end",
                "write the brokers of the source, or rename topics with --message.handler",
            )
