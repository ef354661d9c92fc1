"""Comparison of two loaded files by their effect on a node. Pure: without clock and I/O. The update mode of a change is
that of its key (`mm2.config.keys.update_mode`).

Rules: (A) Only effective settings are compared: an overridden line changes nothing. (B) A line that affects several
flows or clients is one change for each flow. (C) A changed key of a client has its update mode only if the settings of
some client of the flow change: a level of gzip with codec zstd does not. (D) A file that a setting names, such as a
certificate or a query, is compared by its content. (E) tasks.max restarts a flow with queries, because the number of a
source task then stands for another query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mm2.config import effective
from mm2.config.clients.flow_clients import FlowClients
from mm2.config.effective import CLIENTS, CONNECTOR, NOT_SET, OWN, Settings, client_place, of_client
from mm2.config.flows import FlowProperties
from mm2.config.grammar.properties import Entry
from mm2.config.keys import zookeeper_keys
from mm2.config.keys.sql_keys import PREFIX
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import File
from mm2.config.reload.changes import Change, FileDiff, FlowDiff
from mm2.config.security.listeners import key_prefix
from mm2.config.security.rest_tokens import TOKENS_FILE
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.config.sql.topic_queries import TopicQueries
from mm2.core.naming.names import Flow
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import SaslLogin, UnusableLogin
from mm2.core.settings.tls import TlsSettings
from mm2.core.settings.zookeeper import ZooKeeperSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedConfig:
    """A valid file: the settings of a node and their lines."""

    settings: NodeSettings
    file: File


def compare(old: ParsedConfig, new: ParsedConfig) -> FileDiff:
    """Return the changes from ``old`` to ``new``, which are read for the same node."""
    comparison = _Comparison(str(new.settings.path))
    before = {flow.flow: flow for flow in old.settings.flows}
    now = {flow.flow: flow for flow in new.settings.flows}
    changed = [
        FlowDiff(flow=flow, changes=comparison.flow(old, before[flow], new, settings))
        for flow, settings in now.items()
        if flow in before
    ]
    appeared = tuple(flow for flow in now if flow not in before)
    vanished = tuple(flow for flow in before if flow not in now)
    for flow in (*appeared, *vanished):
        comparison.cover(flow, old, new)
    return FileDiff(
        file=comparison.file,
        appeared=appeared,
        vanished=vanished,
        changed=tuple(diff for diff in changed if diff.changes),
        node=comparison.node(old, new),
        idle=comparison.idle(old, new),
    )


def of_nodes(old: ParsedConfig, new: ParsedConfig) -> tuple[Change, ...]:
    """Return the changes of the node itself, a part of `compare`."""
    return _Comparison(str(new.settings.path)).node(old, new)


@dataclass(slots=True)
class _Comparison:
    """Remembers the reported keys, to find the changed lines without effect at the end."""

    file: str
    reported: set[str] = field(default_factory=set)

    def flow(self, old: ParsedConfig, before: FlowSettings, new: ParsedConfig, now: FlowSettings) -> tuple[Change, ...]:
        enabled = before.enabled or now.enabled
        settings = [
            effective.of_flow(FlowProperties.of(reading.file.properties, now.flow), enabled=enabled)
            for reading in (old, new)
        ]
        same_clients = before.clients == now.clients
        queries = bool(before.queries.in_order or now.queries.in_order)
        found = []
        for place, change in self._changes(*settings):
            if same_clients and of_client(place):
                found.append(replace(change, update_mode=UpdateMode.NOTHING))
            elif queries and place == CONNECTOR and change.key.endswith("tasks.max"):
                found.append(replace(change, update_mode=UpdateMode.FLOW))
            else:
                found.append(change)
        contents = [*self._contents(before.clients, now.clients, *settings), *self._election(before, old, now, new)]
        logins = self._jaas_files(before.clients, now.clients, *settings)
        return _once([*found, *contents, *logins, *self._queries(before.queries, now.queries, *settings)])

    def node(self, old: ParsedConfig, new: ParsedConfig) -> tuple[Change, ...]:
        settings = (effective.of_node(reading.file.properties) for reading in (old, new))
        return _once([*(change for _, change in self._changes(*settings)), *self._node_contents(old, new)])

    def cover(self, flow: Flow, *readings: ParsedConfig) -> None:
        """Mark all lines of ``flow`` as reported: it is added or removed as a whole."""
        for reading in readings:
            self.reported.update(effective.lines_of(FlowProperties.of(reading.file.properties, flow)))

    def idle(self, old: ParsedConfig, new: ParsedConfig) -> tuple[Change, ...]:
        before, now = _entries(old.file), _entries(new.file)
        names = dict.fromkeys((*now, *before))
        return _once(
            self._change(
                before.get(name), now.get(name), _text(before.get(name)), _text(now.get(name)), UpdateMode.NOTHING
            )
            for name in names
            if name not in self.reported and _raw(before.get(name)) != _raw(now.get(name))
        )

    def _changes(self, old: Settings, new: Settings) -> Iterator[tuple[str, Change]]:
        for place, name in dict.fromkeys((*new, *old)):
            before, now = old.get((place, name), NOT_SET), new.get((place, name), NOT_SET)
            if before.text == now.text:
                continue
            either = before if now is NOT_SET else now
            change = self._change(before.entry, now.entry, before.shown, now.shown, either.update_mode)
            provided = before.shown == now.shown and now.entry is not None and now.entry.has_references
            yield place, replace(change, is_list=either.is_list, provided=provided)

    def _contents(self, before: FlowClients, now: FlowClients, old: Settings, new: Settings) -> Iterator[Change]:
        for client in CLIENTS:
            clients: tuple[ClientSettings, ClientSettings] = getattr(before, client), getattr(now, client)
            contents = [_file_contents(one) for one in clients]
            for name in contents[0].keys() & contents[1].keys():
                setting = new[client_place(client), name]
                same_place = setting.text == old[client_place(client), name].text
                if setting.entry is not None and same_place and contents[0][name] != contents[1][name]:
                    change = self._change(setting.entry, setting.entry, setting.shown, setting.shown, UpdateMode.FLOW)
                    yield replace(change, content=True)

    def _node_contents(self, old: ParsedConfig, new: ParsedConfig) -> Iterator[Change]:
        """Return the stores of listeners, and of calls to other nodes, and the file of tokens whose content changed."""
        before, now = old.settings.listening.peers, new.settings.listening.peers
        prefix = key_prefix(new.file.properties)
        yield from self._stores(prefix, (before, now), (old, new), UpdateMode.RUNNING)
        was, is_now = (_entries(reading.file).get(TOKENS_FILE) for reading in (old, new))
        if is_now is not None and _text(was) == _text(is_now) and old.settings.tokens != new.settings.tokens:
            yield replace(self._change(was, is_now, _text(was), _text(is_now), UpdateMode.RUNNING), content=True)

    def _election(
        self, before: FlowSettings, old: ParsedConfig, now: FlowSettings, new: ParsedConfig
    ) -> Iterator[Change]:
        """Return the stores of the flow's election whose content changed."""
        was, is_now = (
            flow.election.tls if isinstance(flow.election, ZooKeeperSettings) else None for flow in (before, now)
        )
        return self._stores(zookeeper_keys.PREFIX, (was, is_now), (old, new), UpdateMode.FLOW)

    def _stores(
        self,
        prefix: str,
        tls: tuple[TlsSettings | None, TlsSettings | None],
        readings: tuple[ParsedConfig, ParsedConfig],
        update_mode: UpdateMode,
    ) -> Iterator[Change]:
        before, now = tls
        if before is None or now is None:
            return
        old_contents, new_contents = _tls_contents(before), _tls_contents(now)
        for name in new_contents:
            was, is_now = (_entries(reading.file).get(prefix + name) for reading in readings)
            if is_now is not None and _text(was) == _text(is_now) and old_contents[name] != new_contents[name]:
                yield replace(self._change(was, is_now, _text(was), _text(is_now), update_mode), content=True)

    def _jaas_files(self, before: FlowClients, now: FlowClients, old: Settings, new: Settings) -> Iterator[Change]:
        """Return the clients without sasl.jaas.config whose login changed with the JAAS file, or a file it names."""
        for client in CLIENTS:
            place = client_place(client)
            setting = new[place, "security.protocol"]
            settings = [key for key in new if key[0] == place and key[1].startswith(("sasl.", "security."))]
            if (
                setting.entry is not None
                and new[place, "sasl.jaas.config"].entry is None
                and all(old[key].text == new[key].text for key in settings)
                and getattr(before, client).sasl != getattr(now, client).sasl
            ):
                change = self._change(setting.entry, setting.entry, setting.shown, setting.shown, UpdateMode.FLOW)
                yield replace(change, content=True)

    def _queries(self, before: TopicQueries, now: TopicQueries, old: Settings, new: Settings) -> Iterator[Change]:
        """Return the files of queries whose content changed."""
        actions = {query.name: query.action for query in before.in_order}
        for query in now.in_order:
            key = OWN, f"{PREFIX}{query.name}.file"
            setting, known = new.get(key, NOT_SET), actions.get(query.name)
            if setting.entry is not None and setting.text == old.get(key, NOT_SET).text and known != query.action:
                change = self._change(setting.entry, setting.entry, setting.shown, setting.shown, UpdateMode.FLOW)
                yield replace(change, content=True)

    def _change(
        self, old: Entry | None, new: Entry | None, was: str | None, now: str | None, update_mode: UpdateMode
    ) -> Change:
        entry = new or old
        assert entry is not None, "a setting without a line does not change"
        self.reported.update(one.key for one in (old, new) if one is not None)
        line = None if new is None else new.line
        return Change(file=self.file, line=line, key=entry.key, old=was, new=now, update_mode=update_mode)


