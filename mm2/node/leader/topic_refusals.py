"""The keys of the file that let a topic through which the target rejects (docs/how-to/troubleshooting.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mm2.config.plugins.filters import PropertyFilter
from mm2.config.settings import FlowSettings
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode

_KEYS: dict[int, str] = {
    ErrorCode.INVALID_REPLICATION_FACTOR: "set {flow}.replication.factor, which is {factor}, to at most the number of"
    " brokers of {target}, or to -1 for their default",
    ErrorCode.INVALID_CONFIG: "{exclude}",
    ErrorCode.POLICY_VIOLATION: "a policy of cluster {target} decides: {flow}.replication.factor and"
    " {flow}.config.properties.exclude change what is requested; a remote topic that you create yourself is used as it"
    " is; {flow}.topics.exclude leaves {topic} out",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "{name}: {flow}.replication.policy.class and"
    " {flow}.replication.policy.separator decide how it is made; {flow}.topics.exclude leaves {topic} out",
    ErrorCode.INVALID_PARTITIONS: "a remote topic that you create yourself, with fewer partitions, is used as it is;"
    " {flow}.topics.exclude leaves {topic} out",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "retrying; raise the quota controller_mutation_rate of the node's user or"
    " client ID on cluster {target}, as no key avoids it",
}

_VALID_NAME = "a name has at most 249 letters, digits, dots, underscores and hyphens"
_DISTINCT_NAME = "the name of another topic differs in dots and underscores only, which Kafka does not permit"
_COLLIDES = "collides"
"""Part of the broker's words for such a name (ReplicationControlManager.validateNewTopicNames)."""


def keys_of_refusal(error: BrokerError, settings: FlowSettings, topic: str, configs: Iterable[str] = ()) -> str:
    """Return what to change so that the target accepts the remote topic, as the end of the error; empty: unknown.

    ``topic`` is the source topic, and ``configs`` the names of the configurations in the request.
    """
    keys = _KEYS.get(error.code)
    if keys is None:
        return ""
    flow = settings.flow
    exclude = exclude_key(settings, _named(error, configs))
    factor = settings.source.replication_factor
    name = _DISTINCT_NAME if _COLLIDES in (error.words or "") else _VALID_NAME
    return "; " + keys.format(flow=flow, target=flow.target, topic=topic, factor=factor, exclude=exclude, name=name)


def exclude_rejected(settings: FlowSettings, error: BrokerError, configs: Sequence[str]) -> str:
    """Return how not to copy what the target rejects: those of ``configs`` that the broker names, or all of them."""
    return exclude_key(settings, _named(error, configs) or configs)


def exclude_key(settings: FlowSettings, configs: Iterable[str]) -> str:
    """Return how not to copy these configurations of topics; none: the broker's message names them."""
    names = ", ".join(configs) or "the configuration"
    if isinstance(settings.config_property_filter, PropertyFilter):
        return f"add {names} to {settings.flow}.config.properties.exclude"
    return f"let {settings.flow}.config.property.filter.class exclude {names}"


def _named(error: BrokerError, configs: Iterable[str]) -> list[str]:
    """Return the configurations that the broker's message contains, but for those within the name of another one."""
    found = [name for name in configs if name in (error.words or "")]
    return sorted(name for name in found if not any(name != other and name in other for other in found))
