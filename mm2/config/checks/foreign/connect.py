"""Recognition of Kafka Connect's files: connectors and workers."""

from __future__ import annotations

import json
import re

from mm2.config.checks.foreign.foreign_file import ADDRESS, INSTEAD, OFFSETS_OF_CONNECT, ForeignFile, Settings, line
from mm2.config.grammar.secrets import shown

SECURITY = ("security.protocol", "ssl.", "sasl.")

_OF_A_WORKER = ("offset.storage.topic", "offset.storage.file.filename", "rest.port")
_MIRROR = "org.apache.kafka.connect.mirror.Mirror"
_ADD_SOURCE = "add the settings of the MirrorSourceConnector: without its topics, all topics are copied"
_SOURCE_TOPICS = "(the topics of the MirrorSourceConnector)"
_SIDES = ("source", "target")
_CLUSTER = re.compile(r"(source|target)\.cluster\.(?!alias$)(.+)")
_NOT_OF_A_FLOW = re.compile(
    r"name|connector\.class|clusters|source\.cluster\..*|target\.cluster\..*|(key|value|header)\.converter.*"
)


def connector(text: str, properties: Settings) -> ForeignFile | None:
    """Recognise a connector configuration in properties or JSON form, with or without the envelope of Connect's REST
    API."""
    settings = _json(text) or properties
    if "connector.class" not in settings or "clusters" in settings:
        return None
    return connector_settings("is the configuration of a Kafka Connect connector", settings)


def connector_settings(what: str, settings: Settings) -> ForeignFile:
    """Convert the settings of a connector; ``what`` describes the file."""
    class_name = settings["connector.class"]
    if not class_name.startswith((_MIRROR, "Mirror")):
        name = shown("connector.class", class_name) or "without a class"
        return ForeignFile(
            f"{what} other than MirrorMaker 2 ({name}){INSTEAD}",
            ("run this connector in Kafka Connect: mm2 only replicates between Kafka clusters",),
        )
    aliases = tuple(settings.get(f"{side}.cluster.alias") or side for side in _SIDES)
    flow = "->".join(aliases)
    lines = [f"clusters = {', '.join(aliases)}"]
    for side, alias in zip(_SIDES, aliases, strict=True):
        if f"{side}.cluster.bootstrap.servers" not in settings:
            lines.append(f"{alias}.bootstrap.servers = {ADDRESS}")
        lines += [
            line(f"{alias}.{match[2]}", value)
            for key, value in settings.items()
            if (match := _CLUSTER.fullmatch(key)) and match[1] == side
        ]
    lines.append(f"{flow}.enabled = true")
    notes = [OFFSETS_OF_CONNECT]
    if "MirrorSource" not in class_name and "topics" not in settings:
        notes.append(_ADD_SOURCE)
        lines.append(f"{flow}.topics = {_SOURCE_TOPICS}")
    lines += [line(f"{flow}.{key}", value) for key, value in settings.items() if not _NOT_OF_A_FLOW.fullmatch(key)]
    return ForeignFile(f"{what}{INSTEAD}", tuple(notes), tuple(lines))


def worker(_text: str, properties: Settings) -> ForeignFile | None:
    """Recognise the configuration of a Connect worker. Its cluster is the target of MirrorMaker connectors."""
    if "clusters" in properties or not any(key in properties for key in _OF_A_WORKER):
        return None
    lines = ["clusters = A, B", f"A.bootstrap.servers = {ADDRESS}"]
    lines += [
        line(f"B.{key}", value) for key, value in properties.items() if key.startswith(("bootstrap.servers", *SECURITY))
    ]
    return ForeignFile(
        f"is the configuration of a Kafka Connect worker{INSTEAD}",
        (OFFSETS_OF_CONNECT, _ADD_SOURCE),
        (*lines, "A->B.enabled = true", f"A->B.topics = {_SOURCE_TOPICS}"),
    )


def _json(text: str) -> Settings | None:
    """Return the settings of a JSON object, or None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    config = found.get("config", found)
    if not isinstance(config, dict):
        return None
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
