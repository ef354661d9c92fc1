"""Detection of source offsets under another source alias, which the flow does not continue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from mm2.core.naming.names import Flow, TopicPartition


def alias_change(
    flow: Flow,
    source_alias: str,
    partitions: Iterable[TopicPartition],
    *,
    stored: AbstractSet[TopicPartition],
    elsewhere: Mapping[str, AbstractSet[TopicPartition]],
) -> str | None:
    """Return a warning about those of ``partitions`` that do not continue because of the alias; None without any.

    ``stored`` have an offset under ``source_alias``, ``elsewhere`` under other aliases.
    """
    missing = sorted(one for one in partitions if one not in stored)
    for alias in sorted(elsewhere):
        found = [one for one in missing if one in elsewhere[alias]]
        if found:
            count = "1 partition starts" if len(found) == 1 else f"{len(found)} partitions start"
            return (
                f"source offsets, such as that of {found[0]}, are stored under the source alias {_shown(alias)}, but"
                f" the flow's is {_shown(source_alias)} (source.cluster.alias), so {count} without a stored offset"
                f" (auto.offset.reset); to continue where copying ended, write {flow}.source.cluster.alias = {alias}"
            )
    return None


def _shown(alias: str) -> str:
    return alias or "(empty)"
