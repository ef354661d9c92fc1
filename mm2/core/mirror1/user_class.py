"""Classes that users write for ``kafka-mirror-maker``: message handlers and rebalance listeners.

They are MirrorMaker 1's MirrorMakerMessageHandler and ConsumerRebalanceListener under Python names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import described


@dataclass(frozen=True, slots=True, kw_only=True)
class UserClass:
    """A Python class named on the command line, ``module:Class``, and its arguments (--….args), None if not set."""

    name: str
    arguments: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record of the source. ``timestamp_ms`` is epoch milliseconds; -1: it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """A record for the target. ``partition`` None: that of its key. ``timestamp_ms`` None: the time of writing."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class MessageHandler(Protocol):
    """--message.handler: makes records for the target of each record of the source.

    It is created with --message.handler.args as its argument, or without one, once in each lane. Its methods are
    called by the lane, for records of a partition in their order.
    """

    @abstractmethod
    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        """Return the records to write; an empty list drops the record. An exception is a record that cannot be
        copied."""


class RebalanceListener(Protocol):
    """--consumer.rebalance.listener: is notified of the partitions that this process copies.

    It is created with --rebalance.listener.args as its argument, or without one. Each stream calls it in a thread of
    its own. An exception ends the process.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Copying of these partitions has ended, and what was copied is committed.

        They are those of the last `on_partitions_assigned` of the stream, also if some could not be copied. As in
        MirrorMaker 1, it is not called if the group has removed this process, or takes the partitions away from it.
        """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Copying of these partitions begins when this returns."""


class UserClassError(Exception):
    """A user's class cannot be loaded, raised an exception, or returned something else than it should."""


def new_instance(user_class: UserClass) -> Any:
    """Import the class, and create an object of it. Raises UserClassError."""
    module, _, name = user_class.name.partition(":")
    try:
        made = getattr(import_module(module), name)
        return made() if user_class.arguments is None else made(user_class.arguments)
    except Exception as error:
        raise UserClassError(f"{user_class.name} cannot be created: {described(error)}") from error
