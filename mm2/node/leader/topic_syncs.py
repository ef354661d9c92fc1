"""Periodic syncs of the leader: topic configurations (KIP-894) and ACLs (MirrorSourceConnector.syncTopicAcls).

Their failures do not stop copying: they are warnings of the flow, and are retried in the next round. (Java fails the
connector if the target is too old for incremental changes, although copied records do not depend on it.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Protocol

from mm2.config.settings import FlowSettings
from mm2.core.log_records import about
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import Acl, acls_to_create
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.core.topics.topic_configs import DefaultsFrom, DeleteConfig, SetConfig, config_changes
from mm2.kafka.admin.acls import describe_topic_acls
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.wakeup import Wakeup
from mm2.node.leader.discovery import TopicDiscovery
from mm2.node.leader.topic_refusals import exclude_key, exclude_rejected

log = logging.getLogger(__name__)


Changes = Sequence[SetConfig | DeleteConfig]

_TOPICS_AT_ONCE = 500  # topics per request; the configurations of 10,000 topics would need 100 MB
_COMPARED_AT_ONCE = 100  # topics processed before yielding to the event loop: about 5 ms


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


class TopicConfigSync:
    """Compares the topics that exist on both clusters and changes the remote ones."""

    def __init__(
        self, settings: FlowSettings, source: Cluster, target: ClusterAdmin, discovery: TopicDiscovery
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._source = source
        self._admin = target
        self._discovery = discovery
        self._timeout_ms = settings.source.admin_timeout_ms
        self._defaults_from = DefaultsFrom(settings.source.use_defaults_from)

    async def round(self) -> list[str]:
        """Sync all configurations; return warnings. Raises ClusterError if a cluster is unavailable."""
        found = _Warnings(self._settings)
        excluded = cache(lambda name: not self._settings.config_property_filter(name))  # cached for one round only
        pairs = sorted((await self._discovery.wait()).remote_topics.items())
        changes: dict[str, Changes] = {}
        for start in range(0, len(pairs), _TOPICS_AT_ONCE):
            changes |= await self._compare(pairs[start : start + _TOPICS_AT_ONCE], excluded, found)
            if changes and (len(changes) >= _TOPICS_AT_ONCE or start + _TOPICS_AT_ONCE >= len(pairs)):
                await self._apply(changes, found)
                changes = {}
        return found.messages()

    async def _compare(
        self, pairs: Sequence[tuple[str, str]], excluded: Callable[[str], bool], found: _Warnings
    ) -> dict[str, Changes]:
        """Return the changes by remote topic."""
        source = await describe_topic_configs(self._source, [topic for topic, _ in pairs], timeout_ms=self._timeout_ms)
        target = await describe_topic_configs(
            self._admin.cluster, [remote for _, remote in pairs], timeout_ms=self._timeout_ms
        )
        changes: dict[str, Changes] = {}
        for number, (topic, remote) in enumerate(pairs, 1):
            if number % _COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
            here, there = source[topic], target[remote]
            if isinstance(here, BrokerError):
                found.refused(here, topic, self._flow.source)
            elif isinstance(there, BrokerError):
                found.refused(there, remote, self._flow.target)
            else:
                try:
                    diff = config_changes(
                        here.values(), there.values(), excluded=excluded, use_defaults_from=self._defaults_from
                    )
                except PluginError as error:
                    found.unanswered(error)
                    continue
                found.unknown(diff.unknown, remote)
                if diff.changes:
                    changes[remote] = diff.changes
        return changes

    async def _apply(self, changes: dict[str, Changes], found: _Warnings) -> None:
        try:
            outcome = await self._admin.alter_topic_configs(changes, timeout_ms=self._timeout_ms)
        except NotSupported as error:
            raise NotSupported(
                f"{error}; remote topics keep the configuration they were created with. Set"
                f" {self._flow}.sync.topic.configs.enabled = false to disable the sync"
            ) from error
        for remote, made in changes.items():
            refusal = outcome.get(remote)
            if refusal is None:
                changes_text = "; ".join(map(str, made))
                args = self._flow, remote, changes_text
                log.info("%s: updated configuration of remote topic %s: %s", *args, extra=about(topic=remote))
            else:
                found.refused(refusal, remote, self._flow.target, [one.name for one in made])


class _Warnings:
    """Collects the errors of one round; topics with the same error share one message."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._refused: dict[tuple[str, int], tuple[BrokerError, str, list[str]]] = {}
        self._unknown: dict[str, list[str]] = {}
        self._unanswered: dict[str, None] = {}

    def unanswered(self, error: PluginError) -> None:
        """Add the error of a custom config property filter."""
        self._unanswered[str(error)] = None

    def refused(self, error: BrokerError, topic: str, cluster: str, configs: Sequence[str] = ()) -> None:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return  # deleted meanwhile; the next discovery reports it
        is_rejected = error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION)
        keys = f"; {exclude_rejected(self._settings, error, configs)}" if configs and is_rejected else ""
        self._refused.setdefault((cluster, error.code), (error, keys, []))[2].append(topic)

    def unknown(self, configs: Sequence[str], remote: str) -> None:
        for name in configs:
            self._unknown.setdefault(name, []).append(remote)

    def messages(self) -> list[str]:
        messages = [f"cannot sync topic configurations: {error}" for error in self._unanswered]
        for (cluster, _), (error, keys, topics) in self._refused.items():
            more = f" (and {_more(topics)})" if len(topics) > 1 else ""
            messages.append(f"cannot sync topic configurations: cluster {cluster}: {error}{more}{keys}")
        if self._unknown:
            names = ", ".join(sorted(self._unknown))
            topics = sorted({topic for topics in self._unknown.values() for topic in topics})
            more = f" and {_more(topics)}" if len(topics) > 1 else ""
            messages.append(
                f"cannot sync topic configurations: the brokers of cluster {self._settings.flow.target} do not support"
                f" {names}; not set on {topics[0]}{more}; {exclude_key(self._settings, sorted(self._unknown))}"
            )
        return messages


