"""Recognizes files of other programs, and says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.config.grammar.properties import escaped
from mm2.config.grammar.secrets import is_secret

ADDRESS = "host:port"
INSTEAD = ", not an mm2.properties file"
IDENTITY_POLICY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
START_FROM_EXAMPLE = "start from a copy of mm2.properties.example"
OFFSETS_OF_CONNECT = (
    "note that copying starts at auto.offset.reset (default: earliest), so records can be copied again: "
    "mm2 does not continue from the offsets of the Connect cluster"
)

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """What a file ``is`` or contains, remarks on it, and the lines of mm2.properties to write instead."""

    rule: str
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    heading: str = "write an mm2.properties file with these lines:"

    @property
    def fix(self) -> str:
        """The remarks, then the lines."""
        return "\n".join((*self.notes, self.heading, *self.lines) if self.lines else self.notes)


def line(key: str, value: str) -> str:
    """Return a line of mm2.properties. Secrets are never printed: their keys are named without a value."""
    return f"{key} = (copy the value)" if is_secret(key, value) else f"{key} = {escaped(value)}"
