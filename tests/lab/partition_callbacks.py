"""Callbacks of a partition without a source task."""

from __future__ import annotations

from dataclasses import fields

from flows.partition.state import PartitionCallbacks


def callbacks_to(receiver: object) -> PartitionCallbacks:
    """Return callbacks that call the methods of ``receiver`` with the same names."""
    return PartitionCallbacks(**{one.name: getattr(receiver, one.name) for one in fields(PartitionCallbacks)})
