"""Reading of a consumer or producer file: its properties under today's names, and remarks on its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from mm2.config.checks.foreign import file_types
from mm2.config.checks.unused_security import check_unused_security_of_client
from mm2.config.clients.client_keys import ClientKeys, ConsumerKeys, ProducerKeys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS, ClientKind
from mm2.config.grammar import providers
from mm2.config.grammar.java_types import Boolean, Int, ListOf, OptionalString, String, at_least, one_of
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry, parse, read_content
from mm2.config.grammar.secrets import is_secret
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.config.keys.node_keys import EngineSettings
from mm2.config.mirror1.old_keys import (
    OLD_KEYS,
    OLD_PRODUCER,
    OLD_VALUES,
    ZOOKEEPER,
    NoEffect,
    OldKey,
    RejectedKey,
    Renamed,
)
from mm2.config.security import security_keys
from mm2.core.mirror1.assignors import JAVA_CLASSES, RANGE
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect, parse_connect

RESET = "auto.offset.reset"
STRATEGIES = "partition.assignment.strategy"

_ASSIGNORS = {written: name for name, java in JAVA_CLASSES.items() for written in (java, name)}
"""The names of assignors as a file can have them: Java's classes, or the names of the old consumer."""


class GroupKeys(KeyModel):
    """Durations are milliseconds."""

    group_id: OptionalString = node_key(
        "group.id", None, "Consumer group whose committed offsets say what was copied. Required."
    )
    group_instance_id: OptionalString = node_key(
        "group.instance.id", None, "Makes members static (KIP-345); each stream appends its number."
    )
    session_timeout_ms: Annotated[Int, at_least(1)] = node_key(
        "session.timeout.ms", 45_000, "Time without a heartbeat after which the broker removes a member."
    )
    heartbeat_interval_ms: Annotated[Int, at_least(1)] = node_key(
        "heartbeat.interval.ms", 3_000, "Time between two heartbeats; less than the session timeout."
    )
    max_poll_interval_ms: Annotated[Int, at_least(1)] = node_key(
        "max.poll.interval.ms", 300_000, "Time that members have to join a rebalance."
    )
    strategies: ListOf = node_key(STRATEGIES, (JAVA_CLASSES[RANGE],), "Assignors of the group.")
    auto_offset_reset: Annotated[String, one_of("earliest", "latest", "none")] = node_key(
        RESET, "latest", "Start of a partition without a committed offset. Default in mm2.properties: earliest."
    )
    exclude_internal_topics: Boolean = node_key(
        "exclude.internal.topics", True, "Leave out Kafka's own topics, such as __consumer_offsets."
    )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The supported assignors in the order of the file; none if the file has only others."""
        return tuple(dict.fromkeys(_ASSIGNORS[one] for one in self.strategies if one in _ASSIGNORS))


REMOVE = "remove the line"
BROKERS_INSTEAD = "write bootstrap.servers = host:port of the brokers instead"

_KEYS: Mapping[ClientKind, type[ClientKeys]] = {ClientKind.CONSUMER: ConsumerKeys, ClientKind.PRODUCER: ProducerKeys}
_SECURITY = security_keys.NAMES | set(security_keys.REFUSED_ALWAYS)
SUPPORTED: Mapping[ClientKind, frozenset[str]] = {
    ClientKind.CONSUMER: declaration.names(ConsumerKeys, GroupKeys) | _SECURITY,
    ClientKind.PRODUCER: declaration.names(ProducerKeys, EngineSettings) | _SECURITY,
}
"""Properties that take effect."""

_MAY_BELONG_ELSEWHERE = ("spark.", "config.providers")
_CLOSE = 0.8
"""Ratio from which an unknown property counts as misspelt."""

_BROKER_ID = re.compile(r"(\A|,)\s*[0-9]+:(?=[^,:]+:[0-9]+\s*(?:,|\Z))")
"""Kafka 0.7 wrote broker.list as id:host:port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """The properties of one file under today's names; ``entries`` are its lines as they are."""

    kind: ClientKind
    path: Path
    entries: Mapping[str, Entry]
    properties: Properties
    problems: ProblemLog

    @classmethod
    def read(cls, path: Path, kind: ClientKind) -> ClientFile:
        """Read ``path``; what is wrong with it is in ``problems``. A file that cannot be read has no properties."""
        problems = ProblemLog(str(path))
        entries = _entries(path, kind, problems)
        file = cls(kind=kind, path=path, entries=entries, properties={}, problems=problems)
        file.properties.update(_translated(entries, kind, problems))
        return file

    @property
    def unreadable(self) -> bool:
        """Whether the file has no lines at all, which is reported, so that missing properties need not be."""
        return not self.entries

    def client(self, client_id: str) -> ClientSettings:
        """Return connection and security; without bootstrap_servers if the file has none."""
        own = {name: value for name, value in self.properties.items() if name != "client.id"}
        missing = "bootstrap.servers" not in own
        own.setdefault("bootstrap.servers", Value("unknown:9092"))
        line = Entry(file=str(self.path), line=1, key="bootstrap.servers", raw="", value="")
        check_unused_security_of_client(own, self.problems)
        reader = ClientReader(clusters=line, problems=self.problems)
        settings = reader.read(own, _KEYS[self.kind], "", client_id)
        return replace(settings, bootstrap_servers=()) if missing else settings

    def zookeeper(self, *, fix: str = BROKERS_INSTEAD) -> ZooKeeperConnect | None:
        """Return where to ask for the brokers: None if the file has bootstrap.servers. One of both is required.

        ``fix``: what to do about zookeeper.connect.
        """
        value = self.properties.get(ZOOKEEPER)
        if "bootstrap.servers" in self.properties:
            if value is not None:
                value.warn(self.problems, "has no effect: bootstrap.servers is set", REMOVE)
            return None
        if value is None:
            if not self.unreadable:
                self.problems.error("missing", "add bootstrap.servers = host:port", key="bootstrap.servers")
            return None
        try:
            found = parse_connect(value.text)
        except ValueError as rule:
            value.refuse(self.problems, str(rule), f"write {ZOOKEEPER} = host:2181, or bootstrap.servers = host:port")
            return None
        value.warn(
            self.problems,
            "old: the addresses of the brokers are read from ZooKeeper at the start",
            fix,
        )
        return found


