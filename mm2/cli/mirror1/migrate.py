"""``mm2 migrate-mm1``: prints an mm2.properties file for files of MirrorMaker 1, or stores the group's offsets."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mm2.cli.errors import DONE, USAGE, CommandError, UsageError
from mm2.cli.mirror1.command_line import mirror_options
from mm2.config.grammar.problem_report import summary, write_problems
from mm2.config.load import load as load_mm2
from mm2.config.mirror1.load import LoadedMirror, load
from mm2.config.mirror1.migration import Migration, MigrationError
from mm2.config.settings import FlowSettings
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings, Partitioning
from mm2.core.naming.names import TopicPartition

_ALIAS = re.compile(r"[A-Za-z0-9._-]+")


def migrate(*, source: str = "A", target: str = "B", write_offsets: bool = False, **given: object) -> int:
    """Print the file, or ``write_offsets`` of the group to the target; return the exit code."""
    options = mirror_options(given)
    if options.partitions is Partitioning.KEY:
        raise UsageError(
            "--partitions key: a flow keeps the partitions of the source. Remove the option, or stay with"
            " kafka-mirror-maker --partitions key."
        )
    if len(options.consumer_files) > 1:
        raise UsageError("give one --consumer.config, and repeat the command for each of the others.")
    for alias in (source, target):
        if not _ALIAS.fullmatch(alias) or source == target:
            raise UsageError(
                f"{alias!r} cannot be used: --source and --target are different aliases of letters, digits, dots,"
                " underscores and hyphens."
            )
    classes = tuple(name for name in (options.handler, options.listener) if name is not None)
    own = replace(options, handler=None, handler_arguments=None, listener=None, listener_arguments=None)
    loaded = load(own, joins_group=False)
    write_problems(loaded.problems, sys.stderr)
    if loaded.settings is None:
        print(f"mm2 migrate-mm1: {summary(loaded.problems)}", file=sys.stderr)  # noqa: T201 an error
        return USAGE
    text = _file(loaded, loaded.settings, source, target, classes)
    if not write_offsets:
        print(text, end="")  # noqa: T201 the output of a command
        return DONE
    from mm2.cli.clusters.cluster_access import ask  # noqa: PLC0415 the first step connects to nothing
    from mm2.cli.mirror1.group_offsets import write_group_offsets  # noqa: PLC0415

    consumer = loaded.settings.consumers[0]
    group = consumer.group.group_id
    flow = _flow(text)
    old = _old_offsets(consumer)
    written = ask(write_group_offsets(flow, group, old), f"storing the offsets of group {group}")
    for line in written.lines():
        print(line)  # noqa: T201 as above
    return DONE


def _file(loaded: LoadedMirror, settings: MirrorSettings, source: str, target: str, classes: tuple[str, ...]) -> str:
    migration = Migration(
        settings=_with_brokers(settings),
        consumer=loaded.consumers[0].file,
        producer=loaded.producer.file,
        source=source,
        target=target,
        classes=classes,
    )
    try:
        return migration.text()
    except MigrationError as error:
        raise UsageError(f"{error}.") from error


def _with_brokers(settings: MirrorSettings) -> MirrorSettings:
    """Return ``settings`` with the brokers of files that only name a ZooKeeper. Raises CommandError."""
    consumer = settings.consumers[0]
    places = (consumer.zookeeper, settings.target_zookeeper)
    if not any(places):
        return settings
    from mm2.cli.mirror1.zookeeper_brokers import NoBrokers, registered_brokers  # noqa: PLC0415 few files need it

    clients = []
    for client, place in zip((consumer.client, settings.target), places, strict=True):
        try:
            found = client.bootstrap_servers if place is None else registered_brokers(place, client.security_protocol)
        except NoBrokers as error:
            raise CommandError(f"{error}.") from error
        clients.append(replace(client, bootstrap_servers=found))
    return replace(settings, consumers=(replace(consumer, client=clients[0]),), target=clients[1])


def _old_offsets(consumer: ConsumerSettings) -> Mapping[TopicPartition, int]:
    """Return the offsets that ZooKeeper has for the group. Raises CommandError."""
    if not consumer.has_old_offsets:
        return {}
    from mm2.cli.mirror1.zookeeper_offsets import NoOldOffsets, read_old_offsets  # noqa: PLC0415 few files need it

    try:
        return read_old_offsets(consumer)
    except NoOldOffsets as error:
        raise CommandError(f"{error}.") from error


def _flow(text: str) -> FlowSettings:
    """Return the flow of the file that the first step prints."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "mm2.properties")
        path.write_text(text, "iso-8859-1")
        loaded = load_mm2(path)
    if loaded.settings is None:
        first = next(problem for problem in loaded.problems if not problem.is_warning)
        raise UsageError(f"the new file has errors: {first.key}: {first.rule} (fix: {first.fix}).")
    return next(flow for flow in loaded.settings.flows if flow.enabled)
