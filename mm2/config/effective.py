"""Every setting in force for a flow or a node, one by one, with the line it comes from and how deep it reaches.

The ground for comparing files (`mm2.config.comparison`) and nodes (`mm2.config.agreement`). Values are typed, so that
``+5`` and ``5``, ``TRUE`` and ``true``, ``a,b`` and ``a, b`` are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mm2.config import java_only, keys, secrets
from mm2.config.class_names import ADMIN, CLASS_KEYS, POLICY, is_own
from mm2.config.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.connectors import CONNECTORS, HeartbeatSettings
from mm2.config.electing import ElectionSettings
from mm2.config.flows import STORAGE_WORDS, FlowProperties
from mm2.config.keys import KeyModel
from mm2.config.node_keys import FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.plugins import told_to_own_classes
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry
from mm2.config.reach import Reach
from mm2.config.security_keys import SecurityKeys
from mm2.config.values import Properties, Value
from mm2.config.worker import WorkerSettings

CONNECTOR, WORKER, OWN, NODE = "connector", "worker", "own", "node"
"""Places of settings; those of clients are called as the fields of `mm2.config.flow_clients.FlowClients`."""

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
"""What is read of each client: only records are fetched and produced as the file says."""

_CLIENT = "client "
_STORAGE = ("offset.storage.", "status.storage.", "config.storage.")
_PASSED_ON = ("spark.", "listeners.https.")
_CONNECTOR_NAMES = keys.names(*CONNECTORS, OwnFlowSettings) | set(java_only.CONNECTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting in force. ``text`` is typed and written as in the file, None: there is none. ``default``: the file
    does not say it, or says what holds anyway. ``entry``: the line that says it."""

    name: str
    text: str | None
    default: bool
    entry: Entry | None
    reach: Reach
    local: bool
    is_list: bool = False

    @property
    def secret(self) -> bool:
        """Whether nobody may see ``text``."""
        return self.entry is not None and Value.of(self.entry).shown(self.name) == secrets.HIDDEN

    @property
    def shown(self) -> str | None:
        """``text`` as it may be printed."""
        return secrets.HIDDEN if self.secret else self.text


Settings = dict[tuple[str, str], Setting]
"""By place and name."""


def of_client(place: str) -> str | None:
    """The client that a place belongs to, None where it is none's."""
    return place.removeprefix(_CLIENT) if place.startswith(_CLIENT) else None


def client_place(field: str) -> str:
    """The place of the client that `FlowClients` calls ``field``."""
    return f"{_CLIENT}{field}"


def of_flow(flow: FlowProperties, *, enabled: bool) -> Settings:
    """All settings of one flow. One that is not ``enabled`` only writes heartbeats: what says which records are copied,
    and how, is left out."""
    settings: Settings = {}
    for model in CONNECTORS if enabled else (HeartbeatSettings,):
        settings |= _of_model(CONNECTOR, model, flow.connector)
    if enabled:
        settings |= _of_model(OWN, OwnFlowSettings, flow.own)
        settings |= {(CONNECTOR, setting.name): setting for setting in _of_own_classes(flow.connector)}
    settings |= _of_model(WORKER, WorkerSettings, flow.worker)
    settings |= {(WORKER, setting.name): setting for setting in _of_storage(flow.worker)}
    for field, client in CLIENTS.items():
        place = client_place(field)
        settings |= _of_model(place, client, flow.clients[field]) | _of_model(place, SecurityKeys, flow.clients[field])
    return settings


def of_node(file: Properties) -> Settings:
    """What concerns a node as a whole."""
    settings: Settings = {}
    for model in (FileSettings, RestSettings, ElectionSettings, OwnSettings):
        settings |= _of_model(NODE, model, file)
    passed_on = {name: value for name, value in file.items() if name.startswith(_PASSED_ON)}
    return settings | {
        (NODE, name): _as_written(name, value, Reach.NODE, local=True) for name, value in passed_on.items()
    }


def lines_of(flow: FlowProperties) -> Iterator[str]:
    """The keys of the file that a flow's settings come from, as they are written there."""
    for properties in (flow.connector, flow.worker, flow.own, *flow.clients.values()):
        yield from (value.entry.key for value in properties.values() if value.entry is not None)


def _of_model(place: str, model: type[KeyModel], properties: Properties) -> Settings:
    typed = keys.read(model, properties, ProblemLog(""))  # a file with errors is not looked at
    settings: Settings = {}
    for spec in keys.specs(model):
        value = properties.get(spec.name)
        text = keys.as_text(getattr(typed, spec.field))
        entry = value.entry if value is not None else None
        settings[place, spec.name] = Setting(
            name=spec.name,
            text=text,
            default=entry is None or text == spec.default,
            entry=entry,
            reach=spec.reach,
            local=spec.local,
            is_list=spec.java_type == "LIST",
        )
    return settings


def _of_storage(worker: Properties) -> Iterable[Setting]:
    """Settings of storage topics, which are given when such a topic is made."""
    for name, value in worker.items():
        prefix = next((prefix for prefix in _STORAGE if name.startswith(prefix)), None)
        if prefix is not None and name.removeprefix(prefix) not in STORAGE_WORDS:
            yield _as_written(name, value, Reach.RUNNING)


def _of_own_classes(connector: Properties) -> Iterable[Setting]:
    """What is no key of ours and told to classes of a user's own. Filters are made anew while all goes on; a policy or
    an admin is what everything else was built with."""
    own = {key.name for key in CLASS_KEYS if key.name in connector and is_own(connector[key.name].text)}
    if not own:
        return
    reach = Reach.FLOW if own & {POLICY.name, ADMIN.name} else Reach.RUNNING
    for name, value in told_to_own_classes(connector).items():
        if name not in _CONNECTOR_NAMES:
            yield _as_written(name, value, reach)


def _as_written(name: str, value: Value, reach: Reach, *, local: bool = False) -> Setting:
    return Setting(name=name, text=value.text.strip(), default=False, entry=value.entry, reach=reach, local=local)