def _entries(path: Path, kind: ClientKind, problems: ProblemLog) -> dict[str, Entry]:
    if path.is_dir() or not path.exists():
        rule = "is a directory" if path.is_dir() else "does not exist"
        problems.error(rule, f"give the path of a properties file: --{kind}.config FILE")
        return {}
    content = read_content(path, problems)
    if content is None:
        return {}
    if (found := file_types.binary(content)) is not None:
        problems.error(found.rule, found.fix)
        return {}
    raw = parse(file_types.without_byte_order_mark(content, problems), problems)
    if "clusters" in raw:
        problems.error(
            f"is an mm2.properties file, not the configuration of a {kind}",
            f"run it with mm2 run {path}, or give the {kind}'s file",
            at=raw["clusters"],
        )
        return {}
    if not raw:
        problems.error("contains no settings", f"add the properties of the {kind}, such as bootstrap.servers")
    return providers.resolve(raw, problems)


def _translated(entries: Mapping[str, Entry], kind: ClientKind, problems: ProblemLog) -> Iterator[tuple[str, Value]]:
    """Yield the properties under today's names, and report the lines that mean something else, or nothing."""
    for entry in entries.values():
        name, value, text = entry.key, Value.of(entry), entry.value
        old = _old(name, entries, kind)
        replaced = False
        while isinstance(old, Renamed):  # zk.connect becomes zookeeper.connect, for which there is another rule
            name, replaced, text = old.name, True, old.values.get(text.strip(), text)
            old = _old(name, entries, kind)
        if replaced and _is_set(name, entry, entries, kind):
            value.warn(problems, f"has no effect: {name} is set", REMOVE)
            continue
        text = _of_today(name, text)
        if replaced and name != ZOOKEEPER and not isinstance(old, NoEffect | RejectedKey):
            value.warn(problems, f"old name of {name}", f"write {name} = {_shown(entry, text)}")
        elif text != value.text:
            value.warn(problems, f"old value, read as {text}", f"write {name} = {text}")
        if not _judge(name, replace(value, text=text), old, kind, problems):
            yield name, replace(value, text=text)


def _old(name: str, entries: Mapping[str, Entry], kind: ClientKind) -> OldKey | None:
    if kind is ClientKind.PRODUCER and name == "batch.size" and any(key in entries for key in OLD_PRODUCER):
        return OLD_KEYS[kind]["batch.num.messages"]
    return OLD_KEYS[kind].get(name)


def _is_set(name: str, entry: Entry, entries: Mapping[str, Entry], kind: ClientKind) -> bool:
    """Return whether ``name`` is set itself, or by a later line with another old name."""
    if name in entries:
        return True
    names = list(entries)
    later = names[names.index(entry.key) + 1 :]
    return any(isinstance(old := OLD_KEYS[kind].get(key), Renamed) and old.name == name for key in later)


def _of_today(name: str, text: str) -> str:
    if name == "bootstrap.servers":
        return _BROKER_ID.sub(r"\1", text)
    return OLD_VALUES.get(name, {}).get(text.strip(), text)


def _shown(entry: Entry, text: str) -> str:
    return entry.shown if text == entry.value or entry.has_references else text


def _judge(name: str, value: Value, old: OldKey | None, kind: ClientKind, problems: ProblemLog) -> bool:
    """Report a property without effect; return whether it is one, or is refused."""
    text = value.text.strip()
    if isinstance(old, NoEffect):
        if text not in old.harmless:
            value.warn(problems, f"has no effect: {old.why}", old.fix)
        return True
    if isinstance(old, RejectedKey):
        if text not in old.harmless:
            value.refuse(problems, old.rule, old.fix)
        return True
    if old is not None or name in SUPPORTED[kind] or name.startswith("config.providers"):
        return False
    if name.startswith("spark.") and kind is ClientKind.PRODUCER:
        return False
    missed = MISSED[kind].get(name)
    if missed is not None and text not in missed.harmless:
        value.warn(problems, f"has no effect: {missed.why}", REMOVE)
    elif missed is None and name not in POINTLESS[kind]:
        _report_unknown(name, value, kind, problems)
    return True


def _report_unknown(name: str, value: Value, kind: ClientKind, problems: ProblemLog) -> None:
    other = ClientKind.PRODUCER if kind is ClientKind.CONSUMER else ClientKind.CONSUMER
    if name.startswith("spark.") or name in SUPPORTED[other] or name in OLD_KEYS[other]:
        rule, fix = f"has no effect: it is a property of the {other}", f"move the line to the file of --{other}.config"
        value.warn(problems, rule, fix)
        return
    known = sorted(SUPPORTED[kind] | OLD_KEYS[kind].keys() | MISSED[kind].keys() | POINTLESS[kind].keys())
    close = get_close_matches(name, known, n=1, cutoff=_CLOSE)
    if close and value.entry is not None and is_secret(close[0], value.entry.raw):
        value = replace(value, entry=replace(value.entry, hidden=True))
    value.warn(problems, "unknown property, ignored", f"did you mean {close[0]}?" if close else REMOVE)
