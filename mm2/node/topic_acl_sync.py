"""One round of ACL sync: who may read a topic may read its remote topic (mm2-compat §3.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from mm2.config.settings import FlowSettings
from mm2.core.acls import Acl, acls_to_create
from mm2.core.plugins import PluginError
from mm2.core.replication_filter import ReplicationFilter
from mm2.kafka.acls import describe_topic_acls
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError

log = logging.getLogger(__name__)

_JUDGED_AT_ONCE = 500  # ACLs between two turns of the event loop: about 10 ms
_NAMED = 3  # ACLs that a log line names, where there are more

_NO_ACLS = frozenset({ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class TopicAclSync:
    """Creates on the target what is missing there. ACLs are never deleted, as in Java: somebody may rely on them."""

    def __init__(
        self, settings: FlowSettings, source: Cluster, target: ClusterAdmin, chosen: ReplicationFilter
    ) -> None:
        self._flow = settings.flow
        self._policy = settings.policy
        self._source = source
        self._admin = target
        self._chosen = chosen
        self._timeout_ms = settings.source.admin_timeout_ms
        self._made: set[Acl] = set()
        self._said_no_authorizer = False

    async def round(self) -> list[str]:
        """Returns what could not be brought over. Raises ClusterError when a cluster cannot be asked."""
        try:
            of_source = await describe_topic_acls(self._source, timeout_ms=self._timeout_ms)
        except BrokerError as error:
            return self._without_source(error)
        unanswered: dict[str, None] = {}
        wanted = await self._wanted(of_source, unanswered)
        present = await self._present() if wanted else frozenset()
        missing = [acl for acl in wanted if acl not in present]
        refused = await self._create(missing) if missing else []
        return [*refused, *(f"sync ACLs of topics: {words}" for words in unanswered)]

    def _without_source(self, error: BrokerError) -> list[str]:
        if error.code == ErrorCode.SECURITY_DISABLED:
            if not self._said_no_authorizer:  # once: most clusters without an authorizer will never have one
                log.info(
                    "%s: cluster %s has no authorizer, so there are no ACLs to copy."
                    " sync.topic.acls.enabled = false stops asking",
                    self._flow,
                    self._flow.source,
                )
            self._said_no_authorizer = True
            return []
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return [
                f"sync ACLs of topics: our principal may not read the ACLs of cluster {self._flow.source}: grant it"
                f" Describe on the cluster, or set {self._flow}.sync.topic.acls.enabled = false"
            ]
        raise error

    async def _wanted(self, of_source: list[Acl], unanswered: dict[str, None]) -> list[Acl]:
        """The remote topics' ACLs. ``unanswered``: what became of topics that a user's class gives no answer about."""

        def replicates(topic: str) -> bool:
            try:
                self._policy.format_remote_topic(self._flow.source, topic)
                return self._chosen.replicates(topic)
            except PluginError as error:
                unanswered[str(error)] = None
                return False

        wanted: dict[Acl, None] = {}
        for start in range(0, len(of_source), _JUDGED_AT_ONCE):
            remote = acls_to_create(
                of_source[start : start + _JUDGED_AT_ONCE],
                replicates=replicates,
                policy=self._policy,
                source_alias=self._flow.source,
            )
            wanted |= dict.fromkeys(remote)
            await asyncio.sleep(0)
        return list(wanted)

    async def _present(self) -> Collection[Acl]:
        """The target's ACLs. Where they are not shown to us: those we made since we lead."""
        try:
            return frozenset(await describe_topic_acls(self._admin.cluster, timeout_ms=self._timeout_ms))
        except BrokerError as error:
            if error.code not in _NO_ACLS:
                raise
            return self._made

    async def _create(self, missing: list[Acl]) -> list[str]:
        outcome = await self._admin.create_acls(missing, timeout_ms=self._timeout_ms)
        refused: dict[int, tuple[BrokerError, int]] = {}
        created = []
        for acl in missing:
            error = outcome.get(acl)
            if error is None:
                created.append(acl)
            else:
                first, count = refused.get(error.code, (error, 0))
                refused[error.code] = first, count + 1
        self._made.update(created)
        if created:
            log.info("%s: created %s", self._flow, _some(created))
        return [self._sentence(error, count) for error, count in refused.values()]

    def _sentence(self, error: BrokerError, count: int) -> str:
        target = self._flow.target
        what = f"sync ACLs of topics: {count} of them {'is' if count == 1 else 'are'} missing on cluster {target}"
        off = f"or set {self._flow}.sync.topic.acls.enabled = false"
        if error.code == ErrorCode.SECURITY_DISABLED:
            return f"{what}, which has no authorizer: set authorizer.class.name on its brokers, {off}"
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return f"{what}: our principal may not create ACLs there: grant it Alter on the cluster, {off}"
        return f"{what}: {error}"


def _some(acls: list[Acl]) -> str:
    names = ", ".join(map(str, acls[:_NAMED]))
    more = len(acls) - _NAMED
    return f"{len(acls)} {'ACL' if len(acls) == 1 else 'ACLs'}: {names}" + (f" and {more} more" if more > 0 else "")
