"""One round of topic configuration sync: applies the source's changes to remote topics, incrementally (KIP-894)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cache

from mm2.config.settings import FlowSettings
from mm2.core.plugins import PluginError
from mm2.core.topics.topic_configs import DefaultsFrom, DeleteConfig, SetConfig, config_changes
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.leader.discovery import TopicDiscovery
from mm2.node.leader.topic_refusals import exclude_key, exclude_rejected

log = logging.getLogger(__name__)

Changes = Sequence[SetConfig | DeleteConfig]

_TOPICS_AT_ONCE = 500  # topics per request; the configurations of 10,000 topics would need 100 MB
_COMPARED_AT_ONCE = 100  # topics processed before yielding to the event loop: about 5 ms


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
                log.info("%s: updated configuration of remote topic %s: %s", self._flow, remote, changes_text)
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
