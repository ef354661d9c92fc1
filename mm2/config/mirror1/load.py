"""Loads the files that a command line names into settings, and collects their problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mm2.config.checks.spark import MASTER, check_modes, check_protection, checked_master
from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.java_types import Int, Long, at_least
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.keys.class_keys import ClassKey
from mm2.config.keys.class_loading import ClassProblem, load_own
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.config.keys.node_keys import EngineSettings, is_http_url
from mm2.config.mirror1.client_file import BROKERS_INSTEAD, RESET, STRATEGIES, ClientFile, GroupKeys
from mm2.config.mirror1.old_keys import BLACKLIST, STREAMS, WHITELIST, ZOOKEEPER
from mm2.config.mirror1.options import PROGRAM, MirrorOptions
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java
from mm2.core.mirror1.assignors import JAVA_CLASSES
from mm2.core.mirror1.settings import ConsumerSettings, GroupMembership, MirrorSettings, Partitioning
from mm2.core.mirror1.user_class import UserClass
from mm2.core.settings.client import ClientSettings, ProduceSettings
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect

STORAGE = "offsets.storage"
_IN_KAFKA, _IN_ZOOKEEPER = "kafka", "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFile:
    """The file and its settings, which are only valid if ``file.problems`` have no error."""

    file: ClientFile
    settings: ConsumerSettings


def read_consumer(path: Path, *, joins_group: bool) -> ConsumerFile:
    """Read the file at ``path``. The default of auto.offset.reset is Java's, latest.

    ``joins_group`` False: only the offsets of the group are read, so that its assignors are of no importance.
    """
    file = ClientFile.read(path, ClientKind.CONSUMER)
    problems = file.problems
    keys = declaration.read(GroupKeys, file.properties, problems)
    if RESET not in file.properties or file.properties[RESET].text.strip() != keys.auto_offset_reset:
        file.properties[RESET] = Value(keys.auto_offset_reset)  # the other models have another default
    if not keys.group_id and not file.unreadable:
        problems.error("missing", "add group.id, the name of the consumer group", key="group.id")
    _check_session(file, keys)
    if joins_group:
        _check_assignors(file, keys)
    storage = _offsets_storage(file)
    wait = f"{BROKERS_INSTEAD}, as soon as the offsets of the group are in Kafka"
    zookeeper = file.zookeeper(fix=wait if storage == _IN_ZOOKEEPER else BROKERS_INSTEAD)
    _check_storage(file, storage, is_readable=zookeeper is not None)
    reader = ClientReader(
        clusters=Entry(file=str(path), line=1, key="bootstrap.servers", raw="", value=""), problems=problems
    )
    group = GroupMembership(
        group_id=keys.group_id or "",
        session_timeout_ms=keys.session_timeout_ms,
        heartbeat_interval_ms=keys.heartbeat_interval_ms,
        max_poll_interval_ms=keys.max_poll_interval_ms,
        instance_id=keys.group_instance_id or None,
        assignors=keys.assignors,
    )
    settings = ConsumerSettings(
        file=str(path),
        client=file.client(group.group_id),
        zookeeper=zookeeper,
        has_old_offsets=zookeeper is not None and storage == _IN_ZOOKEEPER,
        fetch=reader.fetch(file.properties),
        group=group,
        exclude_internal_topics=keys.exclude_internal_topics,
    )
    return ConsumerFile(file=file, settings=settings)


def _check_session(file: ClientFile, keys: GroupKeys) -> None:
    if keys.heartbeat_interval_ms < keys.session_timeout_ms:
        return
    name = "heartbeat.interval.ms" if "heartbeat.interval.ms" in file.properties else "session.timeout.ms"
    file.properties[name].refuse(
        file.problems,
        "heartbeat.interval.ms must be less than session.timeout.ms",
        f"write heartbeat.interval.ms = {max(1, keys.session_timeout_ms // 3)}",
    )


def _check_assignors(file: ClientFile, keys: GroupKeys) -> None:
    if keys.assignors:
        return
    supported = " or ".join(JAVA_CLASSES.values())
    file.properties[STRATEGIES].refuse(
        file.problems,
        "has no assignor that is supported here: range and roundrobin are",
        f"write {supported}: first in the files of all members of the group, and restart them, or stop all of them",
    )


def _offsets_storage(file: ClientFile) -> str:
    """Return where Kafka's old consumer has its offsets: in ZooKeeper by default."""
    value = file.properties.get(STORAGE)
    return _IN_ZOOKEEPER if value is None else value.text.strip().lower()


