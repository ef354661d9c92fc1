"""Two loaded files, compared by what they mean to a node: no clock, no I/O, nothing is decided here that is not a key's
own word (`mm2.config.reach`).

Rules: (A) Only what is in force counts: a line that another one wins over changes nothing. (B) A line that reaches
several flows or clients is one change for each flow. (C) A client's key reaches as deep as it says only if some client
of the flow is really told something else: a level of gzip beside zstd is not. (D) A file that a setting names counts
with its contents, as certificates do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter

from mm2.config import effective
from mm2.config.changes import Change, FileDiff, FlowDiff
from mm2.config.effective import CLIENTS, Setting, Settings, client_place, of_client
from mm2.config.flow_clients import FlowClients
from mm2.config.flows import FlowProperties
from mm2.config.load import File
from mm2.config.properties import Entry
from mm2.config.reach import Reach
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.client_settings import ClientSettings
from mm2.core.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file that was found good: what a node runs on, and where that stands."""

    settings: NodeSettings
    file: File


def compare(old: Reading, new: Reading) -> FileDiff:
    """What is different in ``new``, for the node that both are read for."""
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
        comparison.is_told_of(flow, old, new)
    return FileDiff(
        file=comparison.file,
        appeared=appeared,
        vanished=vanished,
        changed=tuple(diff for diff in changed if diff.changes),
        node=comparison.node(old, new),
        idle=comparison.idle(old, new),
    )


def of_nodes(old: Reading, new: Reading) -> tuple[Change, ...]:
    """The part of `compare` that concerns the node as a whole."""
    return _Comparison(str(new.settings.path)).node(old, new)


@dataclass(slots=True)
class _Comparison:
    """Notes which lines it told of, so that the others are known in the end."""

    file: str
    told: set[str] = field(default_factory=set)

    def flow(self, old: Reading, before: FlowSettings, new: Reading, now: FlowSettings) -> tuple[Change, ...]:
        enabled = before.enabled or now.enabled
        settings = [
            effective.of_flow(FlowProperties.of(reading.file.properties, now.flow), enabled=enabled)
            for reading in (old, new)
        ]
        same_clients = before.clients == now.clients
        found = [
            replace(change, reach=Reach.NOTHING) if same_clients and of_client(place) else change
            for place, change in self._changes(*settings)
        ]
        return _once([*found, *self._contents(before.clients, now.clients, *settings)])

    def node(self, old: Reading, new: Reading) -> tuple[Change, ...]:
        settings = (effective.of_node(reading.file.properties) for reading in (old, new))
        return _once(change for _, change in self._changes(*settings))

    def is_told_of(self, flow: Flow, *readings: Reading) -> None:
        """What ``flow`` consists of needs no further word: it comes or goes as a whole."""
        for reading in readings:
            self.told.update(effective.lines_of(FlowProperties.of(reading.file.properties, flow)))

    def idle(self, old: Reading, new: Reading) -> tuple[Change, ...]:
        before, now = _entries(old.file), _entries(new.file)
        names = dict.fromkeys((*now, *before))
        return _once(
            self._change(before.get(name), now.get(name), _text(before.get(name)), _text(now.get(name)), Reach.NOTHING)
            for name in names
            if name not in self.told and _raw(before.get(name)) != _raw(now.get(name))
        )

    def _changes(self, old: Settings, new: Settings) -> Iterator[tuple[str, Change]]:
        for place, name in dict.fromkeys((*new, *old)):
            before, now = old.get((place, name)), new.get((place, name))
            if _value(before) == _value(now):
                continue
            either = now or before
            assert either is not None
            change = self._change(_entry(before), _entry(now), _shown(before), _shown(now), either.reach)
            yield place, replace(change, is_list=either.is_list)

    def _contents(self, before: FlowClients, now: FlowClients, old: Settings, new: Settings) -> Iterator[Change]:
        for client in CLIENTS:
            clients: tuple[ClientSettings, ClientSettings] = getattr(before, client), getattr(now, client)
            for name, contents in _CONTENTS.items():
                setting = new[client_place(client), name]
                same_place = _value(setting) == _value(old[client_place(client), name])
                if setting.entry is not None and same_place and contents(clients[0].tls) != contents(clients[1].tls):
                    change = self._change(setting.entry, setting.entry, setting.shown, setting.shown, Reach.FLOW)
                    yield replace(change, content=True)

    def _change(self, old: Entry | None, new: Entry | None, was: str | None, now: str | None, reach: Reach) -> Change:
        said = new or old
        assert said is not None, "what no line says does not change"
        self.told.update(entry.key for entry in (old, new) if entry is not None)
        line = None if new is None else new.line
        return Change(file=self.file, line=line, key=said.key, old=was, new=now, reach=reach)


_CONTENTS = {
    "ssl.truststore.location": attrgetter("ca_pem"),
    "ssl.keystore.location": attrgetter("certificate_pem", "key_pem"),
}
"""Settings that name a file, and what of a client comes from it."""


def _value(setting: Setting | None) -> str | None:
    return None if setting is None else setting.text


def _entry(setting: Setting | None) -> Entry | None:
    return None if setting is None else setting.entry


def _shown(setting: Setting | None) -> str | None:
    return None if setting is None else setting.shown


def _entries(file: File) -> dict[str, Entry]:
    return {name: value.entry for name, value in file.properties.items() if value.entry is not None}


def _raw(entry: Entry | None) -> str | None:
    return None if entry is None else entry.value


def _text(entry: Entry | None) -> str | None:
    return None if entry is None else entry.shown.strip()


def _once(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Equal ones are one, the deepest of them; by line, what stands nowhere any more last."""
    found: dict[Change, Change] = {}
    for change in changes:
        bare = replace(change, reach=Reach.NOTHING)
        known = found.get(bare, change)
        found[bare] = replace(change, reach=max(change.reach, known.reach))
    return tuple(sorted(found.values(), key=lambda change: (change.line is None, change.line or 0)))
