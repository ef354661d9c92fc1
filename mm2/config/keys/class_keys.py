"""Keys whose value is a class: the built-in classes under their Java names, and the interface of custom classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

JAVA_MIRROR = "org.apache.kafka.connect.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassKey:
    """One such key. ``built_in`` maps Java's class names to ours, the default first. ``base`` is the base class of
    custom classes; it is imported only if there is one, because this package must not import all of them. ``methods``
    must be defined by the class or by ``base``; ``asynchronous``: they are coroutines, and the class must inherit from
    ``base``, which implements the rest."""

    name: str
    noun: str
    built_in: Mapping[str, str]
    base: str
    methods: tuple[str, ...]
    asynchronous: bool = False

    @property
    def default(self) -> str:
        """The default of Kafka."""
        return next(iter(self.built_in))


POLICY = ClassKey(
    name="replication.policy.class",
    noun="a replication policy",
    built_in={
        f"{JAVA_MIRROR}.DefaultReplicationPolicy": "mm2.core.policies:DefaultReplicationPolicy",
        f"{JAVA_MIRROR}.IdentityReplicationPolicy": "mm2.core.policies:IdentityReplicationPolicy",
    },
    base="mm2.core.policies:ReplicationPolicy",
    methods=(
        "format_remote_topic",
        "topic_source",
        "upstream_topic",
        "original_topic",
        "heartbeats_topic",
        "offset_syncs_topic",
        "checkpoints_topic",
        "is_heartbeats_topic",
        "is_checkpoints_topic",
        "is_mm2_internal_topic",
        "is_internal_topic",
    ),
)
TOPIC_FILTER = ClassKey(
    name="topic.filter.class",
    noun="a topic filter",
    built_in={f"{JAVA_MIRROR}.DefaultTopicFilter": "mm2.config.plugins.filters:NameFilter"},
    base="mm2.core.plugins:TopicFilter",
    methods=("should_replicate_topic",),
)
GROUP_FILTER = ClassKey(
    name="group.filter.class",
    noun="a group filter",
    built_in={f"{JAVA_MIRROR}.DefaultGroupFilter": "mm2.config.plugins.filters:NameFilter"},
    base="mm2.core.plugins:GroupFilter",
    methods=("should_replicate_group",),
)
PROPERTY_FILTER = ClassKey(
    name="config.property.filter.class",
    noun="a filter of topic settings",
    built_in={f"{JAVA_MIRROR}.DefaultConfigPropertyFilter": "mm2.config.plugins.filters:PropertyFilter"},
    base="mm2.core.plugins:ConfigPropertyFilter",
    methods=("should_replicate_config_property",),
)
ADMIN = ClassKey(
    name="forwarding.admin.class",
    noun="an admin",
    built_in={"org.apache.kafka.clients.admin.ForwardingAdmin": "mm2.kafka.admin:ClusterAdmin"},
    base="mm2.kafka.admin:ClusterAdmin",
    methods=("create_topics", "create_partitions", "alter_topic_configs", "create_acls"),
    asynchronous=True,
)

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
LOGIN_HANDLER = ClassKey(  # a key of clients, not of connectors
    name="sasl.login.callback.handler.class",
    noun="a login callback handler",
    built_in={
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler": "mm2.kafka.sasl.token_endpoint:request_token",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler": "mm2.kafka.sasl.token_endpoint:request_token",
        UNSECURED_HANDLER: "mm2.core.oauth.tokens:unsecured_token",
    },
    base="mm2.core.plugins:LoginCallbackHandler",
    methods=("token",),
)

CLASS_KEYS = (POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER, ADMIN)


def is_own(text: str) -> bool:
    """Return whether ``text`` names a custom class, whether or not the name is valid."""
    return ":" in text
