"""What a place in the file makes of a key: alone, under a cluster (``A.…``), under a flow (``A->B.…``).

A place is a list of rules; the first that applies to a key's name gives a remark, or None where the key does what it
says. A key that no rule applies to is unknown there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mm2.config import derive, java_only, keys, security_keys
from mm2.config.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.client_notes import MISSED, POINTLESS, ClientKind
from mm2.config.connectors import CONNECTORS
from mm2.config.electing import ElectionSettings
from mm2.config.keys import KeySpec
from mm2.config.node_keys import CLIENT_AUTH, HTTPS, FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.worker import WorkerSettings
from mm2.core.names import Flow


class UnknownKeyError(Exception):
    """No such key at this place; ``candidates`` are those there are."""

    def __init__(self, candidates: frozenset[str]) -> None:
        super().__init__()
        self.candidates = candidates


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about a key. One that is not ``loud`` says why a key means nothing here; nobody misses it.
    ``only_if_sound``: it speaks of a value that is accepted."""

    text: str
    loud: bool = True
    only_if_sound: bool = False


_Judge = Callable[[str, str], Remark | None]
"""From a key's name, without cluster or flow, and its text to what is to say."""


@dataclass(frozen=True, slots=True)
class _Rule:
    applies: Callable[[str], bool]
    judge: _Judge


@dataclass(frozen=True, slots=True)
class Place:
    """The rules of one place, and the names to choose from where somebody erred."""

    rules: tuple[_Rule, ...]
    candidates: frozenset[str]

    def judge(self, name: str, text: str) -> Remark | None:
        """What is to say about a key of this place. Raises UnknownKeyError."""
        for rule in self.rules:
            if rule.applies(name):
                return rule.judge(name, text)
        raise UnknownKeyError(self.candidates)


def _named(names: Iterable[str]) -> Callable[[str], bool]:
    return frozenset(names).__contains__


