"""Meaning of a key by its place in the file: alone, under a cluster (``A.…``), under a flow (``A->B.…``).

A place is a list of rules. The first rule that applies to a key's name returns a remark, or None if the key takes
effect there. A key to which no rule applies is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from mm2.config.checks.key_rules import (
    REMOVE,
    KeyScope,
    Remark,
    Rule,
    UnknownKeyError,
    Weight,
    always,
    beginning,
    fine,
    ignored,
    misplaced,
    named,
    no_effect,
    silent,
    useless,
)
from mm2.config.clients import java_derivation
from mm2.config.clients.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS, ClientKind
from mm2.config.keys import declaration, ignored_java_keys, java_effects, sql_keys
from mm2.config.keys.connector_keys import CONNECTORS, SOURCE_ALIAS, TARGET_ALIAS
from mm2.config.keys.declaration import KeyModel, KeySpec
from mm2.config.keys.election_keys import election_models
from mm2.config.keys.node_keys import CLIENT_AUTH, HTTPS, FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.config.security import security_keys
from mm2.core.naming.names import Flow

OLD_NAME = "old name"
"""How the rule begins about a key that is used, but should have its new name."""


def _specs(*models: type[KeyModel]) -> dict[str, KeySpec]:
    return {spec.name: spec for model in models for spec in declaration.specs(model)}


def _effective(specs: Mapping[str, KeySpec]) -> frozenset[str]:
    """Return the keys that change anything; the others are read only to check their values."""
    return frozenset(name for name, spec in specs.items() if spec.update_mode is not UpdateMode.NOTHING)


def _defaults(specs: Mapping[str, KeySpec], prefix: str = "") -> dict[str, str]:
    return {prefix + name: spec.default for name, spec in specs.items() if spec.default}


_CONNECTOR = _specs(*CONNECTORS, OwnFlowSettings)
_WORKER = _specs(WorkerSettings)
_NODE = _specs(FileSettings, RestSettings, *election_models(), OwnSettings, OwnFlowSettings)
_CLIENT_MODELS: Mapping[ClientKind, type[ClientKeys]] = {
    ClientKind.CONSUMER: ConsumerKeys,
    ClientKind.PRODUCER: ProducerKeys,
    ClientKind.ADMIN: AdminKeys,
}
_CLIENTS: Mapping[ClientKind, frozenset[str]] = {kind: declaration.names(keys) for kind, keys in _CLIENT_MODELS.items()}
_CLIENT_DEFAULTS = {
    name: default
    for kind, keys in _CLIENT_MODELS.items()
    for name, default in _defaults(_specs(keys), f"{kind}.").items()
}
_SECURITY = security_keys.NAMES | set(security_keys.REFUSED_ALWAYS)
_FROM_CLUSTER = java_derivation.CLIENT_NAMES | _SECURITY
_EFFECTIVE_FROM_CLUSTER = _effective(_specs(*security_keys.MODELS)) | {"bootstrap.servers"}
_HTTPS = frozenset(HTTPS + name for name in (CLIENT_AUTH, *security_keys.NAMES) if name.startswith("ssl."))
_RECORDS_ONLY = declaration.names(ProducerKeys) - declaration.names(ClientKeys)
_WORKER_CLIENT = declaration.names(WorkerClientKeys)
_WORKER_NAMES = frozenset(_WORKER) | frozenset(ignored_java_keys.WORKER) | _WORKER_CLIENT - java_derivation.CLIENT_NAMES
_FLOW_NAMES = frozenset(_CONNECTOR) | frozenset(ignored_java_keys.CONNECTOR)
_EXACTLY_ONCE_SUPPORT = "exactly.once.source.support"
_CONNECTOR_SUPPORT = "exactly.once.support"
_EFFECTIVE_WORKER = (_effective(_WORKER) | _WORKER_CLIENT) - {_EXACTLY_ONCE_SUPPORT, "group.id"}
_STORAGE = ("offset.storage.", "config.storage.", "status.storage.")
_TRANSFORMATIONS = ("transforms.", "predicates.")
_CLIENT_NAMES = frozenset(f"{kind}.{name}" for kind, names in _CLIENTS.items() for name in names)


def _legacy(prefix: str) -> Rule:
    def judge(name: str, _text: str) -> Remark:
        new = java_derivation.LEGACY_NAMES[name]
        return Remark(
            rule=f"{OLD_NAME}, which Kafka 4 ignores; it is used here unless {prefix}{new} is set",
            fix=f"write {prefix}{new}",
        )

    return Rule(named(java_derivation.LEGACY_NAMES), judge)


def _client(kind: ClientKind, prefix: str) -> Rule:
    """Return the rule for properties of a Java client behind ``prefix``."""
    supported = _CLIENTS[kind] | _SECURITY
    candidates = frozenset(prefix + name for name in (*supported, *POINTLESS[kind], *MISSED[kind]))

    def judge(name: str, text: str) -> Remark | None:
        bare = name.removeprefix(prefix)
        if bare in supported:
            return None
        if bare in POINTLESS[kind]:
            return silent(POINTLESS[kind][bare])
        missed = MISSED[kind].get(bare)
        if missed is None:
            raise UnknownKeyError(candidates)
        return silent(missed.why) if text.strip() in missed.harmless else no_effect(missed.why)

    # consumer.poll.timeout.ms and admin.timeout.ms are keys of connectors, not of clients.
    return Rule(lambda name: name.startswith(prefix) and name not in _FLOW_NAMES, judge)


def _client_alone(kind: ClientKind) -> Rule:
    """Return the rule for properties of a Java client that are written without a cluster."""
    prefix = f"{kind}."
    effective = _CLIENTS[kind] | _EFFECTIVE_FROM_CLUSTER
    reasons = {**POINTLESS[kind], **{name: missed.why for name, missed in MISSED[kind].items()}}
    candidates = frozenset(f"A.{prefix}{name}" for name in effective)

    def judge(name: str, _text: str) -> Remark:
        bare = name.removeprefix(prefix)
        if bare in effective:
            return Remark(
                rule="has no effect without a cluster, as in Java",
                fix=f"write A.{name} for a cluster A",
                is_misplaced=True,
            )
        if bare in reasons or bare in _SECURITY:
            return no_effect(reasons.get(bare, ""))
        raise UnknownKeyError(candidates)

    return Rule(beginning(prefix), judge)


def _misplaced_guarantee(name: str, default: str, fix: str, level: str) -> Rule:
    """Return the rule for a key that asks for exactly-once at a level where Java ignores it.

    The ``default`` is only reported by ``mm2 explain``. ``required`` is an error, because nothing would check it.
    """

    def judge(_name: str, text: str) -> Remark:
        value = text.strip().lower()
        if value == default:
            return silent(f"read with another prefix, as in Java; {value} is the default")
        return Remark(
            rule=f"has no effect {level}, as in Java, so it does not make any flow exactly-once",
            fix=fix,
            weight=Weight.ERROR if value == "required" else Weight.WARNING,
        )

    return Rule(named((name,)), judge)


def _misplaced_support(fix: str, level: str) -> Rule:
    return _misplaced_guarantee(_EXACTLY_ONCE_SUPPORT, "disabled", fix, level)


def _misplaced_requirement(fix: str, level: str) -> Rule:
    return _misplaced_guarantee(_CONNECTOR_SUPPORT, "requested", fix, level)


def _changes_records(name: str, text: str) -> Remark:
    """Return the remark on a class that changes what Java copies, unless it is the one of which that is not true."""
    reason = ignored_java_keys.CONNECTOR[name]
    if name != "connector.class" and text.strip() in java_effects.BYTES_CONVERTERS:
        return silent(reason)
    return Remark(
        rule=f"has no effect: {reason}. Java {java_effects.EFFECTS[name].does}: its copies differ",
        fix="remove the line if copies are to have the bytes of the source; keep running Java MirrorMaker 2 if "
        "consumers rely on what it wrote",
    )


_CONVERTERS = tuple(name for name in java_effects.CHANGING_CLASSES if name.endswith(".converter"))

_CHANGING = (
    Rule(named(java_effects.CHANGING_CLASSES), _changes_records),
    Rule(
        lambda name: name.startswith(tuple(f"{key}." for key in _CONVERTERS)) and name not in _WORKER_NAMES,
        lambda _name, _text: silent("it belongs to a converter, and keys, values and headers are copied as bytes"),
    ),
)
"""Keys of Java that change the copy. ``connector.class`` is one of connectors only."""


def _https(name: str, _text: str) -> None:
    if name not in _HTTPS:
        raise UnknownKeyError(_HTTPS)


def _sql(name: str, _text: str) -> None:
    if not sql_keys.is_sql_key(name):
        first, dot, _ = name.removeprefix(sql_keys.PREFIX).partition(".")
        chosen = first if first and dot else "NAME"
        raise UnknownKeyError(frozenset(f"{sql_keys.PREFIX}{chosen}.{kind}" for kind in sql_keys.KINDS))


_SQL = Rule(beginning(sql_keys.PREFIX), _sql)


def _plugin_path(name: str, text: str) -> Remark:
    """Return the remark on the directory of Java classes, which can be those that the file names."""
    reason = ignored_java_keys.WORKER[name]
    if not text.strip():
        return silent(reason)
    return Remark(
        rule=f"has no effect: {reason}. Java loads the classes of the flow's workers from here",
        fix="remove the line; write classes that the file names in Python (docs/how-to/extending.md)",
    )


def _enables_all(_name: str, text: str) -> Remark:
    return Remark(
        rule="enables every flow of the file, as in Java",
        fix="write A->B.enabled for each flow to run",
        weight=Weight.NOTE if text.strip().lower() == "false" else Weight.WARNING,
    )


ALONE = KeyScope(
    rules=(
        Rule(named(("enabled",)), _enables_all),
        misplaced(("group.id",), REMOVE, "without a cluster"),
        _legacy(""),
        _misplaced_requirement(f"write A->B.{_CONNECTOR_SUPPORT} for a flow A->B", "without a flow"),
        misplaced(java_derivation.ONLY_PER_FLOW, "write A->B.{name} for a flow A->B", "without a flow"),
        _misplaced_support(f"write B.{_EXACTLY_ONCE_SUPPORT} for a target B", "without a cluster"),
        Rule(named(_NODE), fine),
        _SQL,
        *_CHANGING,
        ignored(ignored_java_keys.CONNECTOR),
        Rule(named(_CONNECTOR), fine),
        Rule(named(_FROM_CLUSTER), fine),
        Rule(named(filter(beginning(*java_derivation.WORKER_PREFIXES), _WORKER)), fine),
        ignored(
            {
                name: reason
                for name, reason in ignored_java_keys.WORKER.items()
                if name.startswith(java_derivation.WORKER_PREFIXES)
            }
        ),
        Rule(beginning(HTTPS), _https),
        Rule(beginning("spark.", "config.providers.", *_STORAGE, *_TRANSFORMATIONS), fine),
        misplaced(_EFFECTIVE_WORKER, "write B.{name} for a target B", "without a cluster"),
        useless(_WORKER_NAMES, ignored_java_keys.WORKER),
        *map(_client_alone, ClientKind),
        *(
            misplaced(names, f"write A.{kind}.{{name}} for a cluster A", "without a cluster")
            for kind, names in _CLIENTS.items()
        ),
    ),
    candidates=frozenset(_NODE) | (java_derivation.CONNECTOR_NAMES - set(java_derivation.LEGACY_NAMES)),
    defaults=_defaults(_NODE) | _defaults(_CONNECTOR),
)


def is_known_alone(name: str) -> bool:
    """Return whether `ALONE` contains ``name`` as a whole: source.cluster.alias does not belong to cluster source."""
    known = name in _NODE or name in java_derivation.CONNECTOR_NAMES or name in java_derivation.CLIENT_NAMES
    return known or sql_keys.is_sql_key(name)


@lru_cache(maxsize=16)  # lines about one cluster or flow are usually adjacent
def under_cluster(alias: str) -> KeyScope:
    """Return the place of ``alias.…``."""
    instead = f"write {{name}}, or {alias}->X.{{name}} or X->{alias}.{{name}} for one flow"
    return KeyScope(
        rules=(
            Rule(
                named(("group.id",)),
                always(f"all flows into {alias} share this group and block each other", REMOVE),
            ),
            Rule(
                named(("alias",)),
                always(
                    f"is source.cluster.alias of flows from {alias} and target.cluster.alias of flows into {alias},"
                    " as in Java",
                    f"remove the line, or write {alias}->X.source.cluster.alias or X->{alias}.target.cluster.alias",
                ),
            ),
            _misplaced_requirement(f"write X->{alias}.{_CONNECTOR_SUPPORT} for a flow X->{alias}", "for a cluster"),
            Rule(named(_WORKER), fine),
            Rule(named(("plugin.path",)), _plugin_path),
            Rule(named(_FROM_CLUSTER | _WORKER_CLIENT), fine),
            Rule(named(_CONVERTERS), _changes_records),
            _CHANGING[1],
            ignored(ignored_java_keys.WORKER),
            Rule(beginning(*_STORAGE), fine),
            *(_client(kind, f"{kind}.") for kind in ClientKind),
            misplaced(
                (*java_derivation.ONLY_PER_FLOW, "enabled"),
                f"write X->{alias}.{{name}} for a flow X->{alias}",
                "for a cluster",
            ),
            misplaced(
                (SOURCE_ALIAS, TARGET_ALIAS),
                f"write {alias}->X.{{name}} or X->{alias}.{{name}} for one flow",
                "for a cluster",
            ),
            misplaced(_effective(_CONNECTOR), instead, "for a cluster"),
            Rule(beginning(sql_keys.PREFIX), always("has no effect for a cluster", instead, is_misplaced=True)),
            *(
                misplaced((old,), instead.replace("{name}", new), "for a cluster")
                for old, new in java_derivation.LEGACY_NAMES.items()
            ),
            useless(_FLOW_NAMES, ignored_java_keys.CONNECTOR),
            *(
                misplaced(names, f"write {alias}.{kind}.{{name}}", f"without {kind}.")
                for kind, names in _CLIENTS.items()
            ),
        ),
        candidates=_WORKER_NAMES | java_derivation.CLIENT_NAMES | _CLIENT_NAMES,
        defaults=_defaults(_WORKER) | _CLIENT_DEFAULTS,
        has_queries=False,
    )


@lru_cache(maxsize=16)
def under_flow(flow: Flow) -> KeyScope:
    """Return the place of ``A->B.…``."""
    return KeyScope(
        rules=(
            _legacy(f"{flow}."),
            *_CHANGING,
            ignored(ignored_java_keys.CONNECTOR),
            Rule(named(_CONNECTOR), fine),
            _SQL,
            _misplaced_support(
                f"write {flow.target}.{_EXACTLY_ONCE_SUPPORT} for all flows into {flow.target}", "for a flow"
            ),
            Rule(beginning("topic.creation.", "offsets.storage.topic", "config.providers.", *_TRANSFORMATIONS), fine),
            Rule(named(f"{side}.cluster.{name}" for side in ("source", "target") for name in _FROM_CLUSTER), fine),
            Rule(
                named(f"producer.{name}" for name in _RECORDS_ONLY),
                lambda name, _text: Remark(
                    rule="applies to the producers of offset syncs only, as in Java",
                    fix=f"write {flow}.producer.override.{name.removeprefix('producer.')} or {flow.target}.{name} "
                    "for the producer of records",
                ),
            ),
            *(_client(kind, prefix) for prefix, kind in _CLIENT_PREFIXES.items()),
            misplaced(_EFFECTIVE_FROM_CLUSTER, f"write {flow.source}.{{name}} or {flow.target}.{{name}}", "for a flow"),
            misplaced(
                _EFFECTIVE_WORKER, f"write {flow.target}.{{name}} for all flows into {flow.target}", "for a flow"
            ),
            useless(_FROM_CLUSTER | _WORKER_NAMES, ignored_java_keys.WORKER),
        ),
        candidates=_FLOW_NAMES | _CLIENT_NAMES,
        defaults=_defaults(_CONNECTOR) | _CLIENT_DEFAULTS,
    )


_CLIENT_PREFIXES: Mapping[str, ClientKind] = {
    **{f"{kind}.override.": kind for kind in ClientKind},
    **{f"{side}.{kind}.": kind for side in ("source", "target") for kind in ClientKind},
    **{f"{kind}.": kind for kind in ClientKind},
}
"""Longer prefixes first."""