def _more(topics: Sequence[str]) -> str:
    return f"{len(topics) - 1} more topic{'s' if len(topics) > 2 else ''}"


class TopicSync(Protocol):
    """One kind of sync."""

    async def round(self) -> list[str]:
        """Apply the differences to the target; return a warning for each failure. Raises ClusterError."""


class TopicSyncs:
    """The enabled syncs of one flow."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: ClusterAdmin,
        discovery: TopicDiscovery,
        replication_filter: ReplicationFilter,
    ) -> None:
        self._flow = settings.flow
        self._discovery = discovery
        self._warnings: dict[str, list[str]] = {}
        self._wakeups: list[Wakeup] = []
        self._syncs: list[tuple[str, TopicSync, int]] = []
        keys = settings.source
        if keys.sync_topic_configs_enabled and keys.sync_topic_configs_interval_seconds >= 0:
            configs = TopicConfigSync(settings, source, target, discovery)
            self._syncs.append(("sync topic configurations", configs, keys.sync_topic_configs_interval_seconds))
        if keys.sync_topic_acls_enabled and keys.sync_topic_acls_interval_seconds >= 0:
            acls = TopicAclSync(settings, source, target, discovery, replication_filter)
            self._syncs.append(("sync topic ACLs", acls, keys.sync_topic_acls_interval_seconds))

    @property
    def warnings(self) -> list[str]:
        """The warnings of the last rounds."""
        return [warning for warnings in self._warnings.values() for warning in warnings]

    def refresh(self) -> None:
        """Start the next round of each sync now instead of at the end of its interval."""
        for wakeup in self._wakeups:
            wakeup.ring()

    async def run(self) -> None:
        """Run each sync after the first discovery, then at its interval, until cancelled."""
        await self._discovery.wait()
        async with asyncio.TaskGroup() as group:
            for what, sync, interval in self._syncs:
                group.create_task(self._keep(what, sync, interval), name=f"{self._flow} {what}")

    async def _keep(self, what: str, sync: TopicSync, interval: int) -> None:
        wakeup = Wakeup()
        self._wakeups.append(wakeup)
        backoff = Backoff(1_000, 60_000)  # retries sooner than the interval, which is ten minutes by default
        while True:
            pause = float(interval)
            try:
                warnings = await sync.round()
                backoff.reset()
            except ClusterError as error:
                warnings = [f"cannot {what}: {error}"]
                pause = min(pause, backoff.next()) if error.retriable else pause
            except Exception as error:
                log.exception("%s: cannot %s: unexpected error; retrying", self._flow, what)
                warnings = [f"cannot {what}: unexpected error (see the log): {error!r}"]
            for warning in warnings:
                if warning not in self._warnings.get(what, ()):
                    log.warning("%s: %s", self._flow, warning)
            self._warnings[what] = warnings
            await wakeup.sleep(pause)