def _check_storage(file: ClientFile, storage: str, *, is_readable: bool) -> None:
    """Warn that offsets in ZooKeeper are only read, and reject the file if it says that they are there but not where.

    ``is_readable``: the file says where ZooKeeper is.
    """
    problems, value = file.problems, file.properties.get(STORAGE)
    if value is not None and storage not in (_IN_KAFKA, _IN_ZOOKEEPER):
        value.refuse(problems, f"must be {_IN_ZOOKEEPER} or {_IN_KAFKA}", f"write {STORAGE} = {_IN_ZOOKEEPER}")
    elif storage == _IN_ZOOKEEPER and is_readable:
        file.properties[ZOOKEEPER].warn(
            problems,
            "offsets of the group that Kafka does not have are read from ZooKeeper at the start; they are committed to"
            " Kafka",
            f"write {STORAGE} = {_IN_KAFKA} as soon as they are in Kafka",
        )
    elif value is not None and storage == _IN_ZOOKEEPER:
        value.refuse(
            problems,
            f"offsets are read from ZooKeeper only with {ZOOKEEPER}, and without bootstrap.servers",
            f"replace bootstrap.servers with {ZOOKEEPER} = host:2181, or write {STORAGE} = {_IN_KAFKA} if the group has"
            " its offsets in Kafka",
        )


class BufferKeys(KeyModel):
    """Sizes are bytes. The default is that of ``mm2.lane.buffer.bytes``."""

    buffer_memory: Annotated[Long, at_least(1_048_576, "a batch of common size would not fit")] = node_key(
        "buffer.memory",
        64 * 1024 * 1024,
        "Maximum bytes that a lane has fetched and that are not yet acknowledged; it pauses fetching beyond. Default of"
        " a Java producer: 33554432.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFile:
    """The file and its settings, which are only valid if ``file.problems`` have no error."""

    file: ClientFile
    client: ClientSettings
    zookeeper: ZooKeeperConnect | None
    produce: ProduceSettings
    lane_buffer_bytes: int
    spark: Mapping[str, str]
    hidden_spark: frozenset[str]
    engine: EngineSettings


def read_producer(path: Path) -> ProducerFile:
    """Read the file at ``path``.

    acks=all is the default, as in Java. The default of five batches in flight keeps the order, too, because the
    producer is idempotent; MirrorMaker 1 had one.
    """
    file = ClientFile.read(path, ClientKind.PRODUCER)
    reader = ClientReader(
        clusters=Entry(file=str(path), line=1, key="bootstrap.servers", raw="", value=""), problems=file.problems
    )
    own_id = file.properties.get("client.id")
    spark = {name: value for name, value in file.properties.items() if name.startswith("spark.")}
    engine = declaration.read(EngineSettings, file.properties, file.problems)
    _check_spark(file, engine)
    return ProducerFile(
        file=file,
        client=file.client((own_id.text.strip() if own_id is not None else "") or PROGRAM),
        zookeeper=file.zookeeper(),
        produce=reader.produce(file.properties),
        lane_buffer_bytes=declaration.read(BufferKeys, file.properties, file.problems).buffer_memory,
        spark={name: value.text for name, value in spark.items()},
        hidden_spark=frozenset(name for name, value in spark.items() if value.is_hidden),
        engine=engine,
    )


def _check_spark(file: ClientFile, engine: EngineSettings) -> None:
    check_modes(file.properties, file.problems)
    master = checked_master(file.properties, file.problems)
    if master is None:
        return
    if not master.elsewhere:
        check_protection(master, file.properties, engine, file.problems)
    else:
        file.properties[MASTER].refuse(
            file.problems,
            f"must be on this machine: {PROGRAM} has no listener for lanes on other machines",
            "remove the line; mm2 run replicates with lanes on other machines (see mm2 migrate-mm1 --help)",
        )


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
        listeners=_listeners(options.listeners, command_line),
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


def _listeners(text: str | None, command_line: ProblemLog) -> tuple[str, ...]:
    urls = tuple(url.strip() for url in (text or "").split(",") if url.strip())
    if text is not None and not (urls and all(url.lower().startswith("http://") and is_http_url(url) for url in urls)):
        command_line.error(
            f"{text}: must be comma-separated http URLs with a port: there are no certificates for https",
            "write --listeners http://127.0.0.1:8083, or remove the option",
            key="--listeners",
        )
    return urls


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
