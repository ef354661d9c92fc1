"""What a Java MirrorMaker last ran a flow with, laid beside the file it is taken over with.

Java's leader writes its connectors' configurations to ``mm2-configs.<source>.internal`` (mm2-compat §2.4, §6.2).
Whoever takes over with another file by mistake copies other topics, or copies them under other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from mm2.config import keys, secrets
from mm2.config.connectors import CheckpointSettings, SourceSettings
from mm2.config.keys import KeyModel, KeySpec
from mm2.config.settings import FlowSettings

_PACE = ("tasks.max", "admin.timeout.ms", ".interval.seconds", "replication.factor")
"""Keys, by their ends, that say how often and how wide: what is copied stays the same."""

_BOOTSTRAP = "source.cluster.bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key with another meaning here than in what Java wrote down. Values as one would write them in the file."""

    key: str
    java: str
    here: str

    def __str__(self) -> str:
        return f"{self.key} = {self.here} (was {self.java})"


def differences(flow: FlowSettings, java: Mapping[str, str]) -> tuple[Difference, ...]:
    """Compare what decides which topics and groups are replicated, and under which names.

    ``java`` are the properties of one connector as Java wrote them. Values that stand for something else (``${…}``) are
    not compared: Java writes them down as they are in its file.
    """
    return (
        *_bootstrap(flow, java),
        *_of(SourceSettings, flow.source, java),
        *_of(CheckpointSettings, flow.checkpoint, java),
    )


def _bootstrap(flow: FlowSettings, java: Mapping[str, str]) -> Iterator[Difference]:
    """Another cluster under the old alias is worth a word; brokers of which one is the same are the same cluster."""
    text = java.get(_BOOTSTRAP, "")
    there = {server.strip() for server in text.split(",")} - {""}
    here = flow.clients.source_consumer.bootstrap_servers
    if there and "${" not in text and there.isdisjoint(here):
        yield Difference(key=f"{flow.flow.source}.bootstrap.servers", java=text, here=", ".join(here))


def _of(model: type[KeyModel], settings: KeyModel, java: Mapping[str, str]) -> Iterator[Difference]:
    shared = keys.names(SourceSettings) & keys.names(CheckpointSettings)
    for spec in keys.specs(model):
        if spec.name.endswith(_PACE) or (model is CheckpointSettings and spec.name in shared):
            continue
        text = java.get(spec.name)
        if text is not None and ("${" in text or secrets.is_secret(spec.name, text)):
            continue
        there, here = _typed(model, spec, text), keys.as_text(getattr(settings, spec.field))
        if there != here:
            yield Difference(key=spec.name, java=there or "", here=here or "")


def _typed(model: type[KeyModel], spec: KeySpec, text: str | None) -> str | None:
    """The value Java took it for, written in one way; as it stands where this program would refuse it."""
    if text is None:
        return spec.default
    try:
        return keys.as_text(getattr(model.model_validate({spec.name: text}), spec.field))
    except ValidationError:
        return text