def _file_contents(client: ClientSettings) -> dict[str, object]:
    """Return the settings that are read from files, by the property that names the file. What clients read again
    themselves is not among them."""
    return _tls_contents(client.tls) | _login_contents(client.sasl)


def _tls_contents(tls: TlsSettings) -> dict[str, object]:
    return {
        "ssl.truststore.location": tls.ca_pem,
        "ssl.keystore.location": (tls.certificate_pem, tls.key_pem),
    }


def _login_contents(login: SaslLogin | None) -> dict[str, object]:
    match login:
        case OAuthLogin():
            return dict(login.file_contents)
        case KerberosLogin():
            return {"sasl.jaas.config": (login.principal, login.keytab, login.files, login.krb5_conf)}
        case UnusableLogin():
            return {login.key: login.reason, "sasl.jaas.config": login.reason}
        case _:
            return {}


def _entries(file: File) -> dict[str, Entry]:
    return {name: value.entry for name, value in file.properties.items() if value.entry is not None}


def _raw(entry: Entry | None) -> str | None:
    return None if entry is None else entry.value


def _text(entry: Entry | None) -> str | None:
    return None if entry is None else entry.shown.strip()


def _once(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Merge equal changes, with their highest update mode; sorted by line, removed keys last."""
    found: dict[Change, Change] = {}
    for change in changes:
        bare = replace(change, update_mode=UpdateMode.NOTHING)
        known = found.get(bare, change)
        found[bare] = replace(change, update_mode=max(change.update_mode, known.update_mode))
    return tuple(sorted(found.values(), key=lambda change: (change.line is None, change.line or 0)))
