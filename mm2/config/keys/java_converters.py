"""The converters of a file that change what Java's MirrorMaker 2 copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.config.grammar.values import Properties
from mm2.config.keys.java_effects import BYTES_CONVERTERS
from mm2.core.offsets.converted_copies import RecordPart


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaConverter:
    """A converter that changes a ``part`` of records in Java: the ``key`` as it is in the file, and its ``value``."""

    part: RecordPart
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"


def changing_converters(worker: Properties, connector: Properties) -> Iterator[JavaConverter]:
    """Yield the converters of a flow that change records; those of connectors take precedence (Kafka: Worker)."""
    for part in RecordPart:
        name = f"{part}.converter"
        found = connector.get(name) or worker.get(name)
        if found is not None and found.entry is not None and found.text.strip() not in BYTES_CONVERTERS:
            yield JavaConverter(part=part, key=found.entry.key, value=found.entry.shown.strip())