def _beginning(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


def _always(sentence: str) -> _Judge:
    """The same sentence for all keys of a rule; ``{name}`` in it is the key's."""
    return lambda name, _text: Remark(sentence.replace("{name}", name))


def _fine(_name: str, _text: str) -> None:
    return None


def _pointless(reasons: Mapping[str, str]) -> _Judge:
    return lambda name, _text: Remark(f"means nothing here: {reasons[name]}.", loud=False)


def _specs(*models: type[keys.KeyModel]) -> dict[str, KeySpec]:
    return {spec.name: spec for model in models for spec in keys.specs(model)}


def _not_yet(specs: Mapping[str, KeySpec]) -> _Judge:
    def judge(name: str, text: str) -> Remark | None:
        spec = specs[name]
        waits = spec.later and text.strip().lower() != spec.idle
        return Remark(_arrives_later(spec.later), only_if_sound=True) if waits else None

    return judge


def _arrives_later(what: str) -> str:
    return f"is accepted, but not in force yet: {what} arrive with a later release."


_CONNECTOR = _specs(*CONNECTORS, OwnFlowSettings)
_WORKER = _specs(WorkerSettings)
_NODE = _specs(FileSettings, RestSettings, ElectionSettings, OwnSettings, OwnFlowSettings)
_CLIENTS: Mapping[ClientKind, frozenset[str]] = {
    ClientKind.CONSUMER: keys.names(ConsumerKeys),
    ClientKind.PRODUCER: keys.names(ProducerKeys),
    ClientKind.ADMIN: keys.names(AdminKeys),
}
_SECURITY = security_keys.NAMES | set(security_keys.REFUSED_ALWAYS)
_HTTPS = frozenset(HTTPS + name for name in (CLIENT_AUTH, *security_keys.NAMES) if name.startswith("ssl."))
_RECORDS_ONLY = keys.names(ProducerKeys) - keys.names(ClientKeys)
_WORKER_CLIENT = keys.names(WorkerClientKeys)
_WORKER_NAMES = frozenset(_WORKER) | frozenset(java_only.WORKER) | _WORKER_CLIENT - derive.CLIENT_NAMES
_FLOW_NAMES = frozenset(_CONNECTOR) | frozenset(java_only.CONNECTOR)
_EXACTLY_ONCE = ("exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms")
_STORAGE = ("offset.storage.", "config.storage.", "status.storage.")
_TRANSFORMATIONS = ("transforms.", "predicates.")
_CLIENT_NAMES = frozenset(f"{kind}.{name}" for kind, names in _CLIENTS.items() for name in names)

_LEGACY = _Rule(
    _named(derive.LEGACY_NAMES),
    lambda name, _text: Remark(
        f"is an old name that Kafka 4 no longer knows. Write {derive.LEGACY_NAMES[name]}, which wins over it."
    ),
)


def _client(kind: ClientKind, prefix: str) -> _Rule:
    """Properties of a Java client behind ``prefix``."""
    honoured = _CLIENTS[kind] | _SECURITY
    candidates = frozenset(prefix + name for name in (*honoured, *POINTLESS[kind], *MISSED[kind]))

    def judge(name: str, text: str) -> Remark | None:
        bare = name.removeprefix(prefix)
        if bare in honoured:
            return None
        if bare in POINTLESS[kind]:
            return Remark(f"means nothing here: {POINTLESS[kind][bare]}.", loud=False)
        missed = MISSED[kind].get(bare)
        if missed is None:
            raise UnknownKeyError(candidates)
        return Remark(f"cannot be honoured: {missed.why}.", loud=text.strip() not in missed.harmless)

    # consumer.poll.timeout.ms and admin.timeout.ms are no client's, they only look so.
    return _Rule(lambda name: name.startswith(prefix) and name not in _FLOW_NAMES, judge)


def _https(name: str, _text: str) -> None:
    if name not in _HTTPS:
        raise UnknownKeyError(_HTTPS)


ALONE = Place(
    rules=(
        _Rule(
            _named(("enabled",)),
            lambda _name, text: Remark(
                "switches on every flow there is, as in Java. Write A->B.enabled for the flows that are meant.",
                loud=text.strip().lower() != "false",
            ),
        ),
        _Rule(_named(("group.id",)), _always("has no effect alone, as in Java. Remove the line.")),
        _LEGACY,
        _Rule(_named(derive.ONLY_PER_FLOW), _always("has no effect alone, as in Java. Write A->B.{name} for a flow.")),
        _Rule(_named(_EXACTLY_ONCE), _always("has no effect alone, as in Java. Write A->B.{name} for a flow.")),
        _Rule(_named(_NODE), _not_yet(_NODE)),
        _Rule(_named(java_only.CONNECTOR), _pointless(java_only.CONNECTOR)),
        _Rule(_named(_CONNECTOR), _not_yet(_CONNECTOR)),
        _Rule(_named(derive.CLIENT_NAMES | _SECURITY), _fine),
        _Rule(_named(filter(_beginning(*derive.WORKER_PREFIXES), _WORKER)), _not_yet(_WORKER)),
        _Rule(_named(filter(_beginning(*derive.WORKER_PREFIXES), java_only.WORKER)), _pointless(java_only.WORKER)),
        _Rule(_beginning(HTTPS), _https),
        _Rule(_beginning("spark.", "config.providers.", *_STORAGE, *_TRANSFORMATIONS), _fine),
        _Rule(_named(_WORKER_NAMES), _always("has no effect alone, as in Java. Write B.{name} for a target B.")),
        _Rule(
            _beginning(*(f"{kind}." for kind in ClientKind)),
            _always("has no effect alone, as in Java. Write A.{name} for a cluster A."),
        ),
        *(
            _Rule(_named(names), _always(f"has no effect alone, as in Java. Write A.{kind}.{{name}} for a cluster A."))
            for kind, names in _CLIENTS.items()
        ),
    ),
    candidates=frozenset(_NODE) | (derive.CONNECTOR_NAMES - set(derive.LEGACY_NAMES)),
)


def is_known_alone(name: str) -> bool:
    """True for names that `ALONE` knows as a whole: a cluster called ``source`` does not own source.cluster.alias."""
    return name in _NODE or name in derive.CONNECTOR_NAMES or name in derive.CLIENT_NAMES


@lru_cache(maxsize=16)  # lines about one cluster or flow mostly stand together
def under_cluster(alias: str) -> Place:
    """The place of ``alias.…``."""
    return Place(
        rules=(
            _Rule(
                _named(("group.id",)),
                _always(f"puts all flows into {alias} into one group, where they hinder each other. Remove the line."),
            ),
            _Rule(_named(_WORKER), _not_yet(_WORKER)),
            _Rule(_named(derive.CLIENT_NAMES | _SECURITY | _WORKER_CLIENT), _fine),
            _Rule(_named(java_only.WORKER), _pointless(java_only.WORKER)),
            _Rule(_beginning(*_STORAGE), _fine),
            *(_client(kind, f"{kind}.") for kind in ClientKind),
            _Rule(
                _named(_FLOW_NAMES | set(derive.LEGACY_NAMES)),
                _always(
                    f"has no effect for a cluster, as in Java. Write {{name}}, or X->{alias}.{{name}} for one flow."
                ),
            ),
            *(
                _Rule(_named(names), _always(f"has no effect here, as in Java. Write {alias}.{kind}.{{name}}."))
                for kind, names in _CLIENTS.items()
            ),
        ),
        candidates=_WORKER_NAMES | derive.CLIENT_NAMES | _CLIENT_NAMES,
    )


@lru_cache(maxsize=16)
def under_flow(flow: Flow) -> Place:
    """The place of ``A->B.…``."""
    return Place(
        rules=(
            _LEGACY,
            _Rule(_named(java_only.CONNECTOR), _pointless(java_only.CONNECTOR)),
            _Rule(_named(_CONNECTOR), _not_yet(_CONNECTOR)),
            _Rule(_named(_EXACTLY_ONCE), _always(_arrives_later("exactly-once flows"))),
            _Rule(
                _beginning("topic.creation.", "offsets.storage.topic", "config.providers.", *_TRANSFORMATIONS), _fine
            ),
            _Rule(_named(f"{side}.cluster.{name}" for side in ("source", "target") for name in _FROM_CLUSTER), _fine),
            _Rule(
                _named(f"producer.{name}" for name in _RECORDS_ONLY),
                lambda name, _text: Remark(
                    "reaches the producers of offset syncs only, as in Java. For records write "
                    f"{flow}.producer.override.{name.removeprefix('producer.')} or {flow.target}.{name}."
                ),
            ),
            *(_client(kind, prefix) for prefix, kind in _CLIENT_PREFIXES.items()),
            _Rule(
                _named(_FROM_CLUSTER),
                _always(
                    "has no effect for a flow, as in Java: connections are a cluster's. "
                    f"Write {flow.source}.{{name}} or {flow.target}.{{name}}."
                ),
            ),
            _Rule(
                _named(_WORKER_NAMES),
                _always(
                    "has no effect for a flow, as in Java. "
                    f"Write {flow.target}.{{name}}, for all flows into {flow.target}."
                ),
            ),
        ),
        candidates=_FLOW_NAMES | _CLIENT_NAMES,
    )


_FROM_CLUSTER = derive.CLIENT_NAMES | _SECURITY
_CLIENT_PREFIXES: Mapping[str, ClientKind] = {
    **{f"{kind}.override.": kind for kind in ClientKind},
    **{f"{side}.{kind}.": kind for side in ("source", "target") for kind in ClientKind},
    **{f"{kind}.": kind for kind in ClientKind},
}
"""Longer prefixes first, where one begins with another."""
