"""Rounds over many consumer groups, in which the failure of one group does not affect others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mm2.core.naming.names import Flow
from mm2.kafka.client.cluster import Cluster

log = logging.getLogger(__name__)

GROUPS_AT_ONCE = 200
"""Groups that are read, decided and written together: with 100 partitions each, 0.1 s of work in small steps."""


class GroupErrors:
    """The groups for which the last round failed, with their errors.

    New errors are logged in one line: if a group coordinator is unavailable, there can be thousands.
    """

    def __init__(self, flow: Flow, failure: str) -> None:
        """``failure`` is a message with ``{}`` in place of the groups."""
        self._flow = flow
        self._failure = failure
        self._last: Mapping[str, str] = {}
        self._current: dict[str, str] = {}

    @property
    def warning(self) -> str | None:
        """A message about the groups for which the last round failed; None if there are none."""
        return about_groups(self._failure, self._last) if self._last else None

    def report(self, group: str, error: str) -> None:
        """Record that the current round failed for ``group``."""
        self._current[group] = error

    async def round(
        self, groups: Sequence[str], cluster: Cluster, work: Callable[[Sequence[str]], Awaitable[None]]
    ) -> None:
        """Call ``work`` with all groups, in chunks.

        Raises ClusterError if ``cluster`` is unavailable after a failure, as each further chunk would also time out.
        """
        self._current = {}
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            failures = len(self._current)
            await work(groups[start : start + GROUPS_AT_ONCE])
            if len(self._current) > failures:
                await cluster.metadata(())
        new = {group: error for group, error in self._current.items() if group not in self._last}
        if new:
            log.warning("%s: %s", self._flow, about_groups(self._failure, new))
        self._last = self._current


def about_groups(failure: str, groups: Mapping[str, str]) -> str:
    """Return ``failure`` with the groups in place of its ``{}``, and the error of the first group."""
    first, error = next(iter(groups.items()))
    others = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
    return f"{failure.format(f'group {first}{others}')}: {error}"
