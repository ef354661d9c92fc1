"""One round of ACL sync: copies read permissions to remote topics (Java: MirrorSourceConnector.syncTopicAcls)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from mm2.config.settings import FlowSettings
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import Acl, acls_to_create
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.kafka.admin.acls import describe_topic_acls
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.leader.discovery import TopicDiscovery

log = logging.getLogger(__name__)

_JUDGED_AT_ONCE = 500  # ACLs processed before yielding to the event loop: about 10 ms
_NAMED = 3  # maximum number of ACLs in a log line

_NO_ACLS = frozenset({ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class TopicAclSync:
    """Creates the missing ACLs on the target. As in Java, ACLs are never deleted, because they can be in use."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: ClusterAdmin,
        discovery: TopicDiscovery,
        replication_filter: ReplicationFilter,
    ) -> None:
        self._flow = settings.flow
        self._policy = settings.policy
        self._source = source
        self._admin = target
        self._discovery = discovery
        self._filter = replication_filter
        self._source_alias = settings.aliases.source
        self._timeout_ms = settings.source.admin_timeout_ms
        self._made: set[Acl] = set()
        self._logged_no_authorizer = False

    async def round(self) -> list[str]:
        """Sync all ACLs; return warnings. Raises ClusterError if a cluster is unavailable."""
        try:
            of_source = await describe_topic_acls(self._source, timeout_ms=self._timeout_ms)
        except BrokerError as error:
            return self._without_source(error)
        unanswered: dict[str, None] = {}
        left_out = (await self._discovery.wait()).returned.keys()
        wanted = await self._wanted(of_source, left_out, unanswered)
        present = await self._present() if wanted else frozenset()
        missing = [acl for acl in wanted if acl not in present]
        refused = await self._create(missing) if missing else []
        return [*refused, *(f"cannot sync topic ACLs: {error}" for error in unanswered)]

    def _without_source(self, error: BrokerError) -> list[str]:
        if error.code == ErrorCode.SECURITY_DISABLED:
            if not self._logged_no_authorizer:  # once: most clusters without an authorizer will never have one
                log.info(
                    "%s: cluster %s has no authorizer, so there are no ACLs to sync; set"
                    " sync.topic.acls.enabled = false to stop checking",
                    self._flow,
                    self._flow.source,
                )
            self._logged_no_authorizer = True
            return []
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return [f"cannot sync topic ACLs: {error}, or set {self._flow}.sync.topic.acls.enabled = false"]
        raise error

    async def _wanted(self, of_source: list[Acl], left_out: Collection[str], unanswered: dict[str, None]) -> list[Acl]:
        """Return the ACLs for the remote topics; add the errors of custom filters and policies to ``unanswered``."""

        def replicates(topic: str) -> bool:
            if topic in left_out:
                return False
            try:
                self._policy.format_remote_topic(self._source_alias, topic)
                return self._filter.replicates(topic)
            except PluginError as error:
                unanswered[str(error)] = None
                return False

        wanted: dict[Acl, None] = {}
        for start in range(0, len(of_source), _JUDGED_AT_ONCE):
            remote = acls_to_create(
                of_source[start : start + _JUDGED_AT_ONCE],
                replicates=replicates,
                policy=self._policy,
                source_alias=self._source_alias,
            )
            wanted |= dict.fromkeys(remote)
            await asyncio.sleep(0)
        return list(wanted)

    async def _present(self) -> Collection[Acl]:
        """Return the target's ACLs; if the node's principal cannot read them, those created during this leader term."""
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
        return [self._warning(error, count) for error, count in refused.values()]

    def _warning(self, error: BrokerError, count: int) -> str:
        what = f"cannot create {count} missing topic {'ACL' if count == 1 else 'ACLs'} on cluster {self._flow.target}"
        off = f"or set {self._flow}.sync.topic.acls.enabled = false"
        if error.code == ErrorCode.SECURITY_DISABLED:
            return f"{what}, which has no authorizer; set authorizer.class.name on its brokers, {off}"
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return f"{what}: {error}, {off}"
        return f"{what}: {error}"


def _some(acls: list[Acl]) -> str:
    names = ", ".join(map(str, acls[:_NAMED]))
    more = len(acls) - _NAMED
    return f"{len(acls)} {'ACL' if len(acls) == 1 else 'ACLs'}: {names}" + (f" and {more} more" if more > 0 else "")
