"""Election backends: systems other than a flow's own Kafka group that can elect its leader.

A backend consists of its election (`mm2.election.protocol.Election`), its settings, the properties they are read from,
and an entry in `BACKENDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, ClassVar

KAFKA = "kafka"
"""The value of mm2.election that elects leaders through the flow's Kafka group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Import strings of a backend.

    ``keys`` is a `mm2.config.keys.election_keys.BackendKeys`; ``election`` is the class that is created from the
    backend's settings, a `MemberInfo`, an `Assign` and the `Joined` of the flow's Kafka group.
    """

    keys: str
    election: str


BACKENDS: dict[str, Backend] = {
    "zookeeper": Backend(
        keys="mm2.config.keys.zookeeper_keys:ZooKeeperKeys",
        election="mm2.election.zookeeper.zookeeper_election:ZooKeeperElection",
    ),
}
"""Backends by the value of mm2.election."""


class ElectionSettings(ABC):
    """Base class of the settings of one flow's election in one backend."""

    __slots__ = ()

    backend: ClassVar[str]
    """The name in `BACKENDS`."""

    @property
    @abstractmethod
    def session_timeout_ms(self) -> int:
        """How long a member that stops responding remains a member, in milliseconds."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be logged."""
        return ()

    @property
    @abstractmethod
    def places(self) -> tuple[str, ...]:
        """The locations of the election, each as ``<backend> <address>``.

        The flow's Kafka group is held under these names, so that nodes that share none of them exclude each other.
        """

    def make(self, *arguments: Any) -> Any:
        """Create the election without joining it."""
        return resolve_name(BACKENDS[self.backend].election)(self, *arguments)
