"""Calls to a user's own admin class (forwarding.admin.class), with every failure turned into a `ClusterError`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from mm2.core.plugins import described
from mm2.core.topics.acls import Acl
from mm2.core.topics.topic_configs import DeleteConfig, SetConfig
from mm2.kafka.admin.cluster_admin import ClusterAdmin, Refusals
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.retrying import API_TIMEOUT_MS

Asked = TypeVar("Asked", str, Acl)


class UserAdminFailed(ClusterError):
    """The user's class raised an error, returned too late, or returned an invalid result. A retry may succeed."""

    retriable = True


class GuardedAdmin(ClusterAdmin):
    """Forwards every call to an instance of the user's class."""

    def __init__(self, name: str, own: type[ClusterAdmin], properties: Mapping[str, str], cluster: Cluster) -> None:
        """``name`` appears in error messages; ``properties`` are passed to its ``configure``, if it has one.

        Raises UserAdminFailed.
        """
        super().__init__(cluster)
        self._name = f"forwarding.admin.class {name}"
        try:
            self._own = own(cluster)
            if (configure := getattr(self._own, "configure", None)) is not None:
                configure(dict(properties))
        except (Exception, SystemExit) as error:
            raise UserAdminFailed(f"{self._name} cannot be created or configured: {described(error)}") from error

    async def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        names = [topic.name for topic in topics]
        return await self._asked(
            "create_topics", names, lambda: self._own.create_topics(topics, timeout_ms=timeout_ms), timeout_ms
        )

    async def create_partitions(self, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        return await self._asked(
            "create_partitions", totals, lambda: self._own.create_partitions(totals, timeout_ms=timeout_ms), timeout_ms
        )

    async def alter_topic_configs(
        self, changes: Mapping[str, Sequence[SetConfig | DeleteConfig]], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> Refusals:
        return await self._asked(
            "alter_topic_configs",
            changes,
            lambda: self._own.alter_topic_configs(changes, timeout_ms=timeout_ms),
            timeout_ms,
        )

    async def create_acls(
        self, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> dict[Acl, BrokerError | None]:
        return await self._asked(
            "create_acls", acls, lambda: self._own.create_acls(acls, timeout_ms=timeout_ms), timeout_ms
        )

    async def _asked(
        self,
        method: str,
        asked: Collection[Asked],
        call: Callable[[], Awaitable[Mapping[Asked, BrokerError | None]]],
        timeout_ms: int,
    ) -> dict[Asked, BrokerError | None]:
        """Call the user's method and return its result for each of ``asked``. Raises ClusterError."""
        try:
            async with asyncio.timeout(timeout_ms / 1000 * 2):  # what starts in time may take as long again
                answer: object = await call()
        except ClusterError:
            raise
        except TimeoutError as error:
            raise UserAdminFailed(f"{self._name}: {method} did not return within {2 * timeout_ms} ms") from error
        except (Exception, SystemExit) as error:
            raise UserAdminFailed(f"{self._name}: {method} raised {described(error)}") from error
        if not isinstance(answer, Mapping):
            raise UserAdminFailed(f"{self._name}: {method} returned a {type(answer).__name__}, not a dict")
        for one in asked:
            if not isinstance(answer.get(one, ""), BrokerError | None):
                raise UserAdminFailed(f"{self._name}: {method} must return None or a BrokerError for {one}")
        return {one: answer[one] for one in asked}
