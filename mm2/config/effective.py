"""Every effective setting of a flow or a node, with its line and update mode.

The basis for explaining a file (`mm2.config.explanation`), and for comparing files (`mm2.config.reload.comparison`) and
nodes (`mm2.config.reload.fingerprint`). Values are typed, so that ``+5`` and ``5``, ``TRUE`` and ``true``, ``a,b`` and
``a, b`` are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mm2.config.clients.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.flows import FlowProperties, storage_configs
from mm2.config.grammar import secrets
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import QUERY_KEY, Entry
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration, ignored_java_keys
from mm2.config.keys.class_keys import ADMIN, CLASS_KEYS, POLICY, is_own
from mm2.config.keys.connector_keys import CONNECTORS, HeartbeatSettings
from mm2.config.keys.declaration import KeyModel
from mm2.config.keys.election_keys import election_models
from mm2.config.keys.node_keys import HTTPS, FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.keys.sql_keys import PREFIX, SqlKeys, declared, field_of, names_in_order, of_name
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.config.plugins.plugin_reader import properties_for_plugins
from mm2.config.security import security_keys

CONNECTOR, WORKER, OWN, NODE = "connector", "worker", "own", "node"
"""Places of settings; those of clients are named after the fields of `mm2.config.clients.flow_clients.FlowClients`."""

CLIENTS: Mapping[str, type[ClientKeys]] = {
    "source_consumer": ConsumerKeys,
    "source_producer": ClientKeys,
    "source_admin": AdminKeys,
    "target_consumer": ClientKeys,
    "target_producer": ClientKeys,
    "target_admin": AdminKeys,
    "record_producer": ProducerKeys,
    "worker": WorkerClientKeys,
}
"""The keys that are read for each client: only records use consumer and producer keys."""

_CLIENT = "client "
_PASSED_ON = ("spark.", HTTPS)
_RENEWABLE = tuple(HTTPS + name for name in ("ssl.keystore.", "ssl.truststore.", "ssl.key.password"))
"""Certificates and keys of listeners, which are replaced without a restart."""

_CONNECTOR_NAMES = declaration.names(*CONNECTORS, OwnFlowSettings) | set(ignored_java_keys.CONNECTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One effective setting. ``text`` is the typed value as written in the file; None: no value. ``default``: the value
    is the default. ``entry``: the line that sets it."""

    name: str
    text: str | None
    default: bool
    entry: Entry | None
    update_mode: UpdateMode
    local: bool
    is_list: bool = False

    @property
    def secret(self) -> bool:
        """Whether ``text`` must not be printed."""
        return self.entry is not None and Value.of(self.entry).shown(self.name) == secrets.HIDDEN

    @property
    def shown(self) -> str | None:
        """``text``, safe to print; a query, and a value with references, as it is in the file."""
        if self.secret:
            return secrets.HIDDEN
        if self.entry is not None and (self.entry.has_references or QUERY_KEY.search(self.entry.key)):
            return self.entry.shown.strip()
        return self.text


NOT_SET = Setting(name="", text=None, default=True, entry=None, update_mode=UpdateMode.NOTHING, local=False)
"""Placeholder for a setting that a file does not contain."""

Settings = dict[tuple[str, str], Setting]
"""By place and name."""


def of_client(place: str) -> str | None:
    """Return the client that a place belongs to; None if it belongs to no client."""
    return place.removeprefix(_CLIENT) if place.startswith(_CLIENT) else None


def client_place(field: str) -> str:
    """Return the place of the client in ``field`` of `FlowClients`."""
    return f"{_CLIENT}{field}"


def of_flow(flow: FlowProperties, *, enabled: bool) -> Settings:
    """Return all settings of one flow. A flow that is not ``enabled`` only writes heartbeats, so settings about
    replication are left out."""
    settings: Settings = {}
    for model in CONNECTORS if enabled else (HeartbeatSettings,):
        settings |= of_model(CONNECTOR, model, flow.connector)
    if enabled:
        settings |= of_model(OWN, OwnFlowSettings, flow.own)
        settings |= {(OWN, setting.name): setting for setting in _of_queries(flow.sql)}
        settings |= {(CONNECTOR, setting.name): setting for setting in _of_own_classes(flow.connector)}
    settings |= of_model(WORKER, WorkerSettings, flow.worker)
    settings |= {
        (WORKER, name): _as_written(name, value, UpdateMode.RUNNING)
        for name, value in storage_configs(flow.worker).items()
    }
    for field, client in CLIENTS.items():
        place = client_place(field)
        for keys in (client, *security_keys.MODELS):
            settings |= of_model(place, keys, flow.clients[field])
    return settings


def node_models() -> tuple[type[KeyModel], ...]:
    """Return the keys of the node itself, in the order in which they are explained."""
    return (FileSettings, RestSettings, *election_models(), OwnSettings)


def of_node(file: Properties) -> Settings:
    """Return the settings of the node itself."""
    settings: Settings = {}
    for model in node_models():
        settings |= of_model(NODE, model, file)
    passed_on = {name: value for name, value in file.items() if name.startswith(_PASSED_ON)}
    return settings | {
        (NODE, name): _as_written(
            name, value, UpdateMode.RUNNING if name.startswith(_RENEWABLE) else UpdateMode.NODE, local=True
        )
        for name, value in passed_on.items()
    }


def lines_of(flow: FlowProperties) -> Iterator[str]:
    """Return the keys of the file that a flow's settings come from."""
    for properties in (flow.connector, flow.worker, flow.own, flow.sql, *flow.clients.values()):
        yield from (value.entry.key for value in properties.values() if value.entry is not None)


def of_model(place: str, model: type[KeyModel], properties: Properties) -> Settings:
    """Return every key of ``model`` in the order of its declaration."""
    typed = declaration.read(model, properties, ProblemLog(""))  # only valid files are compared
    settings: Settings = {}
    for spec in declaration.specs(model):
        value = properties.get(spec.name)
        text = declaration.as_text(getattr(typed, spec.field))
        entry = value.entry if value is not None else None
        settings[place, spec.name] = Setting(
            name=spec.name,
            text=text,
            default=entry is None or text == spec.default,
            entry=entry,
            update_mode=spec.update_mode,
            local=spec.local,
            is_list=spec.java_type == "LIST",
        )
    return settings


def _of_queries(keys: Properties) -> Iterator[Setting]:
    """Return the settings of SQL flows. The order of the names is part of their topics, because the first name that
    matches a topic applies. A file is compared by its content: its path can differ between nodes."""
    earlier = ""
    for name in names_in_order(keys):
        of_this = of_name(keys, name)
        typed = declaration.read(SqlKeys, {declared(kind): value for kind, value in of_this.items()}, ProblemLog(""))
        for kind, value in of_this.items():
            text = declaration.as_text(getattr(typed, field_of(kind))) or ""
            yield Setting(
                name=f"{PREFIX}{name}.{kind}",
                text=f"{text} (after {earlier})" if kind == "topics" and earlier else text,
                default=False,
                entry=value.entry,
                update_mode=UpdateMode.FLOW,
                local=kind == "file",
            )
        earlier = name


def _of_own_classes(connector: Properties) -> Iterable[Setting]:
    """Return the settings of custom classes. Filters are recreated without a restart; a change for a policy or an admin
    restarts the flow, because everything else is built with them."""
    own = {key.name for key in CLASS_KEYS if key.name in connector and is_own(connector[key.name].text)}
    if not own:
        return
    update_mode = UpdateMode.FLOW if own & {POLICY.name, ADMIN.name} else UpdateMode.RUNNING
    for name, value in properties_for_plugins(connector).items():
        if name not in _CONNECTOR_NAMES and not name.startswith(PREFIX):
            yield _as_written(name, value, update_mode)


def _as_written(name: str, value: Value, update_mode: UpdateMode, *, local: bool = False) -> Setting:
    return Setting(
        name=name, text=value.text.strip(), default=False, entry=value.entry, update_mode=update_mode, local=local
    )
